//! Fields of frames in columns: put there and taken back as by a host that stages them, and kernels that find them there.
//!
//! What is staged of a frame is poison in the mirror then, so that a kernel is seen that reads or writes it there.

use core::ops::Range;
use std::path::Path;

use warpline_device::{Device, Failure};
use warpline_nf::digest::DEFINITION;
use warpline_nf::harness::{Input, build};
use warpline_nf::{Function, field_copies};
use warpline_packet::{
    ArenaLayout, Binding, Field, FieldSet, Flags, Headers, LinkType, Place, Span, StagedColumn,
};

use crate::compiled::compile_all;
use crate::driver::{Program, devices, list};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, udp};
use crate::ipsec::gateway::{Files, Sa};
use crate::side::{Side, WORKED, layout};
use crate::sys::POISON;
use crate::sys::vouched::source;
use crate::sys::with_text;

/// Columns behind a table's own.
pub(crate) struct Staging {
    pub(crate) binding: Binding,
}

impl Staging {
    /// Of `fields`, and the layout with room for them: what more scratch words would have.
    pub(crate) fn new(fields: FieldSet, of: ArenaLayout) -> (Self, ArenaLayout) {
        let binding = Binding::staged(fields, &of).expect("fields with places");
        let scratch_words = of.scratch_words + binding.row_len().div_ceil(4);
        (Self { binding }, ArenaLayout { scratch_words, ..of })
    }

    /// Moves what is staged of a batch's frames in `arena` to its columns.
    pub(crate) fn gather(&self, side: &mut Side<'_>, index: usize, arena: &mut [u8]) {
        self.each(side, index, |_, frame, row| {
            arena.copy_within(frame.clone(), row.start);
            arena[frame].fill(POISON);
        });
    }

    /// Moves it back.
    pub(crate) fn scatter(&self, side: &mut Side<'_>, index: usize, arena: &mut [u8]) {
        self.each(side, index, |_, frame, row| {
            let is_poison = arena[frame.clone()].iter().all(|&byte| byte == POISON);
            assert!(is_poison, "a staged field was written in the mirror");
            arena.copy_within(row, frame.start);
        });
    }

    /// Names each field, where in the arena it lies in its frame, and where in its column.
    fn each(
        &self,
        side: &mut Side<'_>,
        index: usize,
        mut visit: impl FnMut(Field, Range<usize>, Range<usize>),
    ) {
        let table = side.batch(index).table_range().start;
        for row in 0..side.batch(index).len() {
            let frame = side.reached.frame_place(index, row);
            let packet = side.batch(index).packet(row);
            let (headers, link) = (packet.headers(), packet.link());
            for &StagedColumn { field, version, start, width } in self.binding.columns() {
                let place = place_of(field, &headers, link);
                let is_its = version == 0 || version == headers.version;
                let place = place.filter(|place| is_its && place.end <= frame.len());
                if let Some(place) = place {
                    let column = table + start + width * row;
                    let own = frame.start + place.start..frame.start + place.end;
                    visit(field, own, column..column + place.len());
                }
            }
        }
    }
}

/// Where `field` lies in a frame with these headers, if they have it.
fn place_of(field: Field, headers: &Headers, link: LinkType) -> Option<Range<usize>> {
    let [l3, l4] = [headers.l3, headers.l4].map(usize::from);
    let has_transport = headers.flags.has(Flags::TRANSPORT);
    let behind = |at: usize, span: Option<Span>| {
        let span = span?;
        Some(at + span.start..at + span.start + span.len)
    };
    match field.place() {
        Place::Link(_) if field == Field::VlanTci && !headers.flags.has(Flags::VLAN) => None,
        Place::Link(own) if link == LinkType::ETHERNET => behind(0, Some(own)),
        Place::Ip { v4, .. } if headers.version == 4 => behind(l3, v4),
        Place::Ip { v6, .. } if headers.version == 6 => behind(l3, v6),
        Place::Transport { tcp, udp, icmp, esp } if has_transport => match headers.protocol {
            6 => behind(l4, tcp),
            17 => behind(l4, udp),
            1 | 58 => behind(l4, icmp),
            50 => behind(l4, esp),
            _ => None,
        },
        _ => None,
    }
}

/// Changes every field of a packet's headers. It takes the place of the digest's kernel.
const CHANGE_ALL: &str = "
#define ADD_ONE(field) set_##field(f, field(f) + 1)
#define TURN(field) field(f)[0] ^= 255

FUNCTION void change_link(Fields f)
{
    if (link_of(f.packet) != LINKTYPE_ETHERNET) return;
    TURN(eth_dst); TURN(eth_src); ADD_ONE(eth_type);
    if (header_flags(f.packet) & FLAG_VLAN) ADD_ONE(vlan_tci);
}

