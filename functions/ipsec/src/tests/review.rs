//! Hostile and unlucky packets: they must not reach an SA's state, appear protected, or end a run.

use warpline_packet::wire::checksum;
use warpline_packet::{FlowHasher, Headers, LinkType, StateKey, Steering};

use super::gateway::{ALL, CBC, Files, GCM, SaText, again, ip, on_link, reason, send, udp};
use warpline_verify::{Harness, Input};

const LINK: LinkType = LinkType::RAW;
const NAT_T: &str = "encap = { src_port = 4500, dst_port = 4500 }";

/// `packet`, which is IPv4 without options, in two fragments, from `src`.
fn cut_in_two(packet: &[u8], src: [u8; 4]) -> [Input; 2] {
    let at = (packet.len() - 20) / 16 * 8;
    let piece = |range: std::ops::Range<usize>, more: bool| {
        let mut piece = packet[..20].to_vec();
        let body = &packet[20..][range.clone()];
        piece[2..4].copy_from_slice(&(body.len() as u16 + 20).to_be_bytes());
        let fragment = (range.start / 8) as u16 | if more { 0x2000 } else { 0 };
        piece[6..8].copy_from_slice(&fragment.to_be_bytes());
        piece[12..16].copy_from_slice(&src);
        piece[10..12].fill(0);
        let sum = checksum::checksum(&piece);
        piece[10..12].copy_from_slice(&sum.to_be_bytes());
        piece.extend(body);
        on_link(LINK, &piece)
    };
    [piece(0..at, true), piece(at..packet.len() - 20, false)]
}

/// ESP fragments from another source reach the shard of other peers: they must not affect its
/// state.
#[test]
fn pieces_of_esp_from_elsewhere_touch_no_state() {
    let sa = SaText { more: NAT_T.into(), ..SaText::new(GCM) };
    let mut ends = super::gateway::Ends::new(&sa);
    let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 400);
    let sealed = send(&mut ends.here, &on_link(LINK, &packet)).bytes;
    let mut opened = 0;
    for host in 0..=255 {
        let out = ends.there.process(&cut_in_two(&sealed, [203, 0, 113, host]));
        let last = reason(&out[1]);
        assert!(["misplaced", "forward", "replay"].contains(&last), "{host}: {last}");
        opened += u32::from(last == "forward");
    }
    assert!(opened <= 1);
    if opened == 0 {
        let out = ends.there.process(&cut_in_two(&sealed, [192, 0, 2, 1]));
        assert_eq!(reason(&out[1]), "forward", "of its own peer they are taken");
        assert_eq!(out[1].bytes, packet);
    }
}

/// A datagram that turns out not to be ESP when it is whole may be for an SA of other peers.
#[test]
fn a_reassembled_datagram_in_the_clear_touches_no_state_of_other_peers() {
    let files = Files::new();
    let sa = SaText { more: NAT_T.into(), ..SaText::new(GCM) };
    let inward = SaText {
        name: "in".into(),
        spi: 0x3003,
        peers: ["198.51.100.1", "192.0.2.1"],
        ..sa.clone()
    };
    files.write("sas.toml", &[sa.text("out"), inward.text("in")].concat());
    files.write("policies.toml", ALL);
    let mut gateway = files.gateway("");
    for host in 0..=255 {
        let datagram = udp("203.0.113.9", "192.0.2.1", [700, 800], 100);
        let out = gateway.process(&cut_in_two(&datagram, [203, 0, 113, host]));
        assert!(["misplaced", "forward"].contains(&reason(&out[1])), "{}", reason(&out[1]));
    }
}

