//! Reads neighbour files: lines of `address mac`, and what `ip neigh` prints.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;

use warpline_config::{Diagnostic, SourceText};

use crate::words::{is_link_local, shorten};

/// Neighbours that a file may hold.
pub const NEIGHBOURS_MAX: usize = 1 << 20;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = &'static str;

    /// Reads six pairs of hexadecimal digits between colons. An address of a group (the lowest bit
    /// of the first byte is set) is refused: neither a router nor a next hop is one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "not an Ethernet address such as 02:00:00:00:00:01";
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| matches!(part.len(), 1 | 2)).ok_or(FORM)?;
            if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(FORM);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| FORM)?;
        }
        match (parts.next(), bytes[0] & 1) {
            (None, 0) => Ok(Self(bytes)),
            (None, _) => Err("the Ethernet address of a group"),
            (Some(_), _) => Err(FORM),
        }
    }
}

/// Neighbours by address and, for link-local ones, by interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours<'a> {
    by_address: HashMap<(IpAddr, Option<&'a str>), (Mac, u32)>,
}

impl<'a> Neighbours<'a> {
    /// The Ethernet address of `address`; `device` counts for link-local addresses only.
    pub fn mac(&self, address: IpAddr, device: Option<&'a str>) -> Option<Mac> {
        let device = device.filter(|_| is_link_local(address));
        let exact = self.by_address.get(&(address, device));
        exact.or_else(|| self.by_address.get(&(address, None))).map(|found| found.0)
    }

    /// Every address and the interface that it is on, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, Option<&'a str>, Mac)> {
        self.by_address.iter().map(|(&(address, device), &(mac, _))| (address, device, mac))
    }
}

/// Parses a file. `note` receives every mistake, and its line is left out.
pub fn read<'a>(source: &'a SourceText, note: &mut dyn FnMut(Diagnostic)) -> Neighbours<'a> {
    let mut found = Neighbours::default();
    for (index, text) in source.text.lines().enumerate() {
        let number = index + 1;
        if let Err((word, message)) = line(text, number as u32, &mut found) {
            let at = (word.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
            note(source.in_line(number, text, at, word.len(), message));
            if found.by_address.len() >= NEIGHBOURS_MAX {
                break;
            }
        }
    }
    found
}

fn line<'a>(
    text: &'a str,
    number: u32,
    found: &mut Neighbours<'a>,
) -> Result<(), (&'a str, String)> {
    let mut words = text.split('#').next().unwrap_or("").split_ascii_whitespace();
    let Some(first) = words.next() else { return Ok(()) };
    let address: IpAddr = first
        .parse()
        .map_err(|_| (first, format!("`{}` is not an IPv4 or IPv6 address", shorten(first))))?;
    let Some((mac, device)) = link_address(first, words)? else { return Ok(()) };
    if found.by_address.len() >= NEIGHBOURS_MAX {
        return Err((first, format!("more than {NEIGHBOURS_MAX} neighbours")));
    }
    let key = (address, device.filter(|_| is_link_local(address)));
    let (known, line) = *found.by_address.entry(key).or_insert((mac, number));
    if known == mac {
        Ok(())
    } else {
        Err((first, format!("{address} has another Ethernet address in line {line}")))
    }
}

type Link<'a> = Option<(Mac, Option<&'a str>)>;

/// The Ethernet address and the interface; `None` where the system that printed the line has none.
fn link_address<'a>(
    first: &'a str,
    mut words: std::str::SplitAsciiWhitespace<'a>,
) -> Result<Link<'a>, (&'a str, String)> {
    let (mut mac, mut device) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "dev" => device = words.next(),
            "lladdr" if mac.is_none() => {}
            "FAILED" | "INCOMPLETE" | "NOARP" | "NONE" => return Ok(None),
            "REACHABLE" | "STALE" | "DELAY" | "PROBE" | "PERMANENT" | "router" | "proxy"
            | "extern_learn" | "managed" | "offload" => {}
            "proto" | "protocol" => {
                words.next();
            }
            _ if mac.is_none() => {
                let why = |why| (word, format!("`{}`: {why}", shorten(word)));
                mac = Some(word.parse::<Mac>().map_err(why)?);
            }
            _ => return Err((word, format!("`{}` is not a word of a neighbour", shorten(word)))),
        }
    }
    match mac {
        Some(mac) => Ok(Some((mac, device))),
        None => Err((first, format!("{first} has no Ethernet address"))),
    }
}
