//! An alert as a line of `fast.log`, in Suricata's form.

use core::net::IpAddr;
use std::io::Write;

use super::Alert;
use super::text::{address, fast_time, protocol_name};
use warpline_nf::is_deceptive;
use warpline_nids_rules::About;

/// Appends the line of `alert`, of the rule `about`. A frame that is not IP has no addresses to
/// print.
pub(super) fn write_line(out: &mut Vec<u8>, alert: &Alert<'_>, about: &About) {
    fast_time(out, alert.captured);
    let drop = if alert.is_blocked { "[Drop] " } else { "" };
    let class = if about.class.is_empty() { "(null)" } else { &*about.class };
    let About { gid, sid, rev, msg, priority, .. } = about;
    let _ = write!(
        out,
        "  {drop}[**] [{gid}:{sid}:{rev}] {} [**] [Classification: {}] [Priority: {priority}]",
        OneLine(msg),
        OneLine(class)
    );
    if let Some((src, dst)) = alert.ends {
        let _ = match protocol_name(alert.protocol) {
            Some(name) => write!(out, " {{{name}}} "),
            None => write!(out, " {{PROTO:{:03}}} ", alert.protocol),
        };
        end(out, src, alert.src_port);
        out.extend_from_slice(b" -> ");
        end(out, dst, alert.dst_port);
    }
    out.push(b'\n');
}

fn end(out: &mut Vec<u8>, ip: IpAddr, port: u16) {
    address(out, ip);
    let _ = write!(out, ":{port}");
}

/// A text with a space for each character that could make a line look like another's.
struct OneLine<'a>(&'a str);

impl core::fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for part in self.0.split_inclusive(is_deceptive) {
            let plain = part.strip_suffix(is_deceptive);
            f.write_str(plain.unwrap_or(part))?;
            f.write_str(if plain.is_some() { " " } else { "" })?;
        }
        Ok(())
    }
}