/// The numbers of an SA are its own, whatever precedes it in the file and wherever a reload puts
/// it.
#[test]
fn numbers_go_on_over_reloads_that_move_sas() {
    let files = Files::new();
    let sas: Vec<SaText> = (0..12u32)
        .map(|n| {
            let peers = [
                ["192.0.2.1", "198.51.100.1"],
                ["192.0.2.1", "198.51.100.2"],
                ["192.0.2.1", "198.51.100.3"],
                ["192.0.2.1", "198.51.100.4"],
            ][n as usize % 4];
            SaText { name: format!("sa{n}"), spi: 0x1000 + n, peers, ..SaText::new(GCM) }
        })
        .collect();
    let write = |order: &[usize]| {
        let texts: Vec<_> = order.iter().map(|&n| sas[n].text("out")).collect();
        files.write("sas.toml", &texts.concat());
        let policy = |&n: &usize| {
            format!(
                "[[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.{n}.0/24'\naction = 'protect'\n\
                 sa = 'sa{n}'\n"
            )
        };
        files.write("policies.toml", &order.iter().map(policy).collect::<String>());
    };
    let orders: [&[usize]; 4] = [
        &[0, 1, 2, 3, 4, 5, 6],
        &[11, 6, 5, 4, 3, 2, 1, 0],
        &[3, 8, 9, 4, 1],
        &[9, 1, 3, 10, 7, 4],
    ];
    write(orders[0]);
    let mut gateway = files.gateway("");
    let mut sent = std::collections::BTreeMap::new();
    for (step, order) in orders.into_iter().enumerate() {
        if step > 0 {
            write(order);
            gateway.reload(files.function("").0).unwrap();
        }
        for _ in 0..2 {
            for &n in order {
                let input = on_link(LINK, &udp("10.1.0.1", &format!("10.2.{n}.9"), [1, 2], 9));
                let out = send(&mut gateway, &input);
                assert_eq!(reason(&out), "forward", "step {step}, SA {n}");
                let word =
                    |at: usize| u32::from_be_bytes(out.bytes[at..at + 4].try_into().unwrap());
                assert_eq!(word(20), 0x1000 + n as u32);
                let number = sent.entry(n).or_insert(0);
                *number += 1;
                assert_eq!(word(24), *number, "step {step}, SA {n}");
            }
        }
    }
}

#[test]
fn only_sealed_packets_count_as_sealed() {
    let more = "sequence = 4294967293".to_owned();
    let mut ends = super::gateway::Ends::new(&SaText { more, ..SaText::new(CBC) });
    let input = on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], 20));
    let passed = (0..6).filter(|_| reason(&send(&mut ends.here, &input)) == "forward").count();
    assert_eq!((passed, ends.here.counter("sealed")), (2, 2));
    assert_eq!(ends.here.counter("sealed-bytes"), 96);
}

