//! Captures in the pcapng format.

use super::*;

#[test]
fn pcapng_blocks() {
    for big in [false, true] {
        let file = PcapngFile::new(big)
            .block(5, &[1; 40])
            .interface(1, 0, &[(2, b"eth0"), (9, &[9]), (0, b"")])
            .block(4, b"")
            .enhanced(0, 5 * S + 1, 6, b"epb")
            .block(0x0bad_c0de, &[2; 3000])
            .obsolete(0, 5 * S, b"old")
            .enhanced(0, u64::MAX, 4, b"four");
        let expected = [
            Packet { wire_len: 6, ..packet(b"epb", 5 * S + 1) },
            packet(b"old", 5 * S),
            packet(b"four", u64::MAX),
        ];
        check(&format!("big {big}"), &file.bytes, &expected, None, "");
    }
}

#[test]
fn pcapng_sections_and_interfaces() {
    let file = PcapngFile::new(false)
        .interface(1, 0, &[])
        .interface(101, 0, &[(9, &[0x80 | 10])])
        .enhanced(1, 1536, 2, b"ip")
        .enhanced(0, 7, 1, b"e")
        .section(true)
        .interface(113, 0, &[(14, &[0, 0, 0, 0, 0, 0, 0, 9])])
        .enhanced(0, 1, 3, b"sll")
        .section(false)
        .interface(229, 0, &[])
        .enhanced(0, 2, 2, b"v6");
    let expected = [
        Packet { link: 101, interface: 1, ..packet(b"ip", S + S / 2) },
        packet(b"e", 7000),
        Packet { link: 113, interface: 2, ..packet(b"sll", 9 * S + 1000) },
        Packet { link: 229, interface: 3, ..packet(b"v6", 2000) },
    ];
    check("sections", &file.bytes, &expected, None, "");
}

#[test]
fn pcapng_frame_check_sequences() {
    // Bits, and bytes as some writers have it.
    for four_bytes in [32, 4] {
        let file = PcapngFile::new(false)
            .interface(1, 0, &[(13, &[four_bytes])])
            .interface(1, 0, &[])
            .enhanced(0, 0, 7, b"oneFCS.")
            .enhanced(1, 0, 5, b"whole")
            .enhanced(0, 0, 64, b"cut");
        let cut = Packet { wire_len: 60, ..packet(b"cut", 0) };
        let whole = Packet { interface: 1, ..packet(b"whole", 0) };
        let name = format!("fcslen {four_bytes}");
        check(&name, &file.bytes, &[packet(b"one", 0), whole, cut], None, "");
    }
    let file = PcapngFile::new(false).interface(1, 0, &[(13, &[4, 0])]);
    check("bad fcslen", &file.bytes, &[], Some(28 + 16), "if_fcslen is not 1 byte");
}

#[test]
fn pcapng_simple_packets() {
    let file = PcapngFile::new(false)
        .interface(1, 6, &[])
        .simple(4, b"full")
        .enhanced(0, 3, 1, b"e")
        .simple(1500, b"sixsix");
    let snapped = Packet { wire_len: 1500, ..packet(b"sixsix", 3000) };
    let expected = [packet(b"full", 0), packet(b"e", 3000), snapped];
    check("simple", &file.bytes, &expected, None, "packets of the capture without a timestamp: 2");
}

