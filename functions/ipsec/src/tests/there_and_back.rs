//! One gateway opens the packets that the other sealed, unchanged.

use warpline_packet::LinkType;
use warpline_packet::wire::checksum;

use super::gateway::{
    ALL, CBC, Ends, Files, GCM, LINKS, SUITES, SaText, Suite, again, ip, on_link, reason, send, udp,
};
use warpline_verify::Input;

const V4: [&str; 2] = ["192.0.2.1", "198.51.100.1"];
const V6: [&str; 2] = ["2001:db8:1::1", "2001:db8:2::1"];

/// Packets of both versions, shortest to long.
fn packets(ends: [&str; 2]) -> Vec<Vec<u8>> {
    let [src, dst] = ends;
    let lens = [0, 1, 2, 3, 7, 11, 15, 16, 40, 64, 333, 1200, 1472, 4000];
    let mut packets: Vec<_> = lens.iter().map(|&len| udp(src, dst, [5000, 53], len)).collect();
    packets.push(ip(src, dst, 50, &[0, 0, 1, 7, 0, 0, 0, 9, 1, 2, 3, 4], None));
    packets.push(ip(src, dst, 99, b"whatever it is", None));
    packets
}

/// Sends every packet over every link there and back.
fn check(suite: Suite, mode: &'static str, peers: [&'static str; 2], inner: [&str; 2], more: &str) {
    let sa = SaText { mode, peers, more: more.into(), ..SaText::new(suite) };
    let what = format!("{suite:?} {mode} {peers:?} {inner:?} {more}");
    check_ends(Ends::new(&sa), &what, inner);
    if more.is_empty() {
        check_ends(Ends::at_two_places(&sa), &format!("{what} at two places"), inner);
    }
}

fn check_ends(mut ends: Ends, what: &str, inner: [&str; 2]) {
    for link in LINKS {
        for packet in packets(inner) {
            let input = on_link(link, &packet);
            let sealed = send(&mut ends.here, &input);
            assert_eq!(reason(&sealed), "forward", "{what}");
            if !what.contains("null") && packet.len() > 60 {
                let hidden = &packet[48..60];
                assert!(!sealed.bytes.windows(12).any(|bytes| bytes == hidden), "{what}");
            }
            let opened = send(&mut ends.there, &again(&sealed, link));
            assert_eq!(reason(&opened), "forward", "{what}");
            assert_eq!(opened.bytes, input.bytes, "{what}");
            let twice = send(&mut ends.there, &again(&sealed, link));
            assert_eq!(reason(&twice), "replay", "{what}");
        }
    }
    let sent = (LINKS.len() * packets(inner).len()) as u64;
    assert_eq!((ends.here.counter("sealed"), ends.there.counter("opened")), (sent, sent));
    assert_eq!(ends.here.counter("sealed-bytes"), ends.there.counter("opened-bytes"));
}

#[test]
fn every_suite_in_both_modes_and_versions() {
    let inside = (["10.1.0.1", "10.2.0.1"], ["fd00:1::1", "fd00:2::1"]);
    for &suite in SUITES {
        for more in ["", "esn = true"] {
            for peers in [V4, V6] {
                check(suite, "tunnel", peers, inside.0, more);
                check(suite, "tunnel", peers, inside.1, more);
                check(suite, "transport", peers, peers, more);
            }
        }
    }
}

#[test]
fn in_udp() {
    for suite in [CBC, GCM] {
        for peers in [V4, V6] {
            let more = "encap = { src_port = 4500, dst_port = 4500 }";
            check(suite, "tunnel", peers, ["10.1.0.1", "10.2.0.1"], more);
            check(suite, "transport", peers, peers, more);
        }
    }
}

#[test]
fn udp_over_ipv6_has_a_sum() {
    let more = "encap = { src_port = 4500, dst_port = 4500 }".to_owned();
    let mut ends = Ends::new(&SaText { peers: V6, more, ..SaText::new(GCM) });
    for len in 0..40 {
        let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], len);
        let sealed = send(&mut ends.here, &on_link(LinkType::RAW, &packet)).bytes;
        let (src, dst) = (V6[0].parse().unwrap(), V6[1].parse().unwrap());
        let pseudo = checksum::pseudo_v6(src, dst, 17, sealed.len() as u32 - 40);
        assert_ne!(sealed[46..48], [0, 0]);
        assert_eq!(checksum::fold(pseudo + checksum::sum(&sealed[40..])), 0xffff);
    }
}

