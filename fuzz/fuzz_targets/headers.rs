//! Headers, steering, wire views and a batch over the same bytes. The first four bytes are the link
//! type (from 128 on, lengths and checksums are put right), bytes that the capture cut off, and by
//! how much the frame's ends move.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{LINK_TYPES, LINKS, repair};
use warpline_fuzz::sum16;
use warpline_packet::wire::{
    checksum, esp, ethernet, icmp_error, icmpv4, icmpv6, ip_protocol, ipv4, ipv6, ipv6_ext,
    options, sll, tcp, udp, vlan,
};
use warpline_packet::*;
use warpline_rewrite::{ClientKey, InsideKey, JointKey};

fuzz_target!(|data: &[u8]| {
    let Some((&[link, cut, head, tail], frame)) = data.split_first_chunk::<4>() else { return };
    let mut frame = frame.to_vec();
    if link & 0x80 != 0 {
        repair(&mut frame, LINKS[usize::from(link & 0x7f) % LINK_TYPES]);
    }
    let frame = &frame[..];
    let wire_len = frame.len() + usize::from(cut);
    let shape = (isize::from(head as i8), isize::from(tail as i8));
    views(frame);
    let seed = u32::from_le_bytes([link, cut, head, tail]);
    let hasher = FlowHasher::new(Seed::new(seed.into()));
    errors(frame);
    for link in &LINKS[..LINK_TYPES] {
        let headers = parse(frame, *link, wire_len);
        steer(&hasher, frame, &headers);
    }
    batch(frame, LINKS[usize::from(link & 0x7f) % LINK_TYPES], wire_len, shape);
});

fn parse(frame: &[u8], link: LinkType, wire_len: usize) -> Headers {
    let headers = Headers::parse(frame, link, wire_len);
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    assert!(l3 <= frame.len() && headers.end as usize <= frame.len());
    if headers.flags.has(Flags::TRANSPORT) {
        let payload = usize::from(headers.payload);
        assert!(l3 < l4 && l4 <= payload && payload <= headers.end as usize);
        assert!(!headers.flags.has(Flags::LATER_FRAGMENT));
    }
    if headers.version != 0 {
        assert!(frame[l3] >> 4 == headers.version);
    }
    headers
}

/// Every key gives a shard that there is, and both directions of TCP and UDP the same.
fn steer(hasher: &FlowHasher, frame: &[u8], headers: &Headers) {
    let of = |prefix: &str| prefix.parse().expect("a prefix");
    let key = InsideKey {
        inside: AddressBlocks::new(&[of("10.0.0.0/8"), of("2001:db8:1::/64")]),
        outside: AddressBlocks::new(&[of("203.0.113.0/24")]),
        port_first: 1024,
        ports_per_shard: 1008,
        fixed: std::sync::Arc::default(),
    };
    let client = ClientKey::new(&[of("192.0.2.0/24"), of("2001:db8:2::/64")]);
    let keys = [JointKey::of_translator(key), JointKey::of_balancer(client)];
    let keys = keys.map(|key| Steering::serving(key.state_key()));
    let turned = turned(frame, headers);
    for steering in keys.iter().chain(&[Steering::AddressPair, Steering::Single]) {
        let steered = steering.steer(hasher, frame, headers);
        assert!(usize::from(steered.shard) < SHARDS);
        if let Some(turned) = &turned {
            let back = steering.steer(hasher, turned, headers);
            assert_eq!(steered, back, "both directions by {}", steering.name());
        }
    }
}

