//! SAs and policies of the naive gateway (RFC 4301, 4.4), and how their files have them.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::prefix::Prefix;
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16};

const SCTP: u8 = 132;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    Null,
    Cbc,
    Ctr,
    Gcm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    None,
    Sha1,
    Sha256,
}

/// The don't-fragment bit of outer IPv4 headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DontFragment {
    Copy,
    Set,
    Clear,
}

/// A security association.
#[derive(Clone, Debug)]
pub(crate) struct Sa {
    pub(crate) name: String,
    pub(crate) is_out: bool,
    pub(crate) spi: u32,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) is_tunnel: bool,
    pub(crate) cipher: Cipher,
    pub(crate) enc_key: Vec<u8>,
    pub(crate) auth: Auth,
    pub(crate) auth_key: Vec<u8>,
    pub(crate) esn: bool,
    pub(crate) window: u32,
    /// Ports of UDP.
    pub(crate) encap: Option<[u16; 2]>,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) hard: Limits,
    pub(crate) sequence: u64,
    pub(crate) dscp: Option<u8>,
    pub(crate) ecn: bool,
    pub(crate) df: DontFragment,
    pub(crate) hops: u8,
    pub(crate) mtu: usize,
}

/// When an SA ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) bytes: Option<u64>,
    pub(crate) packets: Option<u64>,
    pub(crate) seconds: Option<u64>,
}

/// The packets that a policy or an SA covers.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    pub(crate) src: Option<Prefix>,
    pub(crate) dst: Option<Prefix>,
    pub(crate) protocol: Option<u8>,
    /// Of source and destination; of ICMP type and code.
    pub(crate) ports: [Option<RangeInclusive<u16>>; 2],
}

/// The action for packets that match.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// The place of the SA.
    Protect(usize),
    Bypass,
    Discard,
}

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) selector: Selector,
    pub(crate) action: Action,
}

/// A port, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Is(u16),
    Absent,
    Hidden,
}

/// Fields of a packet that selectors check.
pub(crate) struct Traffic {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// `None`: hidden in another fragment, or cut off.
    pub(super) protocol: Option<u8>,
    pub(super) ports: [Port; 2],
}

impl Traffic {
    /// Of a packet of IP.
    pub(crate) fn of(frame: &Frame, view: &View) -> Self {
        let (src, dst) = view.addresses(&frame.bytes);
        let hides = view.version == 6 && [0, 43, 44, 51, 60].contains(&view.protocol);
        let body = frame.bytes.get(view.l4..view.end).filter(|_| !view.later());
        let body = body.unwrap_or_default();
        let ports = match view.protocol {
            TCP | UDP | SCTP if body.len() >= 4 => [0, 2].map(|at| word(body, at)),
            ICMP | ICMPV6 if body.len() >= 8 => [0, 1].map(|at| Port::Is(body[at].into())),
            TCP | UDP | SCTP | ICMP | ICMPV6 => [Port::Hidden; 2],
            _ if hides => [Port::Hidden; 2],
            _ => [Port::Absent; 2],
        };
        Self { src, dst, protocol: (!hides).then_some(view.protocol), ports }
    }
}

fn word(body: &[u8], at: usize) -> Port {
    Port::Is(be16(body, at).unwrap_or(0) as u16)
}

impl Selector {
    /// Whether it may be for a packet, if what is hidden is as it asks.
    pub(crate) fn may_match(&self, traffic: &Traffic) -> bool {
        let within = |prefix: &Option<Prefix>, address| {
            // One of the two is set, and both ends of a packet are of one version.
            prefix.is_none_or(|prefix| prefix.holds(address))
        };
        let fits = |asked: &Option<RangeInclusive<u16>>, port| match (asked, port) {
            (None, _) | (_, Port::Hidden) => true,
            (Some(_), Port::Absent) => false,
            (Some(range), Port::Is(port)) => range.contains(&port),
        };
        within(&self.src, traffic.src)
            && within(&self.dst, traffic.dst)
            && self.protocol.is_none_or(|own| traffic.protocol.is_none_or(|other| own == other))
            && (0..2).all(|end| fits(&self.ports[end], traffic.ports[end]))
    }