/// RFC 3948, 3.1.2: a NAT changed the source; the sum inside is that of the old one.
#[test]
fn a_nat_on_the_way_of_transport_mode_is_made_up_for() {
    let more = "encap = { src_port = 4500, dst_port = 4500 }".to_owned();
    let mut ends = Ends::new(&SaText { mode: "transport", more, ..SaText::new(CBC) });
    let packet = udp(V4[0], V4[1], [700, 800], 100);
    let mut sealed = send(&mut ends.here, &on_link(LinkType::RAW, &packet)).bytes;
    sealed[12..16].copy_from_slice(&[203, 0, 113, 9]);
    sealed[10..12].fill(0);
    let sum = checksum::checksum(&sealed[..20]);
    sealed[10..12].copy_from_slice(&sum.to_be_bytes());
    let input = Input { link: LinkType::RAW, ..Input::at(0, &sealed) };
    let opened = send(&mut ends.there, &input);
    assert_eq!(reason(&opened), "forward");
    let mut expected = udp("203.0.113.9", V4[1], [700, 800], 100);
    expected[1] = opened.bytes[1];
    assert_eq!(opened.bytes, expected);
}

/// RFC 4301, 5.1.2.1.
#[test]
fn outer_headers_are_made_as_the_sa_says() {
    let packet = |class: u8, fragment: u8| {
        let mut packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 30);
        (packet[1], packet[6]) = (class, fragment);
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    // Lines of the SA, class and fragment byte of the packet, and of its tunnel.
    let cases = [
        ("", 0xb9, 0x40, 0xb9, 0x40),
        ("", 0x02, 0x00, 0x02, 0x00),
        ("ecn = false", 0xb9, 0x40, 0xb8, 0x40),
        ("dscp = 10", 0xb9, 0x00, 0x29, 0x00),
        ("df = 'set'", 0x00, 0x00, 0x00, 0x40),
        ("df = 'clear'", 0x00, 0x40, 0x00, 0x00),
        ("hops = 9", 0x00, 0x40, 0x00, 0x40),
    ];
    for (more, class, fragment, outer_class, outer_fragment) in cases {
        let mut ends = Ends::new(&SaText { more: more.into(), ..SaText::new(CBC) });
        let input = on_link(LinkType::RAW, &packet(class, fragment));
        let sealed = send(&mut ends.here, &input).bytes;
        assert_eq!((sealed[1], sealed[6]), (outer_class, outer_fragment), "{more}");
        assert_eq!(sealed[8], if more.starts_with("hops") { 9 } else { 64 });
        assert_eq!((sealed[9], checksum::checksum(&sealed[..20])), (50, 0));
    }
}

#[test]
fn marks_of_congestion_come_through() {
    let mut ends = Ends::new(&SaText::new(CBC));
    let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 30);
    for (inner, on_the_way, expected) in
        [(0b10, 0b11, Some(0b11)), (0b01, 0b10, Some(0b01)), (0b00, 0b11, None)]
    {
        let mut packet = packet.clone();
        let change = |packet: &mut Vec<u8>, ecn: u8| {
            packet[1] = packet[1] & !3 | ecn;
            packet[10..12].fill(0);
            let sum = checksum::checksum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        };
        change(&mut packet, inner);
        let mut sealed = send(&mut ends.here, &on_link(LinkType::RAW, &packet));
        change(&mut sealed.bytes, on_the_way);
        let opened = send(&mut ends.there, &again(&sealed, LinkType::RAW));
        match expected {
            None => assert_eq!(reason(&opened), "congestion"),
            Some(ecn) => {
                change(&mut packet, ecn);
                assert_eq!(opened.bytes, packet);
            }
        }
    }
}

