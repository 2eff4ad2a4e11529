//! Random packets, valid and invalid, through a gateway that seals and one that opens.

use warpline_packet::wire::checksum;
use warpline_packet::{Headers, LinkType};

use super::gateway::{
    CBC, CBC_192, CTR_256, Ends, Files, GCM, GCM_256, LINKS, NULL_SHA256, SUITES, SaText, on_link,
    reason, send, udp,
};
use warpline_verify::{Harness, Input, Outcome};

/// Numbers from a seed (Marsaglia's xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

const V4: [&str; 2] = ["192.0.2.1", "198.51.100.1"];
const V6: [&str; 2] = ["2001:db8:1::1", "2001:db8:2::1"];
const NAT_T: &str = "encap = { src_port = 4500, dst_port = 4500 }";

/// SAs of both modes and versions, and who is sent by them.
fn gateways() -> ([Files; 2], [Harness; 2]) {
    let sa = |n: u32, peers, mode, suite, more: &str| SaText {
        name: format!("sa{n}"),
        spi: 0x1000 + n,
        peers,
        mode,
        suite,
        more: more.into(),
    };
    let sas = [
        sa(0, V4, "tunnel", GCM, ""),
        sa(1, V6, "tunnel", CBC, "esn = true"),
        sa(2, ["192.0.2.1", "198.51.100.2"], "tunnel", CTR_256, NAT_T),
        sa(3, ["2001:db8:1::1", "2001:db8:2::3"], "tunnel", NULL_SHA256, NAT_T),
        sa(4, V4, "transport", CBC_192, "esn = true"),
        sa(5, V6, "transport", GCM, ""),
        sa(6, ["192.0.2.1", "198.51.100.6"], "tunnel", GCM_256, "mtu = 700\ndf = 'set'"),
    ];
    let to = [
        "10.2.0.0/24",
        "10.2.1.0/24",
        "10.2.2.0/24",
        "10.2.3.0/24",
        "198.51.100.1/32",
        "2001:db8:2::1/128",
        "10.2.6.0/24",
        "fd00:2::/112",
        "fd00:2::1:0/112",
    ];
    let by = [0, 1, 2, 3, 4, 5, 6, 0, 1];
    let any = |to: &str| if to.contains(':') { "::/0" } else { "0.0.0.0/0" };
    let mut policies =
        "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\nprotocol = 'udp'\ndst_ports = '9'\n\
        action = 'bypass'\n"
            .to_owned();
    for (to, by) in to.into_iter().zip(by) {
        policies += &format!(
            "[[policy]]\nsrc = '{}'\ndst = '{to}'\naction = 'protect'\nsa = 'sa{by}'\n",
            any(to)
        );
    }
    let files = [Files::new(), Files::new()];
    files[0].write("sas.toml", &sas.iter().map(|sa| sa.text("out")).collect::<String>());
    files[0].write("policies.toml", &policies);
    files[1].write("sas.toml", &sas.iter().map(|sa| sa.text("in")).collect::<String>());
    let icmp = "icmp = 'on'\nicmp_src_v4 = '10.1.255.254'\nicmp_src_v6 = 'fd00:1::ffff'";
    let gateways = [files[0].gateway(icmp), files[1].gateway("default = 'bypass'")];
    (files, gateways)
}

const DESTINATIONS: [&str; 13] = [
    "10.2.0.1",
    "10.2.1.1",
    "10.2.2.1",
    "10.2.3.1",
    "198.51.100.1",
    "10.2.6.1",
    "10.9.9.9",
    "198.51.100.2",
    "2001:db8:2::1",
    "fd00:2::1",
    "fd00:2::1:1",
    "fd00:9::1",
    "2001:db8:2::3",
];

