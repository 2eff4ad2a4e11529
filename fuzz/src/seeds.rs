//! Small valid inputs of every target, made here, that fuzzing starts from.

use warpline_packet::LinkType;
use warpline_packet::wire::{ethertype, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, tcp};
use warpline_router::full_table::{routes as full_table, to_mrt};

use crate::frames::{ANSWER, FLUSH, QUOTE, REPAIR, TICK, put, repair};
use crate::sensors::RULE_SETS;
use crate::texts::{SAS, STRANGE, TEXTS};

/// An input: the target's name, its own, and its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

const INSIDE_V4: [u8; 4] = [10, 0, 0, 1];
const REMOTE_V4: [u8; 4] = [192, 0, 2, 9];
const OUTSIDE_V4: [u8; 4] = [203, 0, 113, 1];

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend_from_slice(packet);
    frame
}

/// IPv4 after tags of these VLANs, the outermost first.
fn tagged(vlans: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    for (number, vlan) in (1..).zip(vlans) {
        let next = if number == vlans.len() { ethertype::IPV4 } else { 0x8100 };
        rest.extend([vlan.to_be_bytes(), next.to_be_bytes()].concat());
    }
    rest.extend_from_slice(packet);
    ethernet(if vlans.len() > 1 { 0x88a8 } else { 0x8100 }, &rest)
}

/// An IPv4 packet with right lengths and checksums.
fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    let mut ip = ipv4::Ipv4::new_unchecked(&mut packet[..]);
    ip.set_header_len(ipv4::HEADER_LEN);
    ip.set_ttl(64);
    ip.set_protocol(protocol);
    ip.set_src_addr(src.into());
    ip.set_dst_addr(dst.into());
    packet.extend_from_slice(body);
    repair(&mut packet, LinkType::IPV4);
    packet
}

/// The same with options: a record of the route, and padding.
fn v4_with_options(src: [u8; 4], dst: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = v4(src, dst, protocol, &[]);
    packet.extend([7, 7, 4, 0, 0, 0, 0, 0]);
    packet.extend_from_slice(body);
    packet[0] = 0x47;
    repair(&mut packet, LinkType::IPV4);
    packet
}

/// An IPv6 packet; its addresses end in these numbers.
fn v6(src: u16, dst: u16, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN];
    let mut ip = ipv6::Ipv6::new_unchecked(&mut packet[..]);
    ip.set_class_and_flow(0, 0);
    ip.set_next_header(protocol);
    ip.set_hop_limit(64);
    ip.set_src_addr([0x2001, 0xdb8, 1, 0, 0, 0, 0, src].into());
    ip.set_dst_addr([0x2001, 0xdb8, 2, 0, 0, 0, 0, dst].into());
    packet.extend_from_slice(body);
    repair(&mut packet, LinkType::IPV6);
    packet
}

fn segment(src: u16, dst: u16, flags: u16, options: &[u8]) -> Vec<u8> {
    let mut body = vec![0; tcp::HEADER_LEN];
    body.extend_from_slice(options);
    let mut view = tcp::Tcp::new_unchecked(&mut body[..]);
    view.set_src_port(src);
    view.set_dst_port(dst);
    view.set_header_len(tcp::HEADER_LEN + options.len());
    view.set_flags(flags);
    view.set_window(65_535);
    body.extend_from_slice(b"data");
    body
}

fn datagram(src: u16, dst: u16) -> Vec<u8> {
    let mut body = Vec::new();
    [src, dst, 12, 0].iter().for_each(|half| body.extend(half.to_be_bytes()));
    body.extend_from_slice(b"data");
    body
}

fn echo(kind: u8, ident: u16) -> Vec<u8> {
    let mut body = vec![kind, 0, 0, 0];
    body.extend(ident.to_be_bytes());
    body.extend([0, 1, b'e']);
    body
}

