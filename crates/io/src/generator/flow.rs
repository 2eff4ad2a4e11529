//! Who talks to whom: the 5-tuple of flow number i, computed from (seed, i) whenever it is needed.
//!
//! A table of a million flows would be read from memory at random; computing a flow takes less
//! time than such a read, and no memory.

use super::rng::{Rng, mix};

/// Distinct flows: 2^20 inside hosts with up to 16 each.
pub(super) const FLOWS_MAX: u64 = 1 << FLOW_BITS;

/// Properties common to all packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) kind: HeaderKind,
    /// The inside host: the low 24 bits of its address.
    pub(super) inside: u32,
    /// The outside server: the low 17 bits of its address.
    pub(super) outside: u32,
    pub(super) inside_port: u16,
    pub(super) outside_port: u16,
    /// The first TCP sequence number and the acknowledgment.
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
}

/// Which headers a flow's packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderKind {
    /// IPv6 instead of IPv4.
    pub(super) six: bool,
    /// TCP instead of UDP.
    pub(super) tcp: bool,
}

impl HeaderKind {
    /// Bytes of the Ethernet, IP and transport headers.
    pub(super) const fn headers_len(self) -> usize {
        14 + if self.six { 40 } else { 20 } + if self.tcp { 20 } else { 8 }
    }
}

/// One of two, or both in equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// IPv4; UDP.
    First,
    /// IPv6; TCP.
    Second,
    /// One flow in two.
    Mix,
}

impl Share {
    pub(super) const fn has_second(self) -> bool {
        !matches!(self, Self::First)
    }

    const fn is_second(self, coin: bool) -> bool {
        match self {
            Self::First => false,
            Self::Second => true,
            Self::Mix => coin,
        }
    }
}

/// All flows of a seed.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    key: u64,
    multipliers: [u64; 2],
    ip: Share,
    protocol: Share,
}

impl Flows {
    pub(super) fn new(seed: u64, ip: Share, protocol: Share) -> Self {
        let mut rng = Rng::stream(seed, STREAM);
        let key = rng.bits();
        let multipliers = [rng.bits() | 1, rng.bits() | 1];
        Self { key, multipliers, ip, protocol }
    }

    /// Flow `number`, below [`FLOWS_MAX`]. Different numbers have different 5-tuples.
    #[inline]
    pub(super) fn flow(&self, number: u64) -> Flow {
        let place = self.permute(number);
        let (host, slot) = (place >> 4, place & 15);
        let of_host = mix(self.key ^ host);
        let of_flow = mix(self.key ^ !number);
        let kind = HeaderKind {
            six: self.ip.is_second(of_flow & 1 == 1),
            tcp: self.protocol.is_second(of_flow & 2 == 2),
        };
        let ports = if kind.tcp { &TCP_PORTS } else { &UDP_PORTS };
        let more = mix(of_flow);
        Flow {
            kind,
            // Each host has a block of 16 addresses and uses one of the inner 14: no .0, no .255.
            inside: ((host << 4) + 1 + (of_host >> 32) % 14) as u32,
            outside: (of_flow >> 8) as u32 & 0x1_ffff,
            // 16 steps of 4001 stay below 64 512, so that a host's ports differ.
            inside_port: 1024 + (((of_host & 0xffff) + slot * 4001) % 64_512) as u16,
            outside_port: ports[(of_flow >> 32) as usize % ports.len()],
            sequence: more as u32,
            acknowledgment: (more >> 32) as u32,
        }
    }

    /// A permutation of the numbers below 2^24: multiplying by an odd number and folding the high
    /// bits into the low ones can both be undone.
    fn permute(&self, number: u64) -> u64 {
        const MASK: u64 = FLOWS_MAX - 1;
        let x = number.wrapping_mul(self.multipliers[0]).wrapping_add(self.key) & MASK;
        let x = (x ^ (x >> 12)).wrapping_mul(self.multipliers[1]) & MASK;
        x ^ (x >> 11)
    }
}

/// The stream that the flows' keys are drawn from; a generator's packets have 1 to 4.
const STREAM: u64 = 0;

const FLOW_BITS: u32 = 24;

/// Ports of TCP servers: HTTP, HTTPS, SSH, SMTP, IMAPS, HTTP again, MySQL, DNS.
const TCP_PORTS: [u16; 8] = [80, 443, 22, 25, 993, 8080, 3306, 53];

/// Ports of UDP servers: DNS, QUIC, NTP, SIP, syslog, STUN, WireGuard, VXLAN.
const UDP_PORTS: [u16; 8] = [53, 443, 123, 5060, 514, 3478, 51_820, 4789];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn five_tuples_are_distinct_and_in_their_ranges() {
        for seed in [0, 1, 99] {
            let flows = Flows::new(seed, Share::First, Share::Second);
            let mut seen = HashSet::new();
            for number in (0..100_000).chain(FLOWS_MAX - 100_000..FLOWS_MAX) {
                let flow = flows.flow(number);
                assert!(flow.inside < 1 << 24 && flow.outside < 1 << 17);
                assert!((1..=14).contains(&(flow.inside & 15)) && flow.inside_port >= 1024);
                assert!(TCP_PORTS.contains(&flow.outside_port));
                seen.insert((flow.inside, flow.inside_port));
            }
            assert_eq!(seen.len(), 200_000);
        }
    }

    #[test]
    fn permutation_reaches_every_number() {
        let flows = Flows::new(3, Share::First, Share::First);
        let mut seen = vec![false; FLOWS_MAX as usize];
        (0..FLOWS_MAX).for_each(|number| seen[flows.permute(number) as usize] = true);
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn a_flow_depends_on_seed_and_number_alone() {
        let tuple = |seed, number| Flows::new(seed, Share::Mix, Share::Mix).flow(number);
        assert_eq!(tuple(5, 17), tuple(5, 17));
        assert_ne!(tuple(5, 17), tuple(6, 17));
        assert_ne!(tuple(5, 17), tuple(5, 18));
    }

    #[test]
    fn mix_is_half_and_half() {
        let flows = Flows::new(8, Share::Mix, Share::Mix);
        let mut counts = [0u32; 4];
        for number in 0..40_000 {
            let HeaderKind { six, tcp } = flows.flow(number).kind;
            counts[usize::from(six) * 2 + usize::from(tcp)] += 1;
        }
        // Standard deviation: 87.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 450), "{counts:?}");
    }
}