#[test]
fn pcapng_errors_name_their_byte() {
    let start = || PcapngFile::new(true).interface(1, 0, &[]).enhanced(0, 1, 2, b"ok");
    // Section 28, interface 20, packet 36 bytes.
    let at = 84;
    let fixed = [0; 20];
    for (name, file, offset, words) in [
        ("short", start().lying(9, b"", 8, 8), at + 4, "less than 12"),
        ("zero", start().lying(9, b"", 0, 0), at + 4, "less than 12"),
        ("odd", start().lying(9, b"abcd", 17, 17), at + 4, "not a multiple of 4"),
        ("tail", start().lying(9, b"abcd", 16, 20), at + 12, "16 at its head and 20 at its end"),
        ("tail of packet", start().lying(6, &fixed, 32, 36), at + 28, "at its head"),
        ("short packet", start().lying(6, b"", 28, 28), at + 4, "less than 32"),
        ("huge packet", start().lying(6, &fixed, 1 << 25, 0), at + 4, "more than 16777216"),
        ("interface", start().enhanced(1, 0, 1, b"x"), at + 8, "interface 1"),
        ("interface of old", start().obsolete(9, 0, b"x"), at + 8, "interface 9"),
        ("far interface", start().enhanced(u32::MAX, 0, 1, b"x"), at + 8, "interface 4294967295"),
        ("other section's", start().section(true).simple(1, b"x"), at + 36, "interface 0"),
        ("captured", start().enhanced_saying(0, 0, (5, 5), b"four"), at + 20, "its block holds"),
        ("captured all", start().enhanced_saying(0, 0, (u32::MAX, 5), b"x"), at + 20, "16777216"),
        (
            "longer than it was",
            start().enhanced_saying(0, 0, (1 << 20, 5), b"x"),
            at + 20,
            "262144",
        ),
        ("simple", start().simple(5, b"four"), at + 8, "its block holds"),
        ("option", start().interface(1, 0, &[(9, &[1, 2])]), at + 16, "if_tsresol"),
        ("no order", start().block(0x0a0d_0d0a, &[0; 16]), at + 8, "byte-order magic"),
    ] {
        check(name, &file.bytes, &[packet(b"ok", 1000)], Some(offset), words);
    }
    let mut newer = PcapngFile::new(false).bytes;
    newer[12] = 2;
    check("version", &newer, &[], Some(12), "version 2.0");
    newer[12..15].copy_from_slice(&[1, 0, 2]);
    check("version 1.2", &newer, &[], None, "");
}

/// Numbers have 16 bits: interfaces beyond share the last, in one section or in many.
#[test]
fn any_number_of_interfaces() {
    for by_section in [false, true] {
        let mut file = PcapngFile::new(false);
        for number in 0..70_000 {
            if by_section {
                file = file.section(number % 2 == 1);
            }
            file = file.interface([1, 101][number % 2], 0, &[(2, b"lan")]);
            if by_section && [0, 65_534, 65_535, 69_999].contains(&number) {
                file = file.enhanced(0, 0, 4, b"some");
            }
        }
        if !by_section {
            for number in [0, 65_534, 65_535, 69_999] {
                file = file.enhanced(number, 0, 4, b"some");
            }
        }
        let mut reader = CaptureReader::new(Box::new(io::Cursor::new(file.bytes)), None).unwrap();
        let names = reader.interfaces();
        let mut seen = Vec::new();
        while let Next::Frame(frame) = reader.next().unwrap() {
            seen.push((frame.interface, names.name(frame.interface).is_some(), frame.link.0));
        }
        let expected =
            [(0, true, 1), (65_534, true, 1), (u16::MAX, false, 101), (u16::MAX, false, 101)];
        assert_eq!(seen, expected, "{by_section}");
        let text = "the capture has 70000 interfaces, and outputs number 65535 at most; packets of \
                    the others get the number 65535";
        assert_eq!(reader.warnings(), [text]);
    }
}

/// Packets of interfaces beyond those that are kept are counted; one without a description is
/// damage.
#[test]
fn interfaces_beyond_what_is_kept() {
    let mut file = PcapngFile::new(false);
    for _ in 0..(1 << 18) + 2 {
        file = file.interface(1, 0, &[]);
    }
    let file = file.enhanced((1 << 18) + 1, 0, 4, b"lost").enhanced(7, 0, 4, b"kept");
    let at = file.bytes.len() as u64;
    let reported = read(Manner::Whole.reader(&file.enhanced((1 << 18) + 2, 0, 1, b"?").bytes));
    assert_eq!(reported.packets, [Packet { interface: 7, ..packet(b"kept", 0) }]);
    assert_eq!(reported.error.map(|(place, _)| place), Some(at + 8));
    assert!(reported.warnings[1].starts_with("1 packets were not read"), "{:?}", reported.warnings);
}