/// An ICMP error that quotes `packet`.
fn error(kind: u8, code: u8, packet: &[u8]) -> Vec<u8> {
    let mut body = vec![kind, code, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(packet);
    body
}

/// Frames of every kind that the parser knows, with the number of their link type.
fn packets() -> Vec<(Vec<u8>, u8)> {
    let (tcp, udp, icmp) = (ip_protocol::TCP, ip_protocol::UDP, ip_protocol::ICMP);
    let options = [2, 4, 5, 0xb4, 1, 3, 3, 7, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let out = v4(INSIDE_V4, REMOTE_V4, tcp, &segment(4000, 80, tcp::flags::SYN, &options));
    let back = tcp::flags::SYN | tcp::flags::ACK;
    let mut fragment = v4(INSIDE_V4, REMOTE_V4, udp, &datagram(5000, 53));
    fragment[6] = 0x20;
    let mut later = fragment.clone();
    later[7] = 2;
    let hop_by_hop = [[udp, 0, 1, 4, 0, 0, 0, 0].to_vec(), datagram(6, 7)].concat();
    let fragment_v6 = [[udp, 0, 0, 1, 0, 0, 0, 9].to_vec(), datagram(6, 7)].concat();
    // A DEFLATE block that is stored (RFC 1951, 3.2.4), of 12 bytes.
    let stored = [&[udp, 0, 0, 2, 1, 12, 0, 0xf3, 0xff][..], &datagram(6, 7)].concat();
    let raw = [
        out.clone(),
        v4(INSIDE_V4, REMOTE_V4, ip_protocol::IPCOMP, &stored),
        v6(1, 2, ip_protocol::IPCOMP, &stored),
        v4(REMOTE_V4, INSIDE_V4, tcp, &segment(80, 4000, back, &[])),
        v4(REMOTE_V4, OUTSIDE_V4, tcp, &segment(80, 1024, back, &[])),
        v4(INSIDE_V4, REMOTE_V4, tcp, &segment(4000, 80, tcp::flags::ACK, &[])),
        v4(INSIDE_V4, REMOTE_V4, tcp, &segment(4000, 80, tcp::flags::FIN | tcp::flags::ACK, &[])),
        v4(REMOTE_V4, INSIDE_V4, tcp, &segment(80, 4000, tcp::flags::RST, &[])),
        v4(INSIDE_V4, REMOTE_V4, udp, &datagram(5000, 53)),
        v4(REMOTE_V4, INSIDE_V4, udp, &datagram(53, 5000)),
        v4(REMOTE_V4, OUTSIDE_V4, udp, &datagram(53, 1024)),
        v4(INSIDE_V4, REMOTE_V4, icmp, &echo(icmpv4::message::ECHO_REQUEST, 77)),
        v4(REMOTE_V4, INSIDE_V4, icmp, &echo(icmpv4::message::ECHO_REPLY, 77)),
        v4(REMOTE_V4, INSIDE_V4, icmp, &error(3, 3, &out)),
        v4(REMOTE_V4, INSIDE_V4, icmp, &error(11, 0, &fragment)),
        v4_with_options(INSIDE_V4, REMOTE_V4, udp, &datagram(5000, 53)),
        v4(INSIDE_V4, REMOTE_V4, ip_protocol::ESP, &[0; 24]),
        v4(INSIDE_V4, INSIDE_V4, udp, &datagram(1, 2)),
        v4(INSIDE_V4, [10, 0, 0, 2], udp, &datagram(5000, 53)),
        fragment,
        later,
        v6(1, 2, tcp, &segment(4000, 80, tcp::flags::SYN, &options)),
        v6(1, 2, udp, &datagram(5000, 53)),
        v6(1, 2, 0, &hop_by_hop),
        v6(1, 2, 44, &fragment_v6),
        v6(1, 2, ip_protocol::ICMPV6, &echo(icmpv6::message::ECHO_REQUEST, 3)),
        v6(1, 2, ip_protocol::ICMPV6, &error(1, 4, &v6(2, 1, udp, &datagram(53, 5000)))),
    ];
    let kind = |packet: &[u8]| if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let mut found: Vec<_> = raw.iter().map(|p| (ethernet(kind(p), p), 0)).collect();
    found.extend([&[0x123][..], &[7, 0x123], &[9, 7, 0x123]].map(|tags| (tagged(tags, &out), 0)));
    // No payload by the header, and one after it.
    for (next, body) in
        [(tcp, segment(4000, 80, tcp::flags::SYN, &[])), (udp, datagram(6, 7)), (0, hop_by_hop)]
    {
        let mut packet = v6(1, 2, next, &body);
        packet[4..6].fill(0);
        found.push((ethernet(ethertype::IPV6, &packet), 0));
    }
    found.push((ethernet(0x0806, &[0; 28]), 0));
    found.extend([1, 2].map(|link| (out.clone(), link)));
    found.push((v6(1, 2, udp, &datagram(5, 6)), 3));
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0, 8, 0][..], &out].concat();
    let sll2 = [&[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0][..], &out].concat();
    found.extend([(sll, 4), (sll2, 5), (vec![1, 2, 3], 6)]);
    // Loopbacks of BSD: the address family in either byte order, and those of IPv6.
    let six = v6(1, 2, udp, &datagram(5, 6));
    for (family, packet) in [(2, &out), (24, &six), (28, &six), (30, &six)] {
        found.push(([&[family, 0, 0, 0], &packet[..]].concat(), 7));
        found.push(([&[0, 0, 0, family], &packet[..]].concat(), 8));
    }
    found
}

