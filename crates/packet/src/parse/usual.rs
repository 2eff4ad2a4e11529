//! The fast path for nearly every frame: TCP, UDP or ESP directly in IPv4 without options, in
//! Ethernet.

use super::Headers;
use crate::Flags;
use crate::wire::{esp, ethernet, ethertype, ip_protocol, ipv4, tcp, udp};

impl Headers {
    /// The result of [`Headers::find`] for nearly every frame, in fewer steps: TCP, UDP or ESP in a
    /// whole IPv4 packet without options, directly in Ethernet. `None` for all others, and for
    /// malformed ones.
    #[inline(always)]
    pub(super) fn plain(frame: &[u8]) -> Option<Self> {
        const L4: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        const KIND: [u8; 2] = ethertype::IPV4.to_be_bytes();
        let heads: &[u8; L4 + udp::HEADER_LEN] = frame.first_chunk()?;
        let at = |start: usize| [heads[start], heads[start + 1]];
        let in_ip = |field: core::ops::Range<usize>| at(ethernet::HEADER_LEN + field.start);
        let [more, offset] = in_ip(ipv4::field::FLAGS_FRAGMENT);
        let is_plain = at(ethernet::field::ETHERTYPE.start) == KIND
            && heads[ethernet::HEADER_LEN] == 0x45
            && (more & 0x3f, offset) == (0, 0);
        let total_len = usize::from(u16::from_be_bytes(in_ip(ipv4::field::TOTAL_LEN)));
        let body_len = total_len.checked_sub(ipv4::HEADER_LEN).filter(|_| is_plain)?;
        let [_, protocol] = in_ip(ipv4::field::TTL);
        let (header_len, wanted) = match protocol {
            ip_protocol::UDP => {
                let len = u16::from_be_bytes(at(L4 + udp::field::LENGTH.start)).into();
                (udp::HEADER_LEN, if len < udp::HEADER_LEN { return None } else { len })
            }
            ip_protocol::TCP => {
                let len = usize::from(frame.get(L4 + tcp::field::OFFSET_FLAGS.start)? >> 4) * 4;
                (len, if len < tcp::HEADER_LEN { return None } else { len })
            }
            ip_protocol::ESP => (esp::HEADER_LEN, esp::HEADER_LEN),
            _ => return None,
        };
        if wanted > body_len || ethernet::HEADER_LEN + total_len > frame.len() {
            return None;
        }
        Some(Self {
            end: (ethernet::HEADER_LEN + total_len) as u32,
            l3: ethernet::HEADER_LEN as u16,
            l4: L4 as u16,
            payload: (L4 + header_len) as u16,
            flags: Flags(Flags::TRANSPORT),
            version: 4,
            protocol,
            lie: 0,
            unused: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkType;

    /// Frames with every value of each byte that decides, whole and cut.
    #[test]
    fn plain_packets_are_found_as_all_are() {
        let (mut plain, mut others) = (0, 0);
        for protocol in [ip_protocol::TCP, ip_protocol::UDP, ip_protocol::ESP, ip_protocol::ICMP] {
            let mut whole = vec![2; 12];
            whole.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1]);
            whole.extend([10, 0, 0, 2, 0, 53, 0, 53, 0, 30, 0, 0, 9, 9, 9, 9, 0x50, 9]);
            whole.resize(66, 7);
            for at in [12, 13, 14, 16, 17, 20, 21, 23, 38, 39, 46] {
                for value in 0..=u8::MAX {
                    let was = core::mem::replace(&mut whole[at], value);
                    for len in [0, 13, 34, 41, 42, 46, 47, 54, 63, 64, 66] {
                        for wire_len in [0, len, 66, 99] {
                            let mut all = Headers::default();
                            all.find_any(&whole[..len], LinkType::ETHERNET, wire_len);
                            let found = Headers::parse(&whole[..len], LinkType::ETHERNET, wire_len);
                            assert_eq!(found, all, "{protocol} {at} {value} {len} {wire_len}");
                            let is_plain = Headers::plain(&whole[..len]).is_some();
                            (plain, others) =
                                (plain + u32::from(is_plain), others + u32::from(!is_plain));
                        }
                    }
                    whole[at] = was;
                }
            }
        }
        assert!(plain > 9999 && others > 9999, "{plain} {others}");
    }
}
