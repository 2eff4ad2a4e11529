//! ICMP errors: their bytes, the length of the quote, and cases without an error.

use super::super::icmp_error::*;
use super::super::*;
use core::net::{Ipv4Addr, Ipv6Addr};

const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// A UDP packet of `len` bytes from 192.0.2.7 to 198.51.100.9 and 3 bytes of link padding.
fn original_v4(len: usize, change: impl Fn(&mut Ipv4<&mut [u8]>)) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len + 3).map(|at| at as u8).collect();
    let mut packet = Ipv4::new_unchecked(&mut bytes[..]);
    packet.set_header_len(20);
    packet.set_total_len(len as u16);
    packet.set_flags_fragment(0);
    packet.set_protocol(ip_protocol::UDP);
    packet.set_src_addr([192, 0, 2, 7].into());
    packet.set_dst_addr([198, 51, 100, 9].into());
    change(&mut packet);
    bytes
}

fn original_v6(len: usize, change: impl Fn(&mut Ipv6<&mut [u8]>)) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len + 3).map(|at| at as u8).collect();
    let mut packet = Ipv6::new_unchecked(&mut bytes[..]);
    packet.set_class_and_flow(0, 0);
    packet.set_payload_len((len - 40) as u16);
    packet.set_next_header(ip_protocol::UDP);
    packet.set_src_addr("2001:db8:1::7".parse().unwrap());
    packet.set_dst_addr("2001:db8:2::9".parse().unwrap());
    change(&mut packet);
    bytes
}

fn error_v4(kind: Icmpv4Error, original: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0xee; MAX_LEN_V4];
    let len = icmpv4_error(&mut out, kind, ROUTER_V4, original)?;
    assert!(out[len..].iter().all(|&byte| byte == 0xee));
    Some(out[..len].to_vec())
}

fn error_v6(kind: Icmpv6Error, original: &[u8]) -> Option<Vec<u8>> {
    let mut out = [0xee; MAX_LEN_V6];
    let len = icmpv6_error(&mut out, kind, ROUTER_V6, original)?;
    assert!(out[len..].iter().all(|&byte| byte == 0xee));
    Some(out[..len].to_vec())
}

#[test]
fn v4_bytes() {
    let original = original_v4(36, |_| ());
    let error = error_v4(Icmpv4Error::FragmentationNeeded { mtu: 1400 }, &original).unwrap();
    // 45c0 0040 0000 4000 4001 + cb00 7101 + c000 0207 = 2c409, folded c40b.
    let ip = [0x45, 0xc0, 0, 64, 0, 0, 0x40, 0, 64, 1, 0x3b, 0xf4, 203, 0, 113, 1, 192, 0, 2, 7];
    assert_eq!(error[..20], ip);
    assert_eq!(error[20..22], [3, 4]);
    assert_eq!(error[24..28], [0, 0, 0x05, 0x78]);
    assert_eq!(error[28..], original[..36]);
    assert!(Ipv4::new_checked(&error).unwrap().verify_checksum());
    assert!(Icmpv4::new_checked(&error[20..]).unwrap().verify_checksum());
}

#[test]
fn v6_bytes() {
    let original = original_v6(52, |_| ());
    let error = error_v6(Icmpv6Error::PacketTooBig { mtu: 0x1_0500 }, &original).unwrap();
    assert_eq!(error[..8], [0x60, 0, 0, 0, 0, 60, 58, 64]);
    assert_eq!(error[8..24], ROUTER_V6.octets());
    assert_eq!(error[24..40], original[8..24]);
    assert_eq!(error[40..42], [2, 0]);
    assert_eq!(error[44..48], [0, 1, 5, 0]);
    assert_eq!(error[48..], original[..52]);
    let pseudo = checksum::pseudo_v6(ROUTER_V6, "2001:db8:1::7".parse().unwrap(), 58, 60);
    assert!(Icmpv6::new_checked(&error[40..]).unwrap().verify_checksum(pseudo));
}

#[test]
fn types_and_codes() {
    let original = original_v4(28, |_| ());
    for (kind, expected) in [
        (Icmpv4Error::TtlExceeded, [11, 0]),
        (Icmpv4Error::NetUnreachable, [3, 0]),
        (Icmpv4Error::HostUnreachable, [3, 1]),
        (Icmpv4Error::PortUnreachable, [3, 3]),
        (Icmpv4Error::AdminProhibited, [3, 13]),
    ] {
        let error = error_v4(kind, &original).unwrap();
        assert_eq!((&error[20..22], &error[24..28]), (&expected[..], &[0; 4][..]), "{kind:?}");
    }
    let original = original_v6(48, |_| ());
    for (kind, expected) in [
        (Icmpv6Error::HopLimitExceeded, [3, 0]),
        (Icmpv6Error::NoRoute, [1, 0]),
        (Icmpv6Error::AdminProhibited, [1, 1]),
        (Icmpv6Error::AddressUnreachable, [1, 3]),
        (Icmpv6Error::PortUnreachable, [1, 4]),
    ] {
        let error = error_v6(kind, &original).unwrap();
        assert_eq!((&error[40..42], &error[44..48]), (&expected[..], &[0; 4][..]), "{kind:?}");
    }
}

#[test]
fn quotes_as_much_as_fits() {
    for (len, whole) in [(547, 575), (548, 576), (549, 576), (1500, 576)] {
        let original = original_v4(len, |_| ());
        let error = error_v4(Icmpv4Error::TtlExceeded, &original).unwrap();
        assert_eq!((error.len(), &error[28..]), (whole, &original[..whole - 28]));
    }
    for (len, whole) in [(1231, 1279), (1232, 1280), (1233, 1280), (9000, 1280)] {
        let original = original_v6(len, |_| ());
        let error = error_v6(Icmpv6Error::NoRoute, &original).unwrap();
        assert_eq!((error.len(), &error[48..]), (whole, &original[..whole - 48]));
    }
}