fn of_functions(seeds: &mut Vec<Seed>) {
    let packets = packets();
    for target in
        ["digest", "firewall", "flow_monitor", "ipcomp", "ipsec", "load_balancer", "nat", "router"]
    {
        for (number, (packet, link)) in packets.iter().enumerate() {
            let mut one = Vec::new();
            put(&mut one, packet, REPAIR, 0, *link);
            put(&mut one, packet, FLUSH, 3, *link);
            put(&mut one, packet, TICK | REPAIR, 6, *link);
            seeds.push((target, format!("packet-{number}"), one));
            let mut talk = Vec::new();
            put(&mut talk, packet, REPAIR, 0, *link);
            put(&mut talk, &[], ANSWER | REPAIR, 1, *link);
            put(&mut talk, &[], ANSWER | REPAIR, 2, *link);
            put(&mut talk, &[], QUOTE | REPAIR, 2, *link);
            seeds.push((target, format!("talk-{number}"), talk));
        }
        // A run long enough for loops that take many plain packets at once.
        let short = ethernet(ethertype::IPV4, &v4(INSIDE_V4, INSIDE_V4, 17, &datagram(1, 2)[..8]));
        let mut wave = Vec::new();
        (0..140).for_each(|_| put(&mut wave, &short, REPAIR, 0, 0));
        seeds.push((target, "wave".into(), wave));
        for flags in [REPAIR, REPAIR | FLUSH] {
            let mut all = Vec::new();
            packets.iter().for_each(|(packet, link)| put(&mut all, packet, flags, 2, *link));
            seeds.push((target, format!("all-{flags}"), all));
        }
    }
    for (number, (packet, link)) in packets.into_iter().enumerate() {
        for (name, repairs) in [("packet", 0x80), ("as-it-is", 0)] {
            let seed = [&[link | repairs, 0, 0x1f, 0xe1][..], &packet].concat();
            seeds.push(("headers", format!("{name}-{number}"), seed));
        }
    }
}

/// ESP that no gateway sealed, for every SA and for no SA, whole and in fragments. Also changes to
/// sealed packets.
fn of_ipsec(seeds: &mut Vec<Seed>) {
    let (here, there) = ([198, 51, 100, 1], [198, 51, 100, 2]);
    for spi in 0x0fffu32..0x1007 {
        let esp = [&spi.to_be_bytes()[..], &[0, 0, 0, 1], &[0x5c; 60]].concat();
        let [high, low] = (8 + esp.len() as u16).to_be_bytes();
        let in_udp = [&[0x11, 0x94, 0x11, 0x94, high, low, 0, 0], &esp[..]].concat();
        let (mut first, mut last) = (
            v4(here, there, ip_protocol::ESP, &esp[..24]),
            v4(here, there, ip_protocol::ESP, &esp[24..]),
        );
        (first[6], last[7]) = (0x20, 3);
        let mut input = Vec::new();
        for packet in [
            v4(here, there, ip_protocol::ESP, &esp),
            v4(here, there, ip_protocol::UDP, &in_udp),
            v4(here, there, ip_protocol::UDP, &in_udp[..9]),
            v6(1, 2, ip_protocol::ESP, &esp),
            first,
            last,
        ] {
            let kind = if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
            put(&mut input, &ethernet(kind, &packet), REPAIR, 1, 0);
        }
        seeds.push(("ipsec", format!("esp-{spi:x}"), input));
    }
    for (number, (packet, link)) in packets().into_iter().enumerate() {
        let mut input = Vec::new();
        put(&mut input, &packet, REPAIR, 0, link);
        // The SPI, the number, the IV or text, and bytes far after.
        for change in [[3, 0, 1], [7, 0, 1], [9, 0, 1], [40, 0, 0x80], [0xff, 0xff, 1]] {
            put(&mut input, &change, QUOTE, 0, link);
        }
        seeds.push(("ipsec", format!("changed-{number}"), input));
    }
}