/// A frame's padding is no part of the packet: no policy reads ports from it.
#[test]
fn ports_are_not_read_from_behind_the_packet() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(CBC).text("out"));
    files.write(
        "policies.toml",
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\nprotocol = 132\ndst_ports = '7'\n\
         action = 'bypass'\n\
         [[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\naction = 'protect'\nsa = 'one'\n",
    );
    let mut gateway = files.gateway("");
    let mut input = on_link(LinkType::ETHERNET, &ip("10.1.0.1", "10.2.0.1", 132, &[], None));
    input.bytes.extend([0, 7, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    input.wire_len = input.bytes.len() as u32;
    assert_eq!(reason(&send(&mut gateway, &input)), "fragment");
}

/// The contents of a header that the capture cut off are unknown.
#[test]
fn a_chain_of_headers_that_is_cut_hides_its_protocol() {
    let files = Files::new();
    let sa = SaText { peers: ["2001:db8::1", "2001:db8::2"], ..SaText::new(CBC) };
    files.write("sas.toml", &sa.text("out"));
    files.write(
        "policies.toml",
        "[[policy]]\nsrc = '::/0'\ndst = '::/0'\nprotocol = 'udp'\naction = 'protect'\nsa = 'one'\n\
         [[policy]]\nsrc = '::/0'\ndst = '::/0'\naction = 'bypass'\n",
    );
    let mut gateway = files.gateway("");
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &[0, 1, 0, 2, 0, 8, 0, 0]].concat();
    let mut input = on_link(LINK, &ip("fd00::1", "fd00::2", 60, &options, None));
    input.bytes.truncate(44);
    assert_ne!(reason(&send(&mut gateway, &input)), "forward");
}

/// RFC 768: the datagram ends at its length; later bytes don't belong to it.
#[test]
fn bytes_behind_the_datagram_of_esp_in_udp_are_left_out() {
    let mut ends = super::gateway::Ends::new(&SaText { more: NAT_T.into(), ..SaText::new(GCM) });
    let packet = udp("10.1.0.1", "10.2.0.1", [1, 2], 30);
    let mut sealed = send(&mut ends.here, &on_link(LINK, &packet)).bytes;
    sealed.extend([0; 5]);
    let len = sealed.len() as u16;
    sealed[2..4].copy_from_slice(&len.to_be_bytes());
    sealed[10..12].fill(0);
    let sum = checksum::checksum(&sealed[..20]);
    sealed[10..12].copy_from_slice(&sum.to_be_bytes());
    let opened = send(&mut ends.there, &on_link(LINK, &sealed));
    assert_eq!((reason(&opened), opened.bytes), ("forward", packet));
}

/// After an earlier function changed a packet, an SA whose state is in another shard may seal it.
#[test]
fn a_packet_that_was_steered_elsewhere_uses_no_number_of_another_sa() {
    let files = Files::new();
    files.write("sas.toml", &SaText::new(GCM).text("out"));
    files.write("policies.toml", ALL);
    let mut gateway = files.gateway("");
    let StateKey::Own(key) = gateway.function().state_key() else { panic!("a key of its own") };
    let input = on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], 30));
    let headers = Headers::parse(&input.bytes, LINK, input.bytes.len());
    let own = Steering::Own(key).steer(&FlowHasher::SEED_0, &input.bytes, &headers).shard;
    for shard in (0..64).filter(|&shard| shard != own) {
        let out = process_in(&mut gateway, &input, shard);
        assert_eq!(out, "misplaced", "shard {shard}");
    }
    assert_eq!(process_in(&mut gateway, &input, own), "forward");
}

fn process_in(gateway: &mut Harness, input: &Input, shard: u8) -> &'static str {
    gateway.steer_to(Some(shard));
    let reason = reason(&send(gateway, input));
    gateway.steer_to(None);
    reason
}

#[test]
fn without_authentication_no_guess_of_a_number_matters() {
    let suite = super::gateway::Suite { auth: "none", auth_len: 0, ..CBC };
    let sealed_from = |sequence: u64, count: usize| -> Vec<Input> {
        let files = Files::new();
        let more = format!("esn = true\nsequence = {sequence}");
        files.write("sas.toml", &SaText { more, ..SaText::new(suite) }.text("out"));
        files.write("policies.toml", ALL);
        let mut here = files.gateway("insecure = true");
        let input = on_link(LINK, &udp("10.1.0.1", "10.2.0.1", [1, 2], 30));
        (0..count).map(|_| again(&send(&mut here, &input), LINK)).collect()
    };
    let mut inputs = sealed_from(5000, 3);
    inputs.extend(sealed_from(0, 3));
    for batch in [1, 6] {
        let files = Files::new();
        let sa = SaText { more: "esn = true".into(), ..SaText::new(suite) };
        files.write("sas.toml", &sa.text("in"));
        let mut there = files.gateway("insecure = true");
        for inputs in inputs.chunks(batch) {
            for out in there.process(inputs) {
                assert_eq!(reason(&out), "forward", "{batch}");
            }
        }
    }
}

