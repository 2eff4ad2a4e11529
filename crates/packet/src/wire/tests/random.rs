//! Random bytes: everything that passes a check can be read without a panic.

use super::super::icmp_error::{Icmpv4Error, Icmpv6Error, MAX_LEN_V6, icmpv4_error, icmpv6_error};
use super::super::*;
use proptest::prelude::*;

/// 0 to 127 random bytes, most with a plausible header start, so that checks are passed too.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        1 => Just(vec![]),
        1 => Just(vec![0x45, 0, 0]),
        1 => (5_u8..16).prop_map(|words| vec![0x40 | words, 0, 0]),
        1 => (any::<u8>(), ext()).prop_map(|(len, next)| vec![0x60, 0, 0, 0, 0, len % 88, next]),
        1 => (5_u8..16).prop_map(|words| [vec![0; 12], vec![words << 4]].concat()),
        1 => Just(vec![1, 2, 3, 4, 0]),
    ];
    let small = prop_oneof![any::<u8>(), 0_u8..8, ext()];
    (start, proptest::collection::vec(small, 0..128)).prop_map(|(start, mut bytes)| {
        let len = start.len().min(bytes.len());
        bytes[..len].copy_from_slice(&start[..len]);
        bytes
    })
}

/// Next-header values of extension headers.
fn ext() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0_u8), Just(43), Just(44), Just(51), Just(60), Just(17)]
}

fn read_ethernet<T: AsRef<[u8]>>(view: &Ethernet<T>) -> usize {
    let _ = (view.dst(), view.src(), view.ethertype());
    view.payload().len()
}

fn read_vlan<T: AsRef<[u8]>>(view: &Vlan<T>) -> usize {
    let _ = (view.tci(), view.vid(), view.pcp(), view.dei(), view.ethertype());
    view.payload().len()
}

fn read_sll<T: AsRef<[u8]>>(view: &Sll<T>) -> usize {
    let _ = (view.packet_type(), view.hardware_type(), view.ethertype());
    assert!(view.address().len() <= 8);
    view.payload().len()
}

fn read_sll2<T: AsRef<[u8]>>(view: &Sll2<T>) -> usize {
    let _ = (view.packet_type(), view.hardware_type(), view.ethertype(), view.interface());
    assert!(view.address().len() <= 8);
    view.payload().len()
}

fn read_ipv4<T: AsRef<[u8]>>(view: &Ipv4<T>) -> usize {
    let _ = (view.version(), view.dscp(), view.ecn(), view.total_len(), view.ident());
    let _ = (view.flags_fragment(), view.dont_fragment(), view.more_fragments());
    let _ = (view.fragment_offset(), view.is_fragment(), view.ttl(), view.protocol());
    let _ = (view.checksum(), view.src_addr(), view.dst_addr(), view.verify_checksum());
    assert!(view.options().count() <= 20);
    view.payload().len()
}

fn read_ipv6<T: AsRef<[u8]>>(view: &Ipv6<T>) -> usize {
    let _ = (view.version(), view.traffic_class(), view.flow_label(), view.payload_len());
    let _ = (view.next_header(), view.hop_limit(), view.src_addr(), view.dst_addr());
    if let Ok(chain) = view.extensions() {
        // As much as may have been on the wire: the buffer can end early.
        let wire_len = view.packet_len(usize::MAX);
        assert!(chain.offset <= wire_len);
    }
    view.payload().len()
}

fn read_tcp<T: AsRef<[u8]>>(view: &Tcp<T>) -> usize {
    let _ = (view.src_port(), view.dst_port(), view.seq(), view.ack(), view.flags());
    let _ = (view.has(tcp::flags::SYN), view.window(), view.checksum(), view.urgent());
    let _ = (view.segment_len(), view.verify_checksum(7));
    assert!(view.options().count() <= 20);
    view.payload().len()
}

fn read_udp<T: AsRef<[u8]>>(view: &Udp<T>) -> usize {
    let _ = (view.src_port(), view.dst_port(), view.length(), view.checksum());
    let _ = view.verify_checksum(7);
    view.payload().len()
}

fn read_icmpv4<T: AsRef<[u8]>>(view: &Icmpv4<T>) -> usize {
    let _ = (view.message_type(), view.code(), view.checksum(), view.ident(), view.seq());
    let _ = (view.is_error(), view.is_echo(), view.verify_checksum());
    view.payload().len()
}

fn read_icmpv6<T: AsRef<[u8]>>(view: &Icmpv6<T>) -> usize {
    let _ = (view.message_type(), view.code(), view.checksum(), view.ident(), view.seq());
    let _ = (view.is_error(), view.is_echo(), view.verify_checksum(7));
    view.payload().len()
}