/// A pcap file of version 2.`minor` and these packets, some of them cut by the capture. The byte
/// order is that of this function's `number`.
fn pcap(big: bool, magic: u32, minor: u8, link: u32, packets: &[&[u8]]) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let version = if big { [0, 2, 0, minor] } else { [2, 0, minor, 0] };
    let mut file = [number(magic), version, [0; 4], [0; 4], number(262_144), number(link)].concat();
    for (at, packet) in (0u32..).zip(packets) {
        let len = packet.len() as u32;
        let mut lengths = [len, len + at];
        // Up to 2.2 the wire's comes first; in 2.3 it is either.
        if minor < 3 || (minor == 3 && at == 1) {
            lengths.reverse();
        }
        file.extend([number(at), number(at * 7), number(lengths[0]), number(lengths[1])].concat());
        file.extend_from_slice(packet);
    }
    file
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = number(body.len() as u32 + 12);
    [number(kind).to_vec(), len.to_vec(), body, len.to_vec()].concat()
}

/// A pcapng file: a section, an interface with options, an enhanced, a simple, an obsolete packet
/// block and one of names.
fn pcapng(big: bool, packet: &[u8]) -> Vec<u8> {
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let halves = |values: &[u16]| values.iter().flat_map(|&v| half(v)).collect::<Vec<u8>>();
    let section = [number(0x1a2b_3c4d).to_vec(), halves(&[1, 0]), vec![0xff; 8]].concat();
    let resolution = [halves(&[9, 1]), vec![9, 0, 0, 0]].concat();
    let offset = [halves(&[14, 8]), vec![0; 8]].concat();
    let interface =
        [halves(&[1, 0]), number(65_535).to_vec(), resolution, offset, halves(&[0, 0])].concat();
    let len = packet.len() as u32;
    let enhanced = [0, 0x0005_f5e1, 77, len, len].map(number).concat();
    let obsolete = [halves(&[0, 0]), [0, 77, len, len].map(number).concat()].concat();
    [
        block(big, 0x0a0d_0d0a, &section),
        block(big, 1, &interface),
        block(big, 6, &[enhanced, packet.to_vec()].concat()),
        block(big, 3, &[number(len).to_vec(), packet.to_vec()].concat()),
        block(big, 2, &[obsolete, packet.to_vec()].concat()),
        block(big, 4, &halves(&[0, 0])),
    ]
    .concat()
}