/// The sender has the keys and lies: a packet of the NULL cipher with the ICV that its SA asks for.
fn forged(head: &[u8], number: u32, text: &[u8]) -> Input {
    use aes::cipher::KeyInit;
    use hmac::Mac;
    let mut esp = [&0x1001u32.to_be_bytes()[..], &number.to_be_bytes(), text].concat();
    let key: Vec<u8> = (0..20).map(|i: u8| i.wrapping_mul(29) ^ 0x5a).collect();
    let hmac = hmac::Hmac::<sha1::Sha1>::new_from_slice(&key).unwrap();
    let icv = hmac.chain_update(&esp).finalize().into_bytes();
    esp.extend(&icv[..12]);
    let mut packet = [head, &esp].concat();
    let at = if head[0] >> 4 == 4 { 2 } else { 4 };
    let len = if at == 2 { packet.len() } else { packet.len() - 40 };
    packet[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
    on_link(LINK, &packet)
}

const HEADS: [[&str; 2]; 2] = [["192.0.2.1", "198.51.100.1"], ["2001:db8:1::1", "2001:db8:2::1"]];

fn null_gateway(mode: &'static str, peers: [&'static str; 2]) -> Harness {
    let suite = super::gateway::NULL;
    super::gateway::Ends::new(&SaText { mode, peers, ..SaText::new(suite) }).there
}

/// RFC 4303, 2.4, 2.6 and 2.7; RFC 4301, 5.2.
#[test]
fn layers_inside_are_reported_by_name() {
    let [src, dst] = HEADS[0];
    let head = ip(src, dst, 50, &[], None);
    let inner = udp("10.1.0.1", "10.2.0.1", [1, 2], 32);
    let with = |behind: &[u8]| [&inner[..], behind].concat();
    let mut longer = inner.clone();
    longer[3] += 1;
    let cases: [(Vec<u8>, &str); 13] = [
        (with(&[1, 2, 2, 4]), "forward"),
        // Not whole words.
        (with(&[9, 9, 9, 9, 9, 9, 1, 2, 2, 4]), "bad-icv"),
        // Padding against traffic analysis.
        (with(&[9, 9, 9, 9, 1, 2, 2, 4]), "forward"),
        (with(&[2, 1, 2, 4]), "bad-padding"),
        (with(&[0, 0, 2, 4]), "bad-padding"),
        (with(&[1, 2, 255, 4]), "bad-padding"),
        (with(&[1, 2, 2, 41]), "malformed"),
        (with(&[1, 2, 2, 17]), "malformed"),
        ([&longer[..], &[1, 2, 2, 4]].concat(), "malformed"),
        (vec![1, 2, 2, 59], "absorbed"),
        (with(&[1, 2, 2, 59]), "absorbed"),
        (vec![0x45, 1, 1, 4], "malformed"),
        (Vec::new(), "malformed"),
    ];
    let mut there = null_gateway("tunnel", HEADS[0]);
    for (number, (text, expected)) in (1..).zip(&cases) {
        let out = send(&mut there, &forged(&head, number, text));
        assert_eq!(reason(&out), *expected, "case {number}");
        if *expected == "forward" {
            assert_eq!(out.bytes, inner);
        }
        if *expected != "bad-icv" {
            assert_eq!(reason(&send(&mut there, &forged(&head, number, text))), "replay");
        }
    }
    assert_eq!(there.counter("dummies"), 2);
}

#[test]
fn nothing_inside_ends_a_run() {
    for (mode, peers) in ["tunnel", "transport"].into_iter().flat_map(|m| HEADS.map(|p| (m, p))) {
        let mut there = null_gateway(mode, peers);
        let head = ip(peers[0], peers[1], 50, &[], None);
        let inner = udp(peers[0], peers[1], [1, 2], 40);
        let mut seed = 7u32;
        let mut number = 0;
        for protocol in 0..=255u8 {
            for len in [0, 1, 3, 4, 7, 8, 19, 20, 21, 39, 40, 41, 47, 48, 60] {
                let mut text = inner[..len.min(inner.len())].to_vec();
                for byte in &mut text {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if seed >> 28 == 0 {
                        *byte = (seed >> 8) as u8;
                    }
                }
                let pad = (4 - (len + 2) % 4) % 4;
                text.extend((1..).take(pad));
                text.extend([pad as u8, protocol]);
                number += 1;
                let out = send(&mut there, &forged(&head, number, &text));
                let passed =
                    ["forward", "malformed", "absorbed", "congestion"].contains(&reason(&out));
                assert!(passed, "{mode} {protocol} {len}: {}", reason(&out));
            }
        }
    }
}

