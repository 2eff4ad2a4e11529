//! The ways of a chain's packets: by the destinations of a capture, or by shares.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use warpline_engine::Chain;
use warpline_packet::{Headers, LinkType};
use warpline_sched::{Destination, RouteTo};
use warpline_sim::{HopShare, Misdivided, Ways};

use crate::Failure;
use crate::chain_file::Loaded;

/// Of each chain; `None` without routes.
pub(super) fn of_chains(chains: &[Loaded]) -> Vec<Option<Ways>> {
    let of = |chain: &Chain| {
        let routes = Arc::clone(chain.routes()?);
        Some(Ways::new(routes, chain.instances.len() as u8))
    };
    chains.iter().map(|loaded| of(loaded.chain())).collect()
}

/// The destination of a frame, as its routes see it.
pub(super) fn destination(frame: &[u8], link: LinkType, wire_len: usize) -> Destination {
    let headers = Headers::parse(frame, link, wire_len);
    let bytes = |from: usize| frame.get(usize::from(headers.l3) + from..);
    let v4 = || bytes(16)?.first_chunk::<4>().map(|own| Ipv4Addr::from(*own).to_bits());
    let v6 = || bytes(24)?.first_chunk::<16>().map(|own| Ipv6Addr::from(*own).to_bits());
    match headers.version {
        4 => v4().map_or(Destination::None, Destination::V4),
        6 => v6().map_or(Destination::None, Destination::V6),
        _ => Destination::None,
    }
}

/// Divides the packets of each chain by `FROM/TO=PART` texts. A name must be of one chain at least.
pub(super) fn divide(
    chains: &[Loaded],
    ways: &mut [Option<Ways>],
    shares: &[String],
) -> Result<(), Failure> {
    let parsed: Vec<Share<'_>> = shares.iter().map(|text| share(text)).collect::<Result<_, _>>()?;
    for (at, one) in parsed.iter().enumerate() {
        if parsed[..at].iter().any(|other| (other.from, other.to) == (one.from, one.to)) {
            return Err(of(&shares[at], "this route is given twice"));
        }
    }
    let mut is_used = vec![false; shares.len()];
    for (loaded, ways) in chains.iter().zip(ways) {
        let Some(ways) = ways else { continue };
        let own = parsed.iter().enumerate().filter_map(|(number, share)| {
            let hop = share.hop(loaded.chain())?;
            is_used[number] = true;
            Some((number, hop))
        });
        let (numbers, hops): (Vec<usize>, Vec<HopShare>) = own.unzip();
        ways.divide(&hops).map_err(|why| match why {
            Misdivided::NoRoute(at) => of(&shares[numbers[at]], "the chain has no such route"),
            Misdivided::Sum(from, sum) => Failure::Usage(format!(
                "--share: the parts of packets from {:?} add up to {:.6}, and must to 1",
                place(loaded.chain(), from),
                sum
            )),
        })?;
    }
    match is_used.iter().position(|is_used| !is_used) {
        Some(at) => Err(of(&shares[at], "no chain has routes between such places")),
        None => Ok(()),
    }
}

fn of(text: &str, why: &str) -> Failure {
    Failure::Usage(format!("--share {text}: {why}"))
}

fn place(chain: &Chain, from: Option<u8>) -> &str {
    from.map_or("ingress", |from| &chain.instances[usize::from(from)].name)
}

struct Share<'a> {
    from: &'a str,
    to: &'a str,
    part: f64,
}

fn share(text: &str) -> Result<Share<'_>, Failure> {
    let parts = || {
        let (hop, part) = text.split_once('=')?;
        let (from, to) = hop.split_once('/')?;
        let part = part.trim().parse().ok().filter(|part| (0.0..=1.0).contains(part))?;
        Some(Share { from: from.trim(), to: to.trim(), part })
    };
    parts().ok_or_else(|| of(text, "write FROM/TO=PART, with a part from 0 to 1"))
}

impl Share<'_> {
    /// In a chain that has both places.
    fn hop(&self, chain: &Chain) -> Option<HopShare> {
        let named = |name: &str| chain.instances.iter().position(|one| one.name == name);
        let from = match self.from {
            "ingress" => None,
            name => Some(named(name)? as u8),
        };
        let to = match self.to {
            "egress" => RouteTo::Egress,
            name => RouteTo::Function(named(name)? as u8),
        };
        Some(HopShare { from, to, part: self.part })
    }
}