FUNCTION void change_ip(Fields f)
{
    if (ip_version(f.packet) == 4) {
        ADD_ONE(traffic_class_v4); ADD_ONE(ip_len_v4); ADD_ONE(ip_ident); ADD_ONE(ip_fragment); ADD_ONE(ttl_v4);
        ADD_ONE(ip_protocol_v4); ADD_ONE(ip_checksum); ADD_ONE(src_addr_v4); ADD_ONE(dst_addr_v4);
    } else {
        ADD_ONE(traffic_class_v6); ADD_ONE(ip_len_v6); ADD_ONE(ttl_v6); ADD_ONE(ip_protocol_v6);
        TURN(src_addr_v6); TURN(dst_addr_v6);
    }
}

FUNCTION void change_transport(Fields f, u32 protocol)
{
    if (protocol == 6) {
        ADD_ONE(src_port_tcp); ADD_ONE(dst_port_tcp); ADD_ONE(tcp_seq); ADD_ONE(tcp_ack); ADD_ONE(tcp_flags);
        ADD_ONE(tcp_window); ADD_ONE(l4_checksum_tcp); ADD_ONE(tcp_urgent);
    } else if (protocol == 17) {
        ADD_ONE(src_port_udp); ADD_ONE(dst_port_udp); ADD_ONE(udp_len); ADD_ONE(l4_checksum_udp);
    } else if (protocol == 1 || protocol == 58) {
        ADD_ONE(icmp_type); ADD_ONE(icmp_code); ADD_ONE(l4_checksum_icmp); ADD_ONE(icmp_ident); ADD_ONE(icmp_seq);
    } else if (protocol == 50) {
        ADD_ONE(esp_spi); ADD_ONE(esp_seq);
    }
}

PACKET_KERNEL(digest_payloads)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, index());
        if (!is_ours(p)) continue;
        Fields f = fields_of(p);
        change_link(f);
        change_ip(f);
        if (header_flags(p) & FLAG_TRANSPORT) change_transport(f, ip_protocol(p));
    }
}
";

/// A packet of each protocol and version, on links with and without Ethernet.
fn packets() -> Vec<Input> {
    let mut random = Random::new(5);
    let mut inputs = Vec::new();
    for _ in 0..8 {
        let payload = random.bytes(40);
        let tcp = [&TCP, &payload[..]].concat();
        let bodies = [(6, tcp), (17, udp(&payload)), (50, payload.clone()), (99, payload.clone())];
        let icmp = [(1, payload.clone()), (58, payload)];
        for (protocol, body) in bodies.into_iter().chain(icmp) {
            // What +1 carries into the next byte, too.
            let dst = random.pick(&[[10, 0, 0, 255], [10, 255, 255, 255]]);
            let v4 = ipv4(dst, random.pick(&[254, 255]), protocol, &[], &body);
            let v6 = ipv6([7; 16], 255, protocol, &body);
            for packet in [v4, v6] {
                inputs.push(ethernet(&[], &packet));
                inputs.push(ethernet(&[0x81, 0, 0, 0xff], &packet));
                inputs.push(on_link(LinkType::RAW, &packet));
            }
        }
    }
    inputs.truncate(256);
    inputs
}

/// What the kernel is to make of `frame`.
fn changed(mut frame: Vec<u8>, headers: &Headers, link: LinkType) -> Vec<u8> {
    for &field in Field::ALL {
        let Some(place) = place_of(field, headers, link) else { continue };
        let own = &mut frame[place];
        match own.len() {
            1 | 2 | 4 => own.iter_mut().rev().fold(true, |carry, byte| {
                *byte = byte.wrapping_add(carry.into());
                carry && *byte == 0
            }),
            _ => {
                own[0] ^= 255;
                false
            }
        };
    }
    frame
}

/// Has the kernel change packets whose `fields` are staged, on `device`.
fn change_on(device: &dyn Device, fields: FieldSet, inputs: &[Input]) {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let kernels = function.kernels().expect("kernels");
    let (staging, layout) = Staging::new(fields, layout(&*function, words, 0));
    let source = with_text(CHANGE_ALL, &kernels, &layout, &staging.binding);
    let program = Program::new(&kernels, &source, &layout, staging, device);
    let mut side = Side::new(&*function, &layout);
    assert_eq!(side.fill(inputs), inputs.len());
    let mut arena = vec![0; side.reached.len()];
    side.reached.copy_to(&mut arena);
    let (after, _) = program.left_of(&mut side, arena);
    for index in WORKED {
        for row in 0..side.batch(index).len() {
            let place = side.reached.frame_place(index, row);
            let packet = side.batch(index).packet(row);
            let frame = packet.frame().to_vec();
            let expected = changed(frame, &packet.headers(), packet.link());
            assert_eq!(after[place], expected, "{fields:?}: batch {index}, packet {row}");
        }
    }
}

#[test]
fn every_field_is_the_same_in_the_frame_and_in_a_column() {
    let inputs = packets();
    for device in devices() {
        change_on(&*device, FieldSet::EMPTY, &inputs);
        change_on(&*device, Binding::stageable(), &inputs);
        // Others take longer to compile it, and what they make of one column they make of all.
        if device.description().id == "host" {
            let each = Binding::stageable().iter();
            each.for_each(|one| change_on(&*device, FieldSet::of(&[one]), &inputs));
        }
    }
}