    /// Whether it asks for what is hidden.
    pub(crate) fn asks_hidden(&self, traffic: &Traffic) -> bool {
        let hides = traffic.ports.contains(&Port::Hidden);
        (hides && self.ports.iter().any(Option::is_some))
            || (traffic.protocol.is_none() && self.protocol.is_some())
    }

    pub(crate) fn matches(&self, traffic: &Traffic) -> bool {
        self.may_match(traffic) && !self.asks_hidden(traffic)
    }
}

/// As a file has it, in one line.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        for (key, prefix) in [("src", self.src), ("dst", self.dst)] {
            keys.extend(prefix.map(|prefix| format!("{key} = '{prefix}'")));
        }
        keys.extend(self.protocol.map(|protocol| format!("protocol = {protocol}")));
        for (key, ports) in ["src_ports", "dst_ports"].iter().zip(&self.ports) {
            let range = ports.as_ref().map(|ports| format!("{}-{}", ports.start(), ports.end()));
            keys.extend(range.map(|range| format!("{key} = '{range}'")));
        }
        f.write_str(&keys.join(", "))
    }
}

impl fmt::Display for Sa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.is_out { "out" } else { "in" };
        let mode = if self.is_tunnel { "tunnel" } else { "transport" };
        let Self { name, spi, src, dst, esn, sequence, ecn, hops, mtu, .. } = self;
        writeln!(f, "[[sa]]\nname = '{name}'\ndirection = '{direction}'\nspi = {spi}")?;
        writeln!(f, "src = '{src}'\ndst = '{dst}'\nmode = '{mode}'\nesn = {esn}")?;
        writeln!(f, "sequence = {sequence}\necn = {ecn}\nhops = {hops}\nmtu = {mtu}")?;
        let (cipher, auth) = (cipher_name(self.cipher), auth_name(self.auth));
        writeln!(f, "cipher = '{cipher}'\nauth = '{auth}'")?;
        for (key, bytes) in [("enc_key", &self.enc_key), ("auth_key", &self.auth_key)] {
            if !bytes.is_empty() {
                writeln!(f, "{key} = '{}'", hex(bytes))?;
            }
        }
        let df = match self.df {
            DontFragment::Copy => "copy",
            DontFragment::Set => "set",
            DontFragment::Clear => "clear",
        };
        writeln!(f, "df = '{df}'")?;
        if let Some(dscp) = self.dscp {
            writeln!(f, "dscp = {dscp}")?;
        }
        if !self.is_out {
            writeln!(f, "replay_window = {}", self.window)?;
        }
        if let Some([src, dst]) = self.encap {
            writeln!(f, "encap = {{ src_port = {src}, dst_port = {dst} }}")?;
        }
        let selectors: Vec<_> = self.selectors.iter().map(|own| format!("{{ {own} }}")).collect();
        writeln!(f, "selectors = [{}]", selectors.join(", "))?;
        write!(f, "{}", self.hard)
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("bytes", self.bytes), ("packets", self.packets), ("seconds", self.seconds)];
        let said = all.iter().filter_map(|(key, limit)| Some(format!("{key} = {}", (*limit)?)));
        let said: Vec<_> = said.collect();
        if said.is_empty() {
            return Ok(());
        }
        writeln!(f, "lifetime = {{ hard = {{ {} }} }}", said.join(", "))
    }
}

fn cipher_name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Null => "null",
        Cipher::Cbc => "aes-cbc",
        Cipher::Ctr => "aes-ctr",
        Cipher::Gcm => "aes-gcm",
    }
}

fn auth_name(auth: Auth) -> &'static str {
    match auth {
        Auth::None => "none",
        Auth::Sha1 => "hmac-sha1-96",
        Auth::Sha256 => "hmac-sha2-256-128",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The file of policies.
pub(crate) fn policies(policies: &[Policy], sas: &[Sa]) -> String {
    let lines = policies.iter().map(|Policy { selector, action }| {
        let action = match action {
            Action::Protect(sa) => format!("action = 'protect', sa = '{}'", sas[*sa].name),
            Action::Bypass => "action = 'bypass'".to_owned(),
            Action::Discard => "action = 'discard'".to_owned(),
        };
        format!("    {{ {selector}, {action} }},\n")
    });
    format!("policy = [\n{}]\n", lines.collect::<String>())
}