#[test]
fn needs_room_and_a_whole_original() {
    let (v4, v6) = (original_v4(40, |_| ()), original_v6(60, |_| ()));
    let v4_into = |len: usize, original: &[u8]| {
        icmpv4_error(&mut vec![0; len], Icmpv4Error::TtlExceeded, ROUTER_V4, original)
    };
    let v6_into = |len: usize, original: &[u8]| {
        icmpv6_error(&mut vec![0; len], Icmpv6Error::NoRoute, ROUTER_V6, original)
    };
    assert_eq!((v4_into(67, &v4), v4_into(68, &v4)), (None, Some(68)));
    assert_eq!((v6_into(107, &v6), v6_into(108, &v6)), (None, Some(108)));
    assert_eq!((v4_into(600, &v4[..39]), v6_into(1280, &v6[..59])), (None, None));
    assert_eq!((v4_into(600, &v6), v6_into(1280, &v4)), (None, None));
}

#[test]
fn v4_refuses_where_an_error_is_forbidden() {
    let permitted = |change: &dyn Fn(&mut Ipv4<&mut [u8]>)| {
        error_v4(Icmpv4Error::HostUnreachable, &original_v4(40, change)).is_some()
    };
    for (src, allowed) in [
        ([0, 0, 0, 0], false),
        ([0, 1, 2, 3], false),
        ([127, 0, 0, 1], false),
        ([224, 0, 0, 1], false),
        ([239, 255, 255, 255], false),
        ([240, 0, 0, 1], false),
        ([255, 255, 255, 255], false),
        ([10, 0, 0, 1], true),
        ([223, 255, 255, 1], true),
    ] {
        assert_eq!(permitted(&|p| p.set_src_addr(src.into())), allowed, "from {src:?}");
    }
    for (dst, allowed) in
        [([224, 0, 0, 5], false), ([255, 255, 255, 255], false), ([223, 1, 1, 1], true)]
    {
        assert_eq!(permitted(&|p| p.set_dst_addr(dst.into())), allowed, "to {dst:?}");
    }
    assert!(permitted(&|p| p.set_flags_fragment(ipv4::MORE_FRAGMENTS)));
    assert!(!permitted(&|p| p.set_flags_fragment(1)));
    for (kind, allowed) in
        [(0, true), (3, false), (4, false), (5, false), (8, true), (11, false), (12, false)]
    {
        let change = |p: &mut Ipv4<&mut [u8]>| {
            p.set_protocol(ip_protocol::ICMP);
            p.payload_mut()[0] = kind;
        };
        assert_eq!(permitted(&change), allowed, "about ICMP type {kind}");
    }
    let empty = |p: &mut Ipv4<&mut [u8]>| {
        p.set_protocol(ip_protocol::ICMP);
        p.set_total_len(20);
    };
    assert!(!permitted(&empty));
}

#[test]
fn v6_refuses_where_an_error_is_forbidden() {
    type Change<'a> = &'a dyn Fn(&mut Ipv6<&mut [u8]>);
    let about = |kind, change: Change<'_>| error_v6(kind, &original_v6(64, change)).is_some();
    let permitted = |change: Change<'_>| about(Icmpv6Error::NoRoute, change);
    let too_big = |change: Change<'_>| about(Icmpv6Error::PacketTooBig { mtu: 1280 }, change);
    for (src, allowed) in [("::", false), ("::1", false), ("ff02::1", false), ("fe80::1", true)] {
        assert_eq!(permitted(&|p| p.set_src_addr(src.parse().unwrap())), allowed, "from {src}");
        assert_eq!(too_big(&|p| p.set_src_addr(src.parse().unwrap())), allowed, "from {src}");
    }
    let multicast: Ipv6Addr = "ff0e::1".parse().unwrap();
    assert!(!permitted(&|p| p.set_dst_addr(multicast)));
    assert!(too_big(&|p| p.set_dst_addr(multicast)));
    for (kind, allowed) in [(1, false), (4, false), (127, false), (128, true), (137, false)] {
        // Behind destination options as well as at once.
        let direct = |p: &mut Ipv6<&mut [u8]>| {
            p.set_next_header(ip_protocol::ICMPV6);
            p.payload_mut()[0] = kind;
        };
        let behind = |p: &mut Ipv6<&mut [u8]>| {
            p.set_next_header(ip_protocol::DESTINATION_OPTIONS);
            p.payload_mut()[..9].copy_from_slice(&[58, 0, 1, 4, 0, 0, 0, 0, kind]);
        };
        assert_eq!(permitted(&direct), allowed, "about ICMPv6 type {kind}");
        assert_eq!(permitted(&behind), allowed, "about ICMPv6 type {kind} behind options");
        assert_eq!(too_big(&direct), allowed, "about ICMPv6 type {kind}");
    }
    let later_fragment = |p: &mut Ipv6<&mut [u8]>| {
        p.set_next_header(ip_protocol::FRAGMENT);
        p.payload_mut()[..9].copy_from_slice(&[58, 0, 0, 8, 0, 0, 0, 1, 1]);
    };
    assert!(too_big(&later_fragment));
    assert!(!permitted(&|p| p.set_next_header(ip_protocol::AH)), "a chain that lies");
}
