//! Rules without a literal: found by the addresses that they name, or by ports if these are few.
//! The rest is tested on every packet of its protocol.

use core::net::IpAddr;

use super::addresses::AddressIndex;
use super::ports::Sides;
use super::ranges::Ranges;
use super::{Member, UPPERS, Upper};
use warpline_nids_rules::Addresses;

/// Which packets a rule without a literal is asked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All.
    Packet,
    /// The first of each direction of a flow, and those of no flow: it is about addresses only.
    Direction,
    /// Those of TCP with SYN: no other can match.
    Syn,
}

/// See the module.
pub(super) struct Unanchored {
    /// By source, by destination.
    by_address: [AddressIndex; 2],
    /// By [`Upper`].
    uppers: [OfUpper; 4],
}

/// Rules that name no few addresses.
struct OfUpper {
    /// By source, by destination.
    by_port: [Ranges<u16>; 2],
    general: Vec<u32>,
}

impl Unanchored {
    /// Of rules without a literal.
    pub(super) fn new<'a>(members: impl Iterator<Item = &'a Member<'a>>) -> Self {
        let (by_address, rest): (Vec<_>, Vec<_>) = members.partition(|member| {
            let header = &member.rule.header;
            is_few(&header.src) || is_few(&header.dst)
        });
        let index = |is_dst: bool| {
            AddressIndex::new(by_address.iter().filter_map(move |member| addresses(member, is_dst)))
        };
        Self {
            by_address: [index(false), index(true)],
            uppers: UPPERS.map(|upper| OfUpper::new(upper, &rest)),
        }
    }

    /// Those that may match a packet, some more than once.
    #[inline]
    pub(super) fn rules(
        &self,
        upper: Upper,
        [src, dst]: [IpAddr; 2],
        [src_port, dst_port]: [u16; 2],
    ) -> impl Iterator<Item = u32> {
        let [by_src, by_dst] = &self.by_address;
        let OfUpper { by_port: [by_src_port, by_dst_port], general } = &self.uppers[upper as usize];
        let by_address = by_src.of(src).iter().chain(by_dst.of(dst));
        let by_port = by_src_port.of(src_port).iter().chain(by_dst_port.of(dst_port));
        by_address.chain(by_port).chain(general).copied()
    }
}

impl OfUpper {
    fn new(upper: Upper, members: &[&Member<'_>]) -> Self {
        let members = members.iter().filter(|member| member.is_of(upper));
        let (by_port, general): (Vec<&Member<'_>>, Vec<_>) =
            members.partition(|member| upper.has_ports() && !member.sides.is_general());
        let index = |is_dst: bool| {
            let named = by_port.iter().flat_map(|member| {
                let Sides { by_src, by_dst } = member.sides;
                let ports = if is_dst { by_dst } else { by_src };
                let ranges = ports.map_or(&[][..], |ports| &ports.0);
                ranges.iter().map(|&(first, last)| (first, last, member.at))
            });
            Ranges::new(named.collect(), |port| port.checked_add(1))
        };
        Self {
            by_port: [index(false), index(true)],
            general: general.iter().map(|member| member.at).collect(),
        }
    }
}

/// The rule and the addresses that it is found by at the source or the destination.
fn addresses<'a>(member: &Member<'a>, is_dst: bool) -> Option<(u32, &'a Addresses)> {
    let header = &member.rule.header;
    let (by_src, addresses) =
        if is_few(&header.src) { (true, &header.src) } else { (false, &header.dst) };
    (by_src != is_dst || header.is_bidirectional).then_some((member.at, &**addresses))
}

/// Whether a set has so few addresses that few packets are in it.
fn is_few(addresses: &Addresses) -> bool {
    let v4: u64 = addresses.v4.iter().map(|(a, b)| u64::from(b.to_bits() - a.to_bits()) + 1).sum();
    let v6 = addresses.v6.iter().map(|(a, b)| b.to_bits() - a.to_bits()).max().unwrap_or(0);
    v4 <= FEW_V4 && v6 <= FEW_V6
}

const FEW_V4: u64 = 1 << 24;
const FEW_V6: u128 = 1 << 96;