/// With its old keys, an SA must not start at its first number and with an empty window again.
#[test]
fn a_reload_does_not_start_an_sa_over() {
    let files = Files::new();
    let old = SaText::new(CBC);
    for direction in ["in", "out"] {
        files.write("sas.toml", &old.text(direction));
        let mut gateway = files.gateway("");
        let moved = SaText { peers: ["192.0.2.1", "198.51.100.9"], ..old.clone() };
        let in_udp = SaText { more: NAT_T.into(), ..old.clone() };
        let esn = SaText { more: "esn = true".into(), ..old.clone() };
        for sa in [moved, in_udp, esn] {
            files.write("sas.toml", &sa.text(direction));
            let refused = gateway.reload(files.function("").0);
            assert!(refused.is_err_and(|why| why.contains("new keys")), "{sa:?}");
        }
        let rekeyed = SaText { spi: 0x2002, more: NAT_T.into(), ..old.clone() };
        files.write("sas.toml", &rekeyed.text(direction));
        gateway.reload(files.function("").0).unwrap();
    }
}

/// CTR and GCM make one key stream of one key, salt and number.
#[test]
fn a_key_is_not_for_both_counter_modes() {
    let files = Files::new();
    let gcm = SaText::new(GCM);
    let ctr = SaText { name: "two".into(), spi: 0x2001, suite: super::gateway::CTR, ..gcm.clone() };
    files.write("sas.toml", &[gcm.text("out"), ctr.text("out")].concat());
    let mistakes = files.mistakes("sas = 'sas.toml'\nnonce_state = 'nonces'");
    assert!(mistakes.to_string().contains("nonces would repeat"), "{mistakes}");
}

/// The fields that a firewall beside the gateway needs from both directions of a conversation.
#[test]
fn both_directions_fall_together_though_one_is_in_the_clear() {
    let files = Files::new();
    let policy =
        "[[policy]]\nsrc = '10.1.0.0/16'\ndst = '10.2.0.0/16'\naction = 'protect'\nsa = 'one'\n";
    let selectors = "selectors = [{ src = '10.4.0.0/16', dst = '10.1.0.0/16' }]";
    let back = SaText {
        name: "back".into(),
        spi: 0x3003,
        peers: ["203.0.113.9", "192.0.2.1"],
        more: selectors.into(),
        ..SaText::new(CBC)
    };
    files.write("sas.toml", &[SaText::new(CBC).text("out"), back.text("in")].concat());
    files.write("policies.toml", policy);
    let (function, _) = files.function("default = 'bypass'");
    let steering = Steering::serving(function.state_key());
    let shard = |src: &str, dst: &str, ports: [u16; 2]| {
        let packet = udp(src, dst, ports, 10);
        let headers = Headers::parse(&packet, LinkType::RAW, packet.len());
        steering.steer(&FlowHasher::SEED_0, &packet, &headers).shard
    };
    for host in 1..100 {
        let inside = format!("10.1.0.{host}");
        for remote in ["10.2.0.7", "10.9.0.7"] {
            assert_eq!(shard(&inside, remote, [host, 80]), shard(remote, &inside, [80, host]));
        }
        // All that has to do with a tunnel is in its shard.
        let out = shard("10.1.0.1", "10.2.0.2", [1, 2]);
        assert_eq!(shard("10.2.0.1", &inside, [1, host]), out);
        let answered = shard("10.1.0.1", "10.4.0.2", [1, 2]);
        assert_eq!(shard(&inside, "10.4.0.7", [host, 80]), answered);
    }
}