#[test]
fn pieces_of_esp_are_put_together_first() {
    let mut ends = Ends::new(&SaText::new(GCM));
    let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 1400);
    let sealed = send(&mut ends.here, &on_link(LinkType::RAW, &packet)).bytes;
    let piece = |range: std::ops::Range<usize>, more: bool| {
        let body = &sealed[20..][range.clone()];
        let mut piece = sealed[..20].to_vec();
        piece[2..4].copy_from_slice(&(body.len() as u16 + 20).to_be_bytes());
        let fragment = (range.start / 8) as u16 | if more { 0x2000 } else { 0 };
        piece[6..8].copy_from_slice(&fragment.to_be_bytes());
        piece[10..12].fill(0);
        let sum = checksum::checksum(&piece);
        piece[10..12].copy_from_slice(&sum.to_be_bytes());
        piece.extend(body);
        on_link(LinkType::ETHERNET, &piece)
    };
    let end = sealed.len() - 20;
    let inputs = [piece(800..end, false), piece(0..400, true), piece(400..800, true)];
    let out = ends.there.process(&inputs);
    assert_eq!(out.iter().map(reason).collect::<Vec<_>>(), ["absorbed", "absorbed", "forward"]);
    assert_eq!(out[2].bytes[14..], packet, "the link header is the first fragment's");
    assert_eq!(ends.there.counter("reassembled"), 1);

    let sa = SaText::new(GCM);
    let mut whole_only = Ends::with(&sa, "", "reassembly = 0");
    let out = whole_only.there.process(&inputs);
    assert!(out.iter().all(|out| reason(out) == "fragment"));
}

#[test]
fn a_crossing_of_the_lower_half_is_inferred_whatever_the_batch() {
    let sealed_at = |sequence: u64, count: usize| {
        let more = format!("esn = true\nsequence = {sequence}");
        let mut ends = Ends::new(&SaText { more, ..SaText::new(GCM) });
        let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 30);
        let one = |_| again(&send(&mut ends.here, &on_link(LinkType::RAW, &packet)), LinkType::RAW);
        (0..count).map(one).collect::<Vec<_>>()
    };
    let edge = u64::from(u32::MAX);
    let mut inputs = sealed_at(0, 3);
    inputs.extend(sealed_at(edge - 200, 300));
    inputs.extend(sealed_at(2 * edge, 100));
    let mut counts = Vec::new();
    for batch in [1, 7, 403] {
        let mut there = Ends::new(&SaText { more: "esn = true".into(), ..SaText::new(GCM) }).there;
        let out: Vec<_> = inputs.chunks(batch).flat_map(|inputs| there.process(inputs)).collect();
        let passed = out.iter().filter(|out| reason(out) == "forward").count();
        let verdicts: Vec<_> = out.iter().map(|out| (reason(out), out.bytes.clone())).collect();
        counts.push((passed, verdicts));
        assert_eq!(there.counter("reopened") > 0, batch == 403, "{batch}");
    }
    assert_eq!(counts[0].0, 403);
    assert!(counts.iter().all(|count| *count == counts[0]));
}

#[test]
fn a_rekey_by_reload_loses_nothing() {
    let files = [Files::new(), Files::new()];
    let old = SaText::new(GCM);
    let new = SaText { name: "two".into(), spi: 0x2002, ..old.clone() };
    let policies = |names: &str| ALL.replace("'one'", names);
    let out = [old.text("out"), [old.text("out"), new.text("out")].concat(), new.text("out")];
    let in_ = [old.text("in"), [old.text("in"), new.text("in")].concat(), new.text("in")];
    files[0].write("sas.toml", &out[0]);
    files[0].write("policies.toml", &policies("'one'"));
    files[1].write("sas.toml", &in_[0]);
    let (mut here, mut there) = (files[0].gateway(""), files[1].gateway(""));
    let packet = on_link(LinkType::RAW, &udp("10.1.0.1", "10.2.0.1", [1, 2], 30));
    let mut spis = Vec::new();
    let mut late = Vec::new();
    for step in 0..3 {
        files[1].write("sas.toml", &in_[step]);
        there.reload(files[1].function("").0).unwrap();
        files[0].write("sas.toml", &out[step]);
        files[0].write("policies.toml", &policies(["'one'", "['two', 'one']", "'two'"][step]));
        here.reload(files[0].function("").0).unwrap();
        for _ in 0..3 {
            let sealed = again(&send(&mut here, &packet), LinkType::RAW);
            spis.push((sealed.bytes[22..24].to_vec(), sealed.bytes[27]));
            late.push(sealed.clone());
            let opened = send(&mut there, &sealed);
            assert_eq!((reason(&opened), &opened.bytes), ("forward", &packet.bytes));
        }
        let replayed = send(&mut there, &late[3 * step]);
        assert_eq!(reason(&replayed), "replay", "the window advanced");
    }
    let expected: Vec<_> = [1, 2, 3]
        .map(|n| (vec![0x10, 0x01], n))
        .into_iter()
        .chain((1..7).map(|n| (vec![0x20, 0x02], n)))
        .collect();
    assert_eq!(spis, expected);
    assert_eq!(here.counter("sealed"), 9);
    assert_eq!(reason(&send(&mut there, &late[0])), "no-sa", "the old SA is gone");
}

