//! Addresses that no packet for the outside may show: inside addresses of a translator with two
//! places, and backends of a balancer with two.

use std::net::IpAddr;

use crate::balanced::Mode;
use crate::chains::{Naive, Spec};
use crate::prefix::Prefix;
use crate::wire::{Frame, ICMP, ICMPV6, View, addresses, view};

/// Addresses that the pairs of a chain hide.
pub(crate) struct Hidden {
    /// All packets from these are translated.
    inside: Vec<Prefix>,
    /// Packets from these are translated where they belong to a connection.
    backends: Vec<IpAddr>,
}

impl Hidden {
    pub(crate) fn of(specs: &[Spec]) -> Self {
        let mut hidden = Self { inside: Vec::new(), backends: Vec::new() };
        for spec in specs {
            let Naive::First(own) = &spec.naive else { continue };
            match &**own {
                Naive::Nat(config) if !config.rules.choose() => {
                    hidden.inside.extend(&config.inside)
                }
                Naive::Balancer(config) if matches!(config.mode, Mode::Dnat) => {
                    hidden.backends.extend(config.backends().map(|own| own.address));
                }
                _ => {}
            }
        }
        hidden
    }

    /// Whether a packet is not for an address that is hidden.
    pub(crate) fn is_to_outside(&self, frame: &Frame) -> bool {
        seen(frame).is_some_and(|seen| !self.holds(seen.dst))
    }

    fn is_inside(&self, address: IpAddr) -> bool {
        self.inside.iter().any(|prefix| prefix.holds(address))
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.is_inside(address) || self.backends.contains(&address)
    }

    /// A hidden address that `sent` shows to the outside, and that its cause did not bring from
    /// there.
    pub(crate) fn shown(&self, cause: &Frame, sent: &Frame) -> Option<IpAddr> {
        let seen = seen(sent)?;
        if self.holds(seen.dst) || stays(seen.dst) {
            return None;
        }
        let from = self::seen(cause)?;
        let shows = |address: &&IpAddr| match self.is_inside(from.src) {
            true => self.is_inside(**address),
            false if self.holds(from.src) => false,
            false => self.holds(**address) && !from.all().any(|known| known == *address),
        };
        seen.shown().find(shows).copied()
    }
}

/// Packets that stay on their link are not translated.
fn stays(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(to) => {
            to.is_link_local() || to.is_broadcast() || to.octets()[..3] == [224, 0, 0]
        }
        IpAddr::V6(to) => {
            let first = to.segments()[0];
            first & 0xffc0 == 0xfe80 || first >> 8 == 0xff && first & 15 <= 2
        }
    }
}

/// The addresses in a packet.
struct Seen {
    src: IpAddr,
    dst: IpAddr,
    quoted: Vec<IpAddr>,
}

impl Seen {
    fn shown(&self) -> impl Iterator<Item = &IpAddr> {
        self.quoted.iter().chain([&self.src])
    }

    fn all(&self) -> impl Iterator<Item = &IpAddr> {
        self.shown().chain([&self.dst])
    }
}

fn seen(frame: &Frame) -> Option<Seen> {
    let view = view(frame);
    if view.version == 0 || view.lie.is_some() || view.cut {
        return None;
    }
    let (src, dst) = view.addresses(&frame.bytes);
    Some(Seen { src, dst, quoted: quoted(frame, &view) })
}

/// The addresses of the packet that an ICMP error quotes.
fn quoted(frame: &Frame, view: &View) -> Vec<IpAddr> {
    let is_error = match (view.version, view.message(&frame.bytes)) {
        (4, Some((kind, _))) => view.protocol == ICMP && [3, 4, 5, 11, 12].contains(&kind),
        (6, Some((kind, _))) => view.protocol == ICMPV6 && kind < 128,
        _ => false,
    };
    let quote = frame.bytes.get(view.payload..view.end).unwrap_or_default();
    let len = if view.version == 4 { 20 } else { 40 };
    if !is_error || quote.len() < len || quote[0] >> 4 != view.version {
        return Vec::new();
    }
    let (src, dst) = addresses(view.version, quote);
    vec![src, dst]
}