fn of_captures(seeds: &mut Vec<Seed>) {
    let packet = ethernet(ethertype::IPV4, &v4(INSIDE_V4, REMOTE_V4, 17, &datagram(1, 2)));
    let mut add = |name: &str, file: Vec<u8>| {
        seeds.push(("capture", name.into(), [&[0, 5][..], &file].concat()));
        // gzip and zstd, whole and by members, as they are and with a change.
        for (how, member, change) in
            [(2, 255, 0), (2, 1, 0), (3, 255, 0), (7, 2, 0), (2, 3, 9), (3, 3, 9)]
        {
            let head = [0, 5, how, member, 40, 0, change];
            let name = format!("{name}-{how}-{member}-{change}");
            seeds.push(("capture_compressed", name, [&head[..], &file].concat()));
        }
    };
    for big in [false, true] {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
            let file = pcap(big, magic, 4, 1, &[&packet, b"", &packet]);
            add(&format!("pcap-{big}-{magic:x}"), file);
        }
        for minor in 0..4 {
            let file = pcap(big, 0xa1b2_c3d4, minor, 1, &[&packet, &packet, b"", &packet]);
            add(&format!("pcap-{big}-2.{minor}"), file);
        }
        for link in [0, 108] {
            let on_loopback = [&[2, 0, 0, 0], &packet[14..]].concat();
            let file = pcap(big, 0xa1b2_c3d4, 4, link, &[&on_loopback, &on_loopback]);
            add(&format!("pcap-{big}-link-{link}"), file);
        }
        add(&format!("pcapng-{big}"), pcapng(big, &packet));
        let two = [pcapng(big, &packet), pcapng(!big, b"odd")].concat();
        add(&format!("pcapng-two-{big}"), two);
    }
    for how in [0, 1, 2, 0x80] {
        let frames = [
            0, 1, 5, 0, 1, b'e', b't', b'h', b'0', 0, 0, 1, 3, 3, 0, b'a', b'b', b'c', 1, 101, 2,
            2, 9,
        ];
        let file = [&[how][..], &frames, b"why"].concat();
        seeds.push(("pcapng_writer", format!("{how}"), file));
    }
}

/// Dumps of a kernel.
const DUMPS: [(&str, &[u8]); 5] = [
    ("links", include_bytes!("../../crates/netlink/src/dumps/links.bin")),
    ("addresses", include_bytes!("../../crates/netlink/src/dumps/addresses.bin")),
    ("neighbours", include_bytes!("../../crates/netlink/src/dumps/neighbours.bin")),
    ("routes4", include_bytes!("../../crates/netlink/src/dumps/routes4.bin")),
    ("routes6", include_bytes!("../../crates/netlink/src/dumps/routes6.bin")),
];

/// Datagrams in two and three fragments, each order, and an overlap.
fn of_reassembly(seeds: &mut Vec<Seed>) {
    let body = segment(4000, 80, tcp::flags::ACK, &[]);
    let of_v4 = |at: usize, end: usize, bits: u8| {
        let mut packet = v4(INSIDE_V4, REMOTE_V4, ip_protocol::TCP, &body[at..end]);
        packet[6..8].copy_from_slice(&[bits, at as u8 / 8]);
        ethernet(ethertype::IPV4, &packet)
    };
    let of_v6 = |at: usize, end: usize, bits: u8| {
        let header = [200, 0, 0, at as u8 | bits >> 5, 0, 0, 0, 9];
        let packet = v6(1, 2, 44, &[&header[..], &body[at..end]].concat());
        ethernet(ethertype::IPV6, &packet)
    };
    let cuts =
        [[(0, 8, 0x20), (8, 16, 0x20), (16, 24, 0)], [(0, 16, 0x20), (8, 16, 0x20), (16, 24, 0)]];
    let kinds: [&dyn Fn(usize, usize, u8) -> Vec<u8>; 2] = [&of_v4, &of_v6];
    for (number, (cut, order)) in
        cuts.iter().flat_map(|cut| [[0, 1, 2], [2, 0, 1], [2, 2, 0]].map(|o| (cut, o))).enumerate()
    {
        for (kind, make) in kinds.iter().enumerate() {
            let mut seed = Vec::new();
            for (at, end, bits) in order.map(|place| cut[place]) {
                put(&mut seed, &make(at, end, bits), REPAIR, 1, 0);
            }
            seeds.push(("reassembly", format!("cut-{number}-{kind}"), seed));
        }
    }
    // One source begins more than there is room for, others one each that they end.
    let of_source = |source: u8, ident: u8, is_last: bool| {
        let part = if is_last { &body[16..] } else { &body[..16] };
        let mut packet = v4([10, 0, 0, source], REMOTE_V4, ip_protocol::TCP, part);
        packet[4..8].copy_from_slice(&[
            0,
            ident,
            if is_last { 0 } else { 0x20 },
            2 * u8::from(is_last),
        ]);
        ethernet(ethertype::IPV4, &packet)
    };
    for others in [1, 2, 5] {
        let mut seed = Vec::new();
        (0..3).for_each(|ident| put(&mut seed, &of_source(1, ident, false), REPAIR, 1, 0));
        for is_last in [false, true] {
            for source in 2..2 + others {
                put(&mut seed, &of_source(source, 9, is_last), REPAIR, 1, 0);
                put(&mut seed, &of_source(1, 10 + source, false), REPAIR, 1, 0);
            }
        }
        seeds.push(("reassembly", format!("sources-{others}"), seed));
    }
}