/// The bytes of an arena, frames and columns, as random as they can be.
fn shuffle_columns(staging: &Staging, side: &mut Side<'_>, arena: &mut [u8]) {
    let mut random = Random::new(6);
    for index in WORKED {
        let table = side.batch(index).table_range().start;
        for &StagedColumn { start, width, .. } in staging.binding.columns() {
            let rows = side.batch(index).len();
            let column = &mut arena[table + start..][..width * rows];
            column.copy_from_slice(&random.bytes(width * rows));
        }
    }
}

/// Packets in an arena that has columns of all fields, and that arena.
fn with_columns<'a>(
    function: &'a dyn Function,
    words: usize,
    inputs: &[Input],
) -> (Staging, ArenaLayout, Side<'a>, Vec<u8>) {
    let (staging, layout) = Staging::new(Binding::stageable(), layout(function, words, LEN_MAX));
    let mut side = Side::new(function, &layout);
    assert_eq!(side.fill(inputs), inputs.len());
    let mut arena = vec![0; side.reached.len()];
    side.reached.copy_to(&mut arena);
    shuffle_columns(&staging, &mut side, &mut arena);
    (staging, layout, side, arena)
}

/// Bytes of the longest frame of these.
const LEN_MAX: usize = 200;

/// Every other field, and the rest.
fn halves() -> [FieldSet; 2] {
    let all = || Binding::stageable().iter().enumerate();
    [0, 1].map(|half| all().filter(|(at, _)| at % 2 == half).map(|(_, field)| field).collect())
}

#[test]
fn a_host_gathers_fields_and_puts_them_back() {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    for fields in halves() {
        let (staging, _, mut side, arena) = with_columns(&*function, words, &packets());
        for index in WORKED {
            let table = side.batch(index).table_range().start;
            let len = staging.binding.columns().last().map_or(0, |one| one.start + one.width * 256);
            let copy = arena[table..table + len].to_vec();
            let (mut gathered, mut expected) = (copy.clone(), arena.clone());
            side.batch(index).gather(&staging.binding, fields, &mut gathered);
            staging.each(&mut side, index, |field, frame, row| {
                if fields.contains(field) {
                    expected.copy_within(frame, row.start);
                }
            });
            assert!(gathered == expected[table..table + len], "{fields:?}");

            side.batch(index).scatter(&staging.binding, fields, &copy);
            let mut expected = arena.clone();
            staging.each(&mut side, index, |field, frame, row| {
                if fields.contains(field) {
                    expected.copy_within(row, frame.start);
                }
            });
            let mut after = vec![0; arena.len()];
            side.reached.copy_to(&mut after);
            for row in 0..side.batch(index).len() {
                let place = side.reached.frame_place(index, row);
                assert_eq!(after[place.clone()], expected[place], "{fields:?}: packet {row}");
            }
        }
    }
}

#[test]
fn kernels_copy_fields_between_frames_and_columns() {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let kernels = field_copies();
    for device in devices() {
        for [put, take] in [halves(), {
            let [one, other] = halves();
            [other, one]
        }] {
            let (staging, layout, mut side, arena) = with_columns(&*function, words, &packets());
            let binding = staging.binding.clone().with_copies(put, take);
            let none = Staging { binding: Binding::MIRROR };
            let source = source(&kernels, &layout, &binding);
            let program = Program::new(&kernels, &source, &layout, none, &*device);
            let (after, _) = program.launch(&arena, &list(&mut side, WORKED));
            let mut expected = arena;
            for index in WORKED {
                staging.each(&mut side, index, |field, frame, row| match put.contains(field) {
                    true => expected.copy_within(row, frame.start),
                    false => expected.copy_within(frame, row.start),
                });
            }
            let differs = after.iter().zip(&expected).position(|(one, other)| one != other);
            assert_eq!(differs, None, "{}: {put:?} there, {take:?} back", device.description());
        }
    }
}

#[test]
fn kernels_compile_for_gpus() {
    let (function, words) = build(&DEFINITION, "", Path::new("."));
    let (staging, layout) = Staging::new(Binding::stageable(), layout(&*function, words, LEN_MAX));
    let [put, take] = halves();
    let kernels = field_copies();
    let binding = staging.binding.with_copies(put, take);
    compile_all(&kernels, &source(&kernels, &layout, &binding));
}

/// ESP makes headers in frames, of which columns would know nothing.
#[test]
fn a_text_that_makes_headers_is_refused_columns_of_theirs() {
    let files = Files::new(&Sa::all(), "out");
    let (function, words) = files.function("nonces");
    let kernels = function.kernels().expect("kernels");
    let fields = FieldSet::of(&[Field::TrafficClass]);
    let (Staging { binding }, layout) = Staging::new(fields, layout(&*function, words, 0));
    for device in devices() {
        let refused = device.compile(&source(&kernels, &layout, &binding));
        let Err(Failure::Compile { log }) = refused else { panic!("{refused:?}") };
        assert!(log.contains("traffic_class_lies_in_a_column"), "{log}");
    }
}