/// The packet in the other direction: addresses and ports swapped. `None` without ports, and
/// between two translated addresses: each of the two ports belongs to another shard.
fn turned(frame: &[u8], headers: &Headers) -> Option<Vec<u8>> {
    let (l3, l4) = (usize::from(headers.l3), usize::from(headers.l4));
    let is_ported = matches!(headers.protocol, ip_protocol::TCP | ip_protocol::UDP);
    let (at, len) = if headers.version == 4 { (l3 + 12, 4) } else { (l3 + 8, 16) };
    let is_outside = |at: usize| headers.version == 4 && frame[at..].starts_with(&[203, 0, 113]);
    if !is_ported || !headers.flags.has(Flags::TRANSPORT) || is_outside(at) && is_outside(at + len)
    {
        return None;
    }
    let mut turned = frame.to_vec();
    turned[at..at + 2 * len].rotate_left(len);
    turned[l4..l4 + 4].rotate_left(2);
    Some(turned)
}

/// Calls every reader of a view, and writes each value back; the view must then read the same.
macro_rules! view {
    ($bytes:expr, $view:path, $($get:ident $set:ident)*, [$($only:ident)*]
     $(, $payload:ident)?) => {{
        let mut copy = $bytes.to_vec();
        if let Ok(mut view) = <$view>::new_checked(&mut copy[..]) {
            $(std::hint::black_box(view.$only());)*
            $(let value = view.$get(); view.$set(value); assert_eq!(view.$get(), value);)*
            std::hint::black_box(view.payload().len());
            $(view.$payload().reverse();)?
        }
    }};
}

fn views(frame: &[u8]) {
    view!(frame, ethernet::Ethernet<_>, dst set_dst src set_src ethertype set_ethertype, []);
    view!(frame, vlan::Vlan<_>, tci set_tci vid set_vid ethertype set_ethertype, [pcp dei]);
    view!(frame, ipv4::Ipv4<_>, total_len set_total_len ident set_ident
        flags_fragment set_flags_fragment ttl set_ttl protocol set_protocol checksum set_checksum
        src_addr set_src_addr dst_addr set_dst_addr,
        [version header_len dscp ecn dont_fragment more_fragments fragment_offset is_fragment
         verify_checksum], payload_mut);
    view!(frame, ipv6::Ipv6<_>, payload_len set_payload_len next_header set_next_header
        hop_limit set_hop_limit src_addr set_src_addr dst_addr set_dst_addr,
        [version traffic_class flow_label], payload_mut);
    view!(frame, tcp::Tcp<_>, src_port set_src_port dst_port set_dst_port seq set_seq ack set_ack
        header_len set_header_len flags set_flags window set_window checksum set_checksum
        urgent set_urgent, [segment_len], payload_mut);
    view!(frame, udp::Udp<_>, src_port set_src_port dst_port set_dst_port length set_length
        checksum set_checksum, [], payload_mut);
    view!(frame, icmpv4::Icmpv4<_>, message_type set_message_type code set_code
        checksum set_checksum ident set_ident seq set_seq,
        [is_error is_echo verify_checksum], payload_mut);
    view!(frame, icmpv6::Icmpv6<_>, message_type set_message_type code set_code
        checksum set_checksum ident set_ident seq set_seq, [is_error is_echo], payload_mut);
    view!(frame, esp::Esp<_>, spi set_spi seq set_seq, [], payload_mut);
    if let Ok(view) = sll::Sll::new_checked(frame) {
        let rest = (view.packet_type(), view.hardware_type(), view.ethertype());
        std::hint::black_box((rest, view.address().len(), view.payload().len()));
    }
    if let Ok(view) = sll::Sll2::new_checked(frame) {
        let rest = (view.packet_type(), view.hardware_type(), view.ethertype(), view.interface());
        std::hint::black_box((rest, view.address().len(), view.payload().len()));
    }
    walks(frame);
}