/// A TCP segment between two hosts; `times` are the values of a timestamp option (RFC 7323, 3.2).
fn stream(
    to_client: bool,
    [seq, ack]: [u32; 2],
    flags: u16,
    times: Option<[u32; 2]>,
    data: &[u8],
) -> Vec<u8> {
    let options = times.map_or(Vec::new(), |[own, echoed]| {
        [&[1, 1, 8, 10], &own.to_be_bytes()[..], &echoed.to_be_bytes()].concat()
    });
    let (mut ends, mut ports) = ([INSIDE_V4, REMOTE_V4], [4000, 80]);
    if to_client {
        ends.reverse();
        ports.reverse();
    }
    let mut body = segment(ports[0], ports[1], flags, &options);
    body.truncate(tcp::HEADER_LEN + options.len());
    body.extend_from_slice(data);
    let mut view = tcp::Tcp::new_unchecked(&mut body[..]);
    view.set_seq(seq);
    view.set_ack(ack);
    ethernet(ethertype::IPV4, &v4(ends[0], ends[1], ip_protocol::TCP, &body))
}

/// Connections that begin, end and lose their way in ways of their own, and floods around them.
fn talks() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    use tcp::flags::{ACK, PSH, RST, SYN};
    const DATA: u16 = PSH | ACK;
    let up = |seq, ack, flags, data: &[u8]| stream(false, [seq, ack], flags, None, data);
    let down = |seq, ack, flags, data: &[u8]| stream(true, [seq, ack], flags, None, data);
    let opened =
        || vec![up(100, 0, SYN, b""), down(500, 101, SYN | ACK, b""), up(101, 501, ACK, b"")];
    let with = |frames: Vec<Vec<u8>>| [opened(), frames].concat();
    let timed = |to_client: bool, numbers, flags, times, data: &[u8]| {
        stream(to_client, numbers, flags, Some(times), data)
    };
    let flood: Vec<Vec<u8>> = (0..40)
        .map(|host| v4([10, 9, 0, host], REMOTE_V4, ip_protocol::UDP, &datagram(9, 53)))
        .map(|packet| ethernet(ethertype::IPV4, &packet))
        .collect();
    let mut in_vlans = Vec::new();
    let whole = datagram(5000, 53);
    for (vlan, part, bits) in
        [(7, &whole[..8], [0x20, 0]), (8, &whole[8..], [0, 1]), (7, &whole[8..], [0, 1])]
    {
        let mut packet = v4(INSIDE_V4, REMOTE_V4, ip_protocol::UDP, part);
        packet[6..8].copy_from_slice(&bits);
        repair(&mut packet, LinkType::IPV4);
        in_vlans.push(tagged(&[vlan], &packet));
    }
    vec![
        // A SYN that is refused, and the same one again.
        (
            "reset",
            [
                vec![up(100, 0, SYN, b""), down(0, 101, RST | ACK, b"")],
                with(vec![up(101, 501, DATA, b"abcd")]),
            ]
            .concat(),
        ),
        (
            "reset-late",
            [with(vec![up(101, 501, RST, b"")]), with(vec![up(101, 501, DATA, b"abcd")])].concat(),
        ),
        // Old timestamps (RFC 7323, 5) between data.
        (
            "old-times",
            vec![
                timed(false, [100, 0], SYN, [1000, 0], b""),
                timed(true, [500, 101], SYN | ACK, [2000, 1000], b""),
                timed(false, [101, 501], ACK, [1001, 2000], b""),
                timed(false, [101, 501], DATA, [1002, 2000], b"ab"),
                timed(false, [103, 501], DATA, [900, 2000], b"xx"),
                timed(false, [103, 501], DATA, [1003, 2000], b"cd"),
                timed(true, [501, 105], DATA, [2001, 1003], b"00"),
            ],
        ),
        (
            "old-acks",
            with(vec![
                up(101, 501, DATA, b"ab"),
                up(103, 501_u32.wrapping_sub(100_000), DATA, b"xx"),
                up(103, 90_000, DATA, b"yy"),
                up(103, 501, DATA, b"cd"),
                down(501, 105, ACK, b""),
            ]),
        ),
        // More than a window of data is missing, and the other side acknowledges it.
        (
            "unseen",
            with(vec![
                down(501, 101, DATA, b"ab"),
                up(101, 150_503, ACK, b""),
                down(150_503, 101, DATA, b"cd"),
                up(101, 150_505, DATA, b"ab"),
            ]),
        ),
        (
            "answer-first",
            vec![
                down(500, 101, SYN | ACK, b""),
                up(101, 501, ACK, b""),
                up(101, 501, DATA, b"abcd"),
                down(501, 105, DATA, b"00"),
            ],
        ),
        (
            "flood",
            [with(vec![up(101, 501, DATA, b"ab")]), flood, vec![up(103, 501, DATA, b"cd")]]
                .concat(),
        ),
        ("vlans", in_vlans),
    ]
}