fn read_esp<T: AsRef<[u8]>>(view: &Esp<T>) -> usize {
    let _ = (view.spi(), view.seq());
    view.payload().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_getter_panics_after_a_check(data in bytes()) {
        let len = data.len();
        // These have no length of their own: what isn't header is payload.
        let fixed = [
            (14, Ethernet::new_checked(&data).ok().map(|view| read_ethernet(&view))),
            (4, Vlan::new_checked(&data).ok().map(|view| read_vlan(&view))),
            (16, Sll::new_checked(&data).ok().map(|view| read_sll(&view))),
            (20, Sll2::new_checked(&data).ok().map(|view| read_sll2(&view))),
            (8, Icmpv4::new_checked(&data).ok().map(|view| read_icmpv4(&view))),
            (8, Icmpv6::new_checked(&data).ok().map(|view| read_icmpv6(&view))),
            (8, Esp::new_checked(&data).ok().map(|view| read_esp(&view))),
        ];
        for (header_len, payload) in fixed {
            prop_assert_eq!(payload, len.checked_sub(header_len));
        }
        if let Ok(view) = Ipv4::new_checked(&data) {
            let said = Some(usize::from(view.total_len())).filter(|&said| said > 0);
            prop_assert_eq!(read_ipv4(&view) + view.header_len(), said.unwrap_or(len));
        }
        if let Ok(view) = Ipv6::new_checked(&data) {
            let (read, said) = (read_ipv6(&view), usize::from(view.payload_len()));
            prop_assert!(read == said || said == 0 && read <= len - 40);
            prop_assert!(!view.extensions().is_ok_and(|chain| chain.cut));
        }
        if let Ok(view) = Tcp::new_checked(&data) {
            prop_assert_eq!(read_tcp(&view) + view.header_len(), len);
        }
        if let Ok(view) = Udp::new_checked(&data) {
            prop_assert_eq!(read_udp(&view) + 8, usize::from(view.length()));
        }
    }

    #[test]
    fn no_getter_panics_on_what_a_capture_cut(data in bytes(), more in 0_usize..70_000) {
        let wire_len = data.len() + more;
        let (ipv4, ipv6) = (Ipv4::new_unchecked(&data), Ipv6::new_unchecked(&data));
        if ipv4.check_within(wire_len).is_ok() {
            read_ipv4(&ipv4);
        }
        if ipv6.check_within(wire_len).is_ok() {
            read_ipv6(&ipv6);
        }
        let (tcp, udp) = (Tcp::new_unchecked(&data), Udp::new_unchecked(&data));
        if tcp.check_within(wire_len).is_ok() {
            read_tcp(&tcp);
        }
        if udp.check_within(wire_len).is_ok() {
            read_udp(&udp);
        }
    }

    #[test]
    fn no_getter_panics_when_lengths_change_later(mut data in bytes(), len in any::<u16>()) {
        if let Ok(mut view) = Ipv4::new_checked(&mut data) {
            view.set_header_len(usize::from(len));
            read_ipv4(&view);
            view.set_total_len(len);
            read_ipv4(&view);
            view.fill_checksum();
            let _ = view.payload_mut().len();
        }
        if let Ok(mut view) = Ipv6::new_checked(&mut data) {
            view.set_payload_len(len);
            read_ipv6(&view);
            let _ = view.payload_mut().len();
        }
        if let Ok(mut view) = Tcp::new_checked(&mut data) {
            view.set_header_len(usize::from(len));
            read_tcp(&view);
            let _ = view.payload_mut().len();
        }
        if let Ok(mut view) = Udp::new_checked(&mut data) {
            view.set_length(len);
            read_udp(&view);
            view.fill_checksum(1);
            let _ = view.payload_mut().len();
        }
    }

    #[test]
    fn walks_and_builders_take_anything(data in bytes(), first in ext(), total in 0_usize..70_000) {
        let _ = ipv6_ext::walk(first, &data, total);
        let mut out = [0; MAX_LEN_V6];
        let (v4, v6) = ([192, 0, 2, 1].into(), [0x20; 16].into());
        let len = icmpv4_error(&mut out, Icmpv4Error::TtlExceeded, v4, &data);
        prop_assert!(len.is_none_or(|len| Ipv4::new_checked(&out[..len]).is_ok()));
        let len = icmpv6_error(&mut out, Icmpv6Error::NoRoute, v6, &data);
        prop_assert!(len.is_none_or(|len| Ipv6::new_checked(&out[..len]).is_ok()));
    }
}

/// The strategy must pass the checks, or the tests above prove nothing.
#[test]
fn random_bytes_do_pass_the_checks() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut passed = [0; 5];
    for _ in 0..4096 {
        let data = bytes().new_tree(&mut runner).unwrap().current();
        passed[0] += u32::from(Ipv4::new_checked(&data).is_ok());
        passed[1] += u32::from(Ipv6::new_checked(&data).is_ok());
        passed[2] += u32::from(Tcp::new_checked(&data).is_ok());
        passed[3] += u32::from(Udp::new_checked(&data).is_ok());
        let walked = Ipv6::new_checked(&data).and_then(|view| view.extensions());
        passed[4] += u32::from(walked.is_ok_and(|chain| chain.headers > 0));
    }
    assert!(passed.iter().all(|&count| count > 20), "{passed:?}");
}