fn walks(frame: &[u8]) {
    let mut intact = options::Options::new(frame);
    let mut end = 0;
    for option in intact.by_ref() {
        assert!(option.offset >= end && option.offset + 2 + option.data.len() <= frame.len());
        end = option.offset + 2 + option.data.len();
    }
    assert!(intact.next().is_none());
    if let Ok(ip) = ipv4::Ipv4::new_checked(frame) {
        assert!(ip.options().count() <= 40);
    }
    if let Ok(segment) = tcp::Tcp::new_checked(frame) {
        assert!(segment.options().count() <= 40);
        std::hint::black_box(segment.verify_checksum(7));
    }
    if let Ok(ip) = ipv6::Ipv6::new_checked(frame) {
        let _ = ip.extensions();
    }
    if let Some(&next) = frame.first() {
        for total in [frame.len(), frame.len() + 64, 0, 40] {
            let _ = ipv6_ext::walk(next, frame, total);
        }
    }
    let sum = checksum::checksum(frame);
    assert_eq!(sum, !sum16(frame, 0));
    let mut changed = frame.to_vec();
    if let Some(bytes) = changed.first_chunk_mut::<4>() {
        let old = *bytes;
        *bytes = [1, 2, 3, 4];
        let updated = checksum::update_bytes(sum, &old, &[1, 2, 3, 4]);
        let start = u64::from(updated);
        assert_eq!(sum16(&changed, start), 0xffff, "updated as if summed anew");
    }
}

fn errors(frame: &[u8]) {
    let mut out = [0; 1280];
    let kind = icmp_error::Icmpv4Error::FragmentationNeeded { mtu: 1400 };
    if let Some(len) = icmp_error::icmpv4_error(&mut out, kind, [192, 0, 2, 1].into(), frame) {
        let headers = parse(&out[..len], LinkType::IPV4, len);
        assert!(headers.malformed().is_none() && len <= icmp_error::MAX_LEN_V4);
    }
    let kind = icmp_error::Icmpv6Error::HopLimitExceeded;
    if let Some(len) = icmp_error::icmpv6_error(&mut out, kind, [1; 8].into(), frame) {
        let headers = parse(&out[..len], LinkType::IPV6, len);
        assert!(headers.malformed().is_none() && len <= icmp_error::MAX_LEN_V6);
    }
}

struct Room {
    arena: Arena,
    batch: Batch,
    made: Batch,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::new(Room::new());
}

/// Bytes by which a frame may grow at either end.
const GROWTH: usize = 64;

impl Room {
    fn new() -> Self {
        let layout = ArenaLayout {
            slabs: 4,
            emit_slabs: 2,
            tables: 2,
            slots: 64,
            scratch_words: 2,
            headroom: GROWTH,
            tailroom: GROWTH,
        };
        let memory = HeapMemory::new(layout.memory_len()).expect("a few MiB");
        let mut arena = Arena::new(Box::new(memory), &layout).expect("a layout that fits");
        let batch = Batch::new(arena.tables.remove(0));
        let made = Batch::new(arena.tables.remove(0));
        Self { arena, batch, made }
    }
}

/// Calls every accessor of a packet, and writes each value back; it must then read the same.
macro_rules! accessors {
    ($packet:expr, $($get:ident $set:ident)*) => {{
        $(let value = $packet.$get(); $packet.$set(value); assert_eq!($packet.$get(), value);)*
    }};
}

fn batch(frame: &[u8], link: LinkType, wire_len: usize, shape: (isize, isize)) {
    ROOM.with_borrow_mut(|room| {
        let headers = Headers::parse(frame, link, wire_len);
        let steered = Steering::AddressPair.steer(&FlowHasher::SEED_0, frame, &headers);
        let arrival = Arrival {
            timestamp: Instant::from_secs(7),
            captured: Instant::from_secs(6),
            ingress: 5,
            wire_len: wire_len as u32,
            link,
            interface: 3,
            shard: steered.shard,
            flow_hash: steered.flow_hash,
        };
        let Room { arena, batch, made } = room;
        for _ in 0..3 {
            batch.push(frame, &headers, &arrival, &mut arena.ingress).expect("room for three");
        }
        made.push(frame, &headers, &arrival, &mut arena.emit).expect("room for one");
        let run = batch.plain_v4(0..3, link);
        let is_whole = headers.version == 4 && headers.malformed().is_none();
        assert_eq!(run.is_some(), is_whole);
        if let Some(run) = run {
            let mut addresses = [0; 3];
            batch.read_dst_v4(&run, &mut addresses);
            assert_eq!(addresses, [batch.packet(0).dst_v4(); 3]);
        }
        let mut packet = batch.packet_mut(1);
        assert_eq!((packet.frame(), packet.headers()), (frame, headers));
        touch(&mut packet);
        assert_eq!(packet.frame(), frame, "writing what was read changes nothing");
        hop(&mut packet, frame);
        reshape(&mut packet, frame, shape);
        assert!(batch.merge(made, &mut Vec::new()));
        assert_eq!(batch.len(), 4);
        let same = (0..4).filter(|&index| batch.packet(index).frame() == frame).count();
        assert!(same >= 3, "a packet that changes leaves the others alone");
        batch.clear();
        made.clear();
    });
}