/// Those talks in every target that tells flows apart, at once and with time between.
fn of_flows(seeds: &mut Vec<Seed>) {
    for (name, frames) in talks() {
        for (pace, step) in [(0, 1), (1, 2), (2, 3)] {
            let mut input = Vec::new();
            frames.iter().for_each(|frame| put(&mut input, frame, 0, step, 0));
            let name = format!("{name}-{pace}");
            for target in ["firewall", "flow_monitor", "nat"] {
                seeds.push((target, name.clone(), input.clone()));
            }
            for (target, kinds) in
                [("nids", [0, 1, 2, 3]), ("nids_flows", [0x0e, 0x8e, 0x3c, 0x86])]
            {
                for first in kinds {
                    let seed = [&[first], &input[..]].concat();
                    seeds.push((target, format!("{name}-{first:x}"), seed));
                }
            }
        }
    }
    // An error about an echo request that the other side never sent.
    let request = echo(icmpv4::message::ECHO_REQUEST, 77);
    let of =
        |src, dst, body: &[u8]| ethernet(ethertype::IPV4, &v4(src, dst, ip_protocol::ICMP, body));
    for (number, [src, dst]) in
        [[INSIDE_V4, REMOTE_V4], [REMOTE_V4, INSIDE_V4]].into_iter().enumerate()
    {
        let quoted = v4(REMOTE_V4, INSIDE_V4, ip_protocol::ICMP, &request);
        let mut input = Vec::new();
        put(&mut input, &of(INSIDE_V4, REMOTE_V4, &request), 0, 1, 0);
        put(&mut input, &of(src, dst, &error(3, 1, &quoted)), FLUSH, 1, 0);
        seeds.push(("firewall", format!("other-s-echo-{number}"), input.clone()));
        seeds.push(("nat", format!("other-s-echo-{number}"), input));
    }
    // Clocks that are wrong: behind all others, far ahead, and as far as numbers go.
    for (number, flags) in [ANSWER, QUOTE, ANSWER | QUOTE].into_iter().enumerate() {
        let mut input = Vec::new();
        for (at, (packet, link)) in packets().into_iter().enumerate() {
            put(&mut input, &packet, REPAIR | if at % 3 == 1 { flags } else { 0 }, 2, link);
            put(&mut input, &packet, REPAIR | if at % 2 == 1 { flags } else { 0 }, 3, link);
        }
        seeds.push(("flow_monitor", format!("clock-{number}"), input));
    }
}

