//! The search decides like the first matching policy of the list, with either search.

use core::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::hash::mix32;

use super::*;

/// RFC 4301, 4.4.1: policies are evaluated in order; one with a condition on hidden fields leaves
/// the decision open.
fn expected(policies: &[Policy], traffic: &Traffic) -> Decision {
    for Policy { selector, action } in policies {
        if !selector.src.contains(traffic.src) || !selector.dst.contains(traffic.dst) {
            continue;
        }
        let protocol = match (selector.protocol, traffic.protocol) {
            (None, _) => Some(true),
            (Some(own), Some(is)) => Some(own == is),
            (Some(_), None) => None,
        };
        let port = |asked: &RangeInclusive<u16>, port: Port| match port {
            _ if *asked == ANY_PORT => Some(true),
            Port::Is(port) => Some(asked.contains(&port)),
            Port::None => Some(false),
            Port::Hidden => None,
        };
        let answers = [
            protocol,
            port(&selector.src_ports, traffic.src_port),
            port(&selector.dst_ports, traffic.dst_port),
        ];
        if answers.contains(&Some(false)) {
            continue;
        }
        return if answers.contains(&None) { Decision::Uncertain } else { Decision::Is(*action) };
    }
    Decision::None
}

/// Numbers below a bound, the same in every run.
struct Numbers(u32);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 += 1;
        mix32(self.0) % bound
    }

    fn address(&mut self, is_v6: bool) -> IpAddr {
        let bytes = [10, self.below(2) as u8, self.below(3) as u8, self.below(4) as u8];
        match is_v6 {
            false => Ipv4Addr::from(bytes).into(),
            true => {
                Ipv6Addr::from((0x2001 << 112) | u128::from(u32::from_be_bytes(bytes)) << 64).into()
            }
        }
    }

    fn network(&mut self, is_v6: bool, lens: &[u8]) -> Prefix {
        let len = lens[self.below(lens.len() as u32) as usize];
        let len = if is_v6 && len > 0 { len + 32 } else { len };
        Prefix::new(self.address(is_v6), len).unwrap()
    }

    fn ports(&mut self) -> RangeInclusive<u16> {
        match self.below(3) {
            0 => 1..=self.below(4) as u16,
            _ => ANY_PORT,
        }
    }

    fn policy(&mut self, number: usize, dst_lens: &[u8]) -> Policy {
        let is_v6 = self.below(2) == 1;
        let selector = Selector {
            src: self.network(is_v6, &[0, 16, 24, 32]),
            dst: self.network(is_v6, dst_lens),
            protocol: (self.below(2) == 1).then_some(17),
            src_ports: self.ports(),
            dst_ports: self.ports(),
        };
        Policy { selector, action: Action::Protect(number) }
    }

    fn traffic(&mut self) -> Traffic {
        let is_v6 = self.below(2) == 1;
        let (src_port, dst_port) = match self.below(4) {
            0 => (Port::None, Port::None),
            1 => (Port::Hidden, Port::Hidden),
            _ => (Port::Is(self.below(5) as u16), Port::Is(self.below(5) as u16)),
        };
        Traffic {
            src: self.address(is_v6),
            dst: self.address(is_v6),
            protocol: [None, Some(6), Some(17)][self.below(3) as usize],
            src_port,
            dst_port,
        }
    }
}

#[test]
fn the_first_policy_that_matches_decides() {
    let mut numbers = Numbers(0);
    let (mut by_dst, mut by_space) = (0, 0);
    for round in 0..200 {
        // Few policies, many, and networks of more lengths than are looked for one by one.
        let (count, lens): (usize, &[u8]) = match round % 4 {
            0 => (round % 8, &[0, 16, 24, 32]),
            1 => (3, &[0, 24]),
            2 => (40, &[16, 32]),
            _ => (16, &[0, 12, 16, 20, 24, 32]),
        };
        let policies: Vec<Policy> = (0..count).map(|i| numbers.policy(i, lens)).collect();
        let spd = Spd::build(&policies).unwrap();
        for is_by_dst in
            [matches!(spd.v4.search, Search::ByDst(_)), matches!(spd.v6.search, Search::ByDst(_))]
        {
            *if is_by_dst { &mut by_dst } else { &mut by_space } += 1;
        }
        for _ in 0..300 {
            let traffic = numbers.traffic();
            assert_eq!(
                spd.decide(&traffic),
                expected(&policies, &traffic),
                "{traffic:?} by {policies:?}"
            );
        }
    }
    assert!(by_dst > 50 && by_space > 50, "{by_dst} tables, {by_space} spaces");
}