/// A hop as routers do it; leaves the packet as it was.
fn hop(packet: &mut PacketMut<'_>, frame: &[u8]) {
    let (ttl, l3) = (packet.ttl(), packet.l3_offset());
    let right = |packet: &PacketMut<'_>| {
        packet.version() == 4 && sum16(&packet.frame()[l3..packet.l4_offset()], 0) == 0xffff
    };
    let was_right = right(packet);
    assert_eq!(packet.decrement_ttl(), ttl > 1);
    assert_eq!(packet.ttl(), if ttl > 1 { ttl - 1 } else { ttl });
    assert!(!was_right || right(packet), "the header checksum broke");
    packet.set_eth_addresses([1; 6], [2; 6]);
    packet.frame_mut().copy_from_slice(frame);
}

fn touch(packet: &mut PacketMut<'_>) {
    accessors!(packet, eth_dst set_eth_dst eth_src set_eth_src eth_type set_eth_type
        vlan_tci set_vlan_tci ip_len set_ip_len ip_ident set_ip_ident ip_fragment set_ip_fragment
        ttl set_ttl ip_protocol set_ip_protocol ip_checksum set_ip_checksum src_v4 set_src_v4
        dst_v4 set_dst_v4 src_v6 set_src_v6 dst_v6 set_dst_v6 src_port set_src_port
        dst_port set_dst_port tcp_seq set_tcp_seq tcp_ack set_tcp_ack tcp_flags set_tcp_flags
        tcp_window set_tcp_window udp_len set_udp_len l4_checksum set_l4_checksum
        icmp_type set_icmp_type icmp_code set_icmp_code icmp_ident set_icmp_ident
        icmp_seq set_icmp_seq esp_spi set_esp_spi esp_seq set_esp_seq next_hop set_next_hop);
    let frame = packet.frame().len();
    let parts = [packet.ip_options(), packet.tcp_options(), packet.payload(), packet.ip_packet()];
    assert!(parts.iter().all(|part| part.len() <= frame));
    std::hint::black_box((packet.traffic_class(), packet.arrival()));
    let payload = packet.payload().to_vec();
    packet.payload_mut().copy_from_slice(&payload);
    packet.flag();
    assert!(packet.is_flagged());
}

fn reshape(packet: &mut PacketMut<'_>, frame: &[u8], (head, tail): (isize, isize)) {
    let len = frame.len() as isize;
    let fits = packet.reshape(head, tail);
    if !fits {
        assert_eq!(packet.frame(), frame, "what doesn't fit changes nothing");
        return;
    }
    assert_eq!(packet.len() as isize, len - head + tail);
    // The bytes that are present before and after; one end may have moved past the other.
    let (from, to) = (head.max(0), (len + tail.min(0)).max(0));
    if from < to {
        let (at, from, kept) = ((-head).max(0) as usize, from as usize, (to - from) as usize);
        assert_eq!(
            packet.frame()[at..at + kept],
            frame[from..from + kept],
            "the rest is as it was"
        );
    }
    packet.frame_mut().fill(0x45);
    packet.reparse();
    touch(packet);
    assert_eq!(packet.len() as isize, len - head + tail);
}