/// Files of another kind than their reader expects.
fn of_other_files(seeds: &mut Vec<Seed>) {
    for (target, texts) in
        TEXTS.iter().filter(|(target, _)| !matches!(*target, "prefix" | "generator_config"))
    {
        for (number, text) in STRANGE.iter().chain(SAS).enumerate() {
            seeds.push((target, format!("strange-{number}"), text.as_bytes().to_vec()));
            // After valid text, too.
            let text = format!("{}\n{text}", texts.first().unwrap_or(&""));
            seeds.push((target, format!("strange-behind-{number}"), text.into_bytes()));
        }
    }
    let rule = "alert tcp any any -> any any (msg:\"\u{1b}[2J\"; content:\"a\"; sid:1;)\n";
    let utf16: Vec<u8> =
        [0xfeff].into_iter().chain(rule.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let files = [
        rule.as_bytes().to_vec(),
        utf16,
        [&[0x1f, 0x8b, 8, 0][..], &[0x5a; 200]].concat(),
        (0..=255).collect(),
        b"# nothing\n\n# at all\n".to_vec(),
        b"drop everything\naccept tcp\n".to_vec(),
        format!("{rule}alert tcp any any -> any any (key=00112233445566778899aabbccddeeff;)\n")
            .into_bytes(),
    ];
    for (number, file) in files.into_iter().enumerate() {
        seeds.push(("nids_rules", format!("file-{number}"), file));
    }
    for (number, text) in STRANGE.iter().chain(SAS).enumerate() {
        seeds.push(("nids_rules", format!("strange-{number}"), text.as_bytes().to_vec()));
    }
}

/// Rules of most kinds, each followed by every packet, sent twice; and the packets with the rules
/// of `sensors`.
fn of_nids(seeds: &mut Vec<Seed>) {
    const HEAD: &str = "alert ip any any -> any any (sid:1; ";
    const OPTIONS: [&str; 8] = [
        "content:\"|00|\"; content:!\"ab\"; within:9;)",
        "pcre:\"/[a-z]{2,}/R\"; flowbits:set,a; threshold:type limit,track by_src,count 1,seconds \
         9;)",
        "byte_test:1,>,3,0; byte_jump:1,1,relative; isdataat:2,relative;)",
        "byte_extract:1,0,n; content:\"|01|\"; distance:n; byte_math:bytes 1, offset 0, oper +, \
         rvalue 1, result m;)",
        "flags:S; ttl:>3; fragbits:M; dsize:1<>9; ipopts:any; sameip;)",
        "xbits:set,x,track ip_src,expire 9; flowint:n,+,1; stream_size:both,>,1;)",
        "itype:8; icode:0; icmp_seq:1; window:1; ack:0; seq:0; detection_filter:track by_dst,count \
         1,seconds 9;)",
        "http.uri; content:\"a\"; noalert; target:src_ip; metadata:a b; reference:url,a; \
         classtype:b;)",
    ];
    let mut input = Vec::new();
    for (packet, link) in packets() {
        put(&mut input, &packet, REPAIR, 1, link);
        put(&mut input, &packet, FLUSH, 2, link);
    }
    for (number, options) in OPTIONS.iter().enumerate() {
        let rejecting = HEAD.replace("alert", "reject").replace("sid:1", "sid:2");
        let rules = format!("{HEAD}{options}\n{rejecting}content:\"0\";)\n");
        let seed = [&[RULE_SETS as u8], rules.as_bytes(), &[0], &input].concat();
        seeds.push(("nids", format!("options-{number}"), seed));
        seeds.push(("nids_rules", format!("options-{number}"), rules.into_bytes()));
    }
    for number in 0..RULE_SETS {
        let seed = [&[number as u8], &input[..]].concat();
        seeds.push(("nids", format!("rules-{number}"), seed));
    }
}

/// Every seed there is.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    of_functions(&mut seeds);
    of_ipsec(&mut seeds);
    of_nids(&mut seeds);
    of_captures(&mut seeds);
    of_reassembly(&mut seeds);
    of_flows(&mut seeds);
    of_other_files(&mut seeds);
    seeds.extend(DUMPS.map(|(name, dump)| ("netlink", name.into(), dump.to_vec())));
    let dump = to_mrt(&full_table(1, 5, 5), 2);
    seeds.push(("mrt", "dump".into(), dump));
    for (target, texts) in TEXTS {
        for (number, text) in texts.iter().enumerate() {
            seeds.push((target, format!("text-{number}"), text.as_bytes().to_vec()));
        }
    }
    seeds
}
