//! Captures in the pcap format.

use super::*;

#[test]
fn pcap_variants() {
    for (big, magic, unit) in [
        (false, 0xa1b2_c3d4, 1000),
        (true, 0xa1b2_c3d4, 1000),
        (false, 0xa1b2_3c4d, 1),
        (true, 0xa1b2_3c4d, 1),
    ] {
        let file = PcapFile::new(big, magic, 1)
            .packet((10, 999_999), b"first")
            .packet((u32::MAX, 1), b"")
            .packet((9, 0), &[7; 300]);
        let expected = [
            packet(b"first", 10 * S + 999_999 * unit),
            packet(b"", u64::from(u32::MAX) * S + unit),
            packet(&[7; 300], 9 * S),
        ];
        check(&format!("{magic:x} {big}"), &file.bytes, &expected, None, "");
    }
}

#[test]
fn pcap_fields() {
    // Four bytes of frame check sequence and its flag, above the link type.
    let file = PcapFile::new(true, 0xa1b2_c3d4, 0x2400_0071)
        .packet((0, 0), b"sllFCS.")
        .packet((0, 0), b"FC")
        .record((0, 0), 9, 12, b"12345678F")
        .record((0, 0), 3, 1500, b"cut");
    let sll = |bytes| Packet { link: 113, ..packet(bytes, 0) };
    let cut = Packet { wire_len: 1496, ..sll(b"cut") };
    let expected = [sll(b"sll"), sll(b""), sll(b"12345678"), cut];
    check("frame check sequence", &file.bytes, &expected, None, "");
    let file = PcapFile::new(true, 0xa1b2_c3d4, 0x2000_0001).packet((0, 0), b"whole");
    check("no frame check sequence", &file.bytes, &[packet(b"whole", 0)], None, "");

    let file = PcapFile::new(false, 0xa1b2_c3d4, 12).packet((0, 0), b"raw");
    check(
        "raw IP by number 12",
        &file.bytes,
        &[Packet { link: 101, ..packet(b"raw", 0) }],
        None,
        "",
    );

    let file = PcapFile::micros().packet((1, 1_000_001), b"a").packet((1, u32::MAX), b"b");
    let nanos = [2 * S + 1000, S + u64::from(u32::MAX) * 1000];
    check("micros", &file.bytes, &[packet(b"a", nanos[0]), packet(b"b", nanos[1])], None, "");

    let file = PcapFile::micros().record((0, 0), 3, 1500, b"cut").record((0, 0), 3, 2, b"odd");
    let expected = [Packet { wire_len: 1500, ..packet(b"cut", 0) }, packet(b"odd", 0)];
    check("lengths", &file.bytes, &expected, None, "");
}

/// libpcap's `sf-pcap.c`: "The captured and on-the-wire lengths are swapped" in files of versions
/// before 2.3 and of 543.0; in those of 2.3 where the captured one would be the longer.
#[test]
fn pcap_of_older_versions() {
    for (major, minor, is_swapped) in [
        (2u16, 0u16, true),
        (2, 1, true),
        (2, 2, true),
        (543, 0, true),
        (2, 3, true),
        (2, 3, false),
    ] {
        let lengths = |captured, wire| if is_swapped { (wire, captured) } else { (captured, wire) };
        for big in [false, true] {
            let mut file = PcapFile::new(big, 0xa1b2_c3d4, 1);
            let bytes = |half: u16| if big { half.to_be_bytes() } else { half.to_le_bytes() };
            file.bytes[4..6].copy_from_slice(&bytes(major));
            file.bytes[6..8].copy_from_slice(&bytes(minor));
            let (first, second) = lengths(3, 1500);
            let file = file.record((0, 0), first, second, b"cut").packet((0, 1), b"whole");
            let expected = [Packet { wire_len: 1500, ..packet(b"cut", 0) }, packet(b"whole", 1000)];
            check(&format!("{major}.{minor}, big {big}"), &file.bytes, &expected, None, "");
        }
    }
    let mut file = PcapFile::micros();
    file.bytes[6] = 2;
    let file = file.record((0, 0), 3, FRAME_LEN_MAX as u32 + 1, b"cut");
    check("the captured one is second", &file.bytes, &[], Some(24 + 12), "captured length");
}

#[test]
fn pcap_length_beyond_all_frames() {
    let long = FRAME_LEN_MAX as u32 + 1;
    for (len, wire) in [(long, long - 1), ((16 << 20) + 1, u32::MAX), (u32::MAX, u32::MAX)] {
        let file = PcapFile::micros().packet((0, 0), b"ok").record((0, 0), len, wire, &[0; 400]);
        let at = 24 + 18 + 8;
        check("lying", &file.bytes, &[packet(b"ok", 0)], Some(at), "captured length");
    }
    let file = PcapFile::micros().packet((0, 0), b"ok").record((0, 0), long, long, &[0; 400]);
    check("cut", &file.bytes, &[packet(b"ok", 0)], None, "in the middle of packet 2");
    let longest = vec![5; FRAME_LEN_MAX];
    let file = PcapFile::micros().packet((0, 0), &longest).packet((0, 0), &longest);
    let reported = read(Manner::Whole.reader(&file.bytes));
    assert_eq!(reported.packets, [packet(&longest, 0), packet(&longest, 0)]);
}

/// Records of up to 16 MiB are read on; a packet of more than a frame's length is cut.
#[test]
fn long_records_are_cut() {
    for len in [FRAME_LEN_MAX + 1, 4_000_000, (16 << 20) - 36] {
        let long: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let cut = Packet { wire_len: len as u32, ..packet(&long[..FRAME_LEN_MAX], 0) };
        let expected = [cut, packet(b"next", 0)];
        let (wire, time) = (len as u32, (0, 0));
        let pcap = PcapFile::micros().packet(time, &long).packet(time, b"next").bytes;
        let ng = PcapngFile::new(false).interface(1, 0, &[]).enhanced(0, 0, wire, &long);
        let ng = ng.enhanced(0, 0, 4, b"next").bytes;
        for file in [pcap, ng] {
            let reported = read(Manner::Whole.reader(&file));
            assert!(
                reported.packets == expected && reported.error.is_none(),
                "{len}: {:?}",
                reported.error
            );
            assert_eq!(
                reported.warnings,
                ["1 packets are longer than 262144 bytes and were cut to that"]
            );
        }
    }
}