/// A plan expects the exact length of a sealed frame. For an opened one it expects the mean padding
/// of RFC 4303, 2.4, to blocks of 16 bytes in CBC and to words for the rest. Over a block of
/// lengths the error is less than a byte.
#[test]
fn plans_expect_the_lengths_that_frames_get() {
    let encap = "encap = { src_port = 4500, dst_port = 4500 }";
    for &suite in SUITES {
        for (mode, more) in [("tunnel", ""), ("tunnel", encap), ("transport", "")] {
            let sa = SaText { mode, more: more.into(), ..SaText::new(suite) };
            let mut ends = Ends::new(&sa);
            let [sealer, opener] = ["out", "in"].map(|direction| {
                let files = Files::new();
                files.write("sas.toml", &sa.text(direction));
                files.function("default = 'bypass'").0
            });
            let period = if suite.cipher == "aes-cbc" { 16 } else { 4 };
            let mut errors = 0;
            for len in 700..700 + period {
                let packet = udp(V4[0], V4[1], [1, 2], len as usize);
                let untagged = [&[0; 12][..], &[8, 0], &packet].concat();
                let input = Input::at(0, &untagged);
                let sealed = send(&mut ends.here, &input).bytes.len();
                let [head, tail] = sealer.lengthens(input.bytes.len());
                assert_eq!((head + tail) as usize, sealed - input.bytes.len(), "{sa:?} {len}");
                let [own_head, own_tail] = opener.lengthens(sealed);
                assert_eq!(own_head, -head, "{sa:?} {len}");
                errors += sealed as i32 + own_head + own_tail - input.bytes.len() as i32;
            }
            assert!(errors.abs() < period, "{sa:?}: {errors} bytes over {period} lengths");
        }
    }
}

/// Packets that were captured before segmentation state no length. The other end needs one.
#[test]
fn packets_without_a_length_get_one() {
    for (src, dst, len_at, fixed) in [("10.1.0.1", "10.2.0.1", 2, 0), ("fd01::1", "fd02::1", 4, 40)]
    {
        for link in [LinkType::RAW, LinkType::ETHERNET] {
            let whole = udp(src, dst, [1, 2], 3000);
            let mut bare = whole.clone();
            bare[len_at..len_at + 2].copy_from_slice(&[0, 0]);
            if fixed == 0 {
                let sum = u16::from_be_bytes([whole[10], whole[11]]);
                let sum = checksum::update16(sum, whole.len() as u16, 0);
                bare[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let mut ends = Ends::new(&SaText::new(CBC));
            let sealed = send(&mut ends.here, &on_link(link, &bare));
            let opened = send(&mut ends.there, &again(&sealed, link));
            assert_eq!(reason(&opened), "forward", "{src} {link:?}");
            assert_eq!(opened.bytes, on_link(link, &whole).bytes, "{src} {link:?}");
        }
    }
}

/// Two SAs between the same gateways, as during a rekey, number their packets apart.
#[test]
fn sas_between_two_gateways_share_no_identification() {
    let idents = |spi: u32| -> Vec<[u8; 2]> {
        let sa = SaText { spi, more: "df = 'clear'".into(), ..SaText::new(CBC) };
        let mut here = Ends::new(&sa).here;
        let packet = on_link(LinkType::RAW, &udp("10.1.0.1", "10.2.0.1", [1, 2], 9));
        (0..100)
            .map(|_| send(&mut here, &packet).bytes[4..6].try_into().expect("two bytes"))
            .collect()
    };
    let all: Vec<_> = [0x1000, 0x1001, 0xc0ff_ee01].map(idents).concat();
    let mut own = all.clone();
    own.sort_unstable();
    own.dedup();
    assert_eq!(own.len(), all.len());
}