/// A packet with valid headers: with options or extension headers, whole or a fragment.
fn packet(random: &mut Random) -> Vec<u8> {
    let dst = random.one(&DESTINATIONS);
    let (is_v6, protocol) =
        (dst.contains(':'), random.one(&[17, 6, 1, 58, 132, 47, 4, 50, 51, 99]));
    let len = random.one(&[0, 1, 7, 20, 33, 64, 180, 650, 1440, 9000]);
    let mut body = random.bytes(20 + random.0 as usize % 9 + len);
    if protocol == 17 {
        let len = (body.len() as u16).to_be_bytes();
        body[4..6].copy_from_slice(&len);
        body[2..4].copy_from_slice(&random.one(&[9u16, 53, 4500]).to_be_bytes());
    }
    body[12] = 0x50;
    let class = random.below(256) as u8;
    let mut packet = Vec::new();
    if is_v6 {
        let mut chain = Vec::new();
        let mut first = protocol;
        // From the last to the first, so that each names what follows.
        for kind in [60, 44, 43, 60, 0] {
            if random.below(4) == 0 && !(kind == 44 && random.below(3) > 0) {
                let rest = if kind == 44 { [0, 0, random.one(&[0, 1, 9])] } else { [0, 1, 4] };
                let header = [&[first][..], &rest, &[0, 0, 0, 0]].concat();
                let header: Vec<u8> = header.into_iter().chain([0; 8]).take(8).collect();
                chain = [header, chain].concat();
                first = kind;
            }
        }
        packet.extend([0x60 | class >> 4, class << 4, 1, 2]);
        packet.extend(((chain.len() + body.len()) as u16).to_be_bytes());
        packet.extend([first, 61]);
        packet.extend("fd00:1::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        packet.extend(dst.parse::<std::net::Ipv6Addr>().unwrap().octets());
        packet.extend(chain);
    } else {
        let options = random.one(&[0, 0, 0, 4, 40]);
        packet.extend([0x45 + (options / 4) as u8, class]);
        packet.extend(((20 + options + body.len()) as u16).to_be_bytes());
        let fragment = random.one(&[0, 0, 0, 0x4000, 0x4000, 0x2000, 0x2009, 0x0009]);
        packet.extend([7, random.below(3) as u8]);
        packet.extend(u16::to_be_bytes(fragment));
        packet.extend([61, protocol, 0, 0, 10, 1, 0, 1]);
        packet.extend(dst.parse::<std::net::Ipv4Addr>().unwrap().octets());
        packet.extend(vec![1; options]);
        let sum = checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        if fragment & 0x2000 != 0 {
            body.truncate(body.len() / 8 * 8);
            let len = (packet.len() + body.len()) as u16;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum::checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
    packet.extend(body);
    packet
}

/// A frame of it, sometimes padded; one in four is spoilt.
fn frame(random: &mut Random) -> Input {
    let packet = packet(random);
    let links = [&LINKS[..], &[LinkType::IPV4, LinkType::IPV6]].concat();
    let mut input = on_link(random.one(&links), &packet);
    if random.below(3) == 0 {
        input.bytes.extend(random.bytes(9));
    }
    input.wire_len = input.bytes.len() as u32;
    if random.below(4) == 0 { spoil(random, input) } else { input }
}

fn spoil(random: &mut Random, mut input: Input) -> Input {
    let len = input.bytes.len();
    match random.below(5) {
        0 => input.bytes = random.bytes(len.min(100)),
        1 => input.link = random.one(&[LinkType(999), LinkType::ETHERNET, LinkType::RAW]),
        // Cut by the capture, or on the way.
        2 => input.bytes.truncate(random.below(len.min(120))),
        3 => {
            input.bytes.truncate(random.below(len));
            input.wire_len = input.bytes.len() as u32;
        }
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(len.min(90));
                input.bytes[at] ^= 1 << random.below(8);
            }
        }
    }
    input
}

/// The frame without what pads it.
fn trimmed(input: &Input) -> &[u8] {
    let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    if headers.version == 0 { &input.bytes } else { &input.bytes[..headers.end as usize] }
}

/// In batches of random lengths; what functions made is left out.
fn through(gateway: &mut Harness, inputs: &[Input], random: &mut Random) -> Vec<Outcome> {
    let (mut rest, mut out) = (inputs, Vec::new());
    while !rest.is_empty() {
        let (batch, behind) = rest.split_at(rest.len().min(1 + random.below(90)));
        out.extend(gateway.process(batch).into_iter().filter(|out| !out.made));
        rest = behind;
    }
    out
}

#[test]
fn sealed_packets_open_unchanged_and_nothing_else_passes() {
    let random = &mut Random(0x5eed_0001);
    let (mut opened, mut sealed_count) = (0, 0);
    let (_files, [mut here, mut there]) = gateways();
    let (_files, [_, mut there_again]) = gateways();
    for _ in 0..40 {
        let inputs: Vec<Input> = (0..100).map(|_| frame(random)).collect();
        let out = through(&mut here, &inputs, random);
        assert_eq!(out.len(), inputs.len());
        let sealed: Vec<(&Input, Input)> = inputs
            .iter()
            .zip(&out)
            .filter(|(input, out)| reason(out) == "forward" && out.bytes != input.bytes)
            .map(|(input, out)| (input, Input { link: input.link, ..Input::at(0, &out.bytes) }))
            .collect();
        sealed_count += sealed.len();
        // Each comes, and then some again, perhaps spoilt.
        let mut sent = Vec::new();
        for (at, (_, input)) in sealed.iter().enumerate() {
            if at > 0 && random.below(3) == 0 {
                let other = sealed[random.below(at)].1.clone();
                sent.push((None, spoil(random, other)));
            }
            sent.push((Some(at), input.clone()));
            if random.below(4) == 0 {
                sent.push((None, sealed[random.below(at + 1)].1.clone()));
            }
        }
        let inputs: Vec<Input> = sent.iter().map(|(_, input)| input.clone()).collect();
        let out = through(&mut there, &inputs, random);
        let again = through(&mut there_again, &inputs, random);
        for (((at, input), out), again) in sent.iter().zip(&out).zip(&again) {
            assert_eq!((reason(out), &out.bytes), (reason(again), &again.bytes));
            let Some(at) = at else {
                assert!(reason(out) != "forward" || out.bytes.len() <= input.bytes.len());
                continue;
            };
            let first = sealed[*at].0;
            assert_eq!(reason(out), "forward", "{:02x?}", first.bytes);
            assert_eq!(out.bytes, trimmed(first), "{:02x?}", first.bytes);
            opened += 1;
        }
    }
    assert_eq!(opened, sealed_count);
    assert!(opened > 800, "{opened}");
}

/// A packet of the reported MTU fits with ESP, and one with a byte more doesn't.
#[test]
fn the_reported_mtu_is_right() {
    let icmp = "icmp = 'on'\nicmp_src_v4 = '10.1.255.254'\nicmp_src_v6 = 'fd00:1::ffff'";
    for &suite in SUITES {
        for (peers, mode, is_in_udp, mtu) in [
            (V4, "tunnel", false, 1400),
            (V6, "tunnel", true, 1403),
            (V4, "tunnel", true, 1405),
            (V6, "tunnel", false, 1501),
            (V4, "transport", false, 1402),
            (V6, "transport", true, 1407),
        ] {
            let more = format!("mtu = {mtu}\ndf = 'set'\n{}", if is_in_udp { NAT_T } else { "" });
            let sa = SaText { peers, mode, more, ..SaText::new(suite) };
            let mut here = Ends::with(&sa, icmp, "").here;
            let inner: &[[&str; 2]] = match mode {
                "tunnel" => &[["10.1.0.1", "10.2.0.1"], ["fd00:1::1", "fd00:2::1"]],
                _ => &[peers],
            };
            for &[src, dst] in inner {
                let header = if src.contains(':') { 40 } else { 20 };
                let of_len = |len: usize| {
                    let mut packet = udp(src, dst, [1, 2], len - header - 8);
                    if header == 20 {
                        packet[6] |= 0x40;
                        packet[10..12].fill(0);
                        let sum = checksum::checksum(&packet[..20]);
                        packet[10..12].copy_from_slice(&sum.to_be_bytes());
                    }
                    on_link(LinkType::RAW, &packet)
                };
                let what = format!("{suite:?} {peers:?} {mode} {is_in_udp} {src}");
                let out = here.process(&[of_len(1501)]);
                assert_eq!((reason(&out[0]), out.len()), ("too-big", 2), "{what}");
                let at = header + 6;
                let stated = u16::from_be_bytes([out[1].bytes[at], out[1].bytes[at + 1]]);
                let sealed = send(&mut here, &of_len(stated.into()));
                assert_eq!(reason(&sealed), "forward", "{what}");
                assert!(sealed.bytes.len() <= mtu);
                let more = send(&mut here, &of_len(usize::from(stated) + 1));
                assert_eq!(reason(&more), "too-big", "{what}");
            }
        }
    }
}
