//! Fields of frames in columns. The tests stage and unstage them as a host does, and run kernels
//! that read them in the columns.
//!
//! Staged fields are poisoned in the mirror, so that the tests detect kernels that access them
//! there.

use core::ops::Range;
use std::path::Path;

use warpline_device::{Device, Failure};
use warpline_digest::DEFINITION;
use warpline_launch::field_copies;
use warpline_nf::Function;
use warpline_packet::{
    ArenaLayout, Binding, Field, FieldPlace, FieldSet, Flags, Headers, LaunchRows, LinkType,
    ReadWrite, Span, StagedColumn,
};
use warpline_verify::{Input, build};

use crate::compiled::compile_all;
use crate::driver::{Program, all_columns, devices, rows_of};
use crate::frames::{Random, TCP, ethernet, ipv4, ipv6, on_link, udp};
use crate::ipsec::gateway::{Files, Sa};
use crate::side::{Side, WORKED, layout};
use crate::sys::POISON;
use crate::sys::vouched::source;
use crate::sys::with_text;

/// Staged columns, placed after a launch's own columns.
pub(crate) struct Staging {
    pub(crate) binding: Binding,
    /// Bytes of a row of the launch's table.
    pub(crate) row_len: usize,
}

impl Staging {
    /// Stages `fields`, after the columns that arenas of this layout have.
    pub(crate) fn new(fields: FieldSet, layout: &ArenaLayout) -> Self {
        let binding = Binding::staged(fields, layout.scratch_words).expect("fields with places");
        Self { row_len: layout.row_len() + binding.row_len(), binding }
    }

    /// Moves the staged fields of a batch's frames from `arena` to their columns in the launch's
    /// `table`.
    pub(crate) fn gather(
        &self,
        (side, index): (&mut Side<'_>, usize),
        rows: &LaunchRows,
        arena: &mut [u8],
        table: &mut [u8],
    ) {
        self.each((side, index), rows, |_, frame, cell| {
            table[cell].copy_from_slice(&arena[frame.clone()]);
            arena[frame].fill(POISON);
        });
    }

    /// Moves it back.
    pub(crate) fn scatter(
        &self,
        (side, index): (&mut Side<'_>, usize),
        rows: &LaunchRows,
        arena: &mut [u8],
        table: &[u8],
    ) {
        self.each((side, index), rows, |_, frame, cell| {
            let is_poison = arena[frame.clone()].iter().all(|&byte| byte == POISON);
            assert!(is_poison, "a staged field was written in the mirror");
            arena[frame].copy_from_slice(&table[cell]);
        });
    }

    /// Names each field, where in the arena it lies in its frame, and where in the launch's table.
    fn each(
        &self,
        (side, index): (&mut Side<'_>, usize),
        rows: &LaunchRows,
        mut visit: impl FnMut(Field, Range<usize>, Range<usize>),
    ) {
        for (row, at) in rows.of(index).each() {
            let frame = side.reached.frame_place(index, row);
            let packet = side.batch(index).packet(row);
            let (headers, link) = (packet.headers(), packet.link());
            for &StagedColumn { field, version, before, width } in self.binding.columns() {
                let place = place_of(field, &headers, link);
                let is_its = version == 0 || version == headers.version;
                let place = place.filter(|place| is_its && place.end <= frame.len());
                if let Some(place) = place {
                    let cell = before * rows.rows() + width * at;
                    let own = frame.start + place.start..frame.start + place.end;
                    visit(field, own, cell..cell + place.len());
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
        FieldPlace::Link(_) if field == Field::VlanTci && !headers.flags.has(Flags::VLAN) => None,
        FieldPlace::Link(own) if link == LinkType::ETHERNET => behind(0, Some(own)),
        FieldPlace::Ip { v4, .. } if headers.version == 4 => behind(l3, v4),
        FieldPlace::Ip { v6, .. } if headers.version == 6 => behind(l3, v6),
        FieldPlace::Transport { tcp, udp, icmp, esp } if has_transport => match headers.protocol {
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
#define TURN(field) field##_to_write(f)[0] ^= 255

FUNCTION void change_link(Fields f)
{
    if (link_of(f.packet) != LINKTYPE_ETHERNET) return;
    TURN(eth_dst); TURN(eth_src); ADD_ONE(eth_type);
    if (header_flags(f.packet) & FLAG_VLAN) ADD_ONE(vlan_tci);
}

FUNCTION void change_ip(Fields f)
{
    if (ip_version(f.packet) == 4) {
        ADD_ONE(traffic_class_v4); ADD_ONE(ip_len_v4); ADD_ONE(ip_ident); ADD_ONE(ip_fragment); \
        ADD_ONE(ttl_v4);
        ADD_ONE(ip_protocol_v4); ADD_ONE(ip_checksum); ADD_ONE(src_addr_v4); ADD_ONE(dst_addr_v4);
    } else {
        ADD_ONE(traffic_class_v6); ADD_ONE(ip_len_v6); ADD_ONE(ttl_v6); ADD_ONE(ip_protocol_v6);
        TURN(src_addr_v6); TURN(dst_addr_v6);
    }
}

FUNCTION void change_transport(Fields f, u32 protocol)
{
    if (protocol == 6) {
        ADD_ONE(src_port_tcp); ADD_ONE(dst_port_tcp); ADD_ONE(tcp_seq); ADD_ONE(tcp_ack); \
        ADD_ONE(tcp_flags);
        ADD_ONE(tcp_window); ADD_ONE(l4_checksum_tcp); ADD_ONE(tcp_urgent);
    } else if (protocol == 17) {
        ADD_ONE(src_port_udp); ADD_ONE(dst_port_udp); ADD_ONE(udp_len); ADD_ONE(l4_checksum_udp);
    } else if (protocol == 1 || protocol == 58) {
        ADD_ONE(icmp_type); ADD_ONE(icmp_code); ADD_ONE(l4_checksum_icmp); ADD_ONE(icmp_ident); \
        ADD_ONE(icmp_seq);
    } else if (protocol == 50) {
        ADD_ONE(esp_spi); ADD_ONE(esp_seq);
    }
}

PACKET_KERNEL(digest_payloads)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
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
            // Addresses where +1 carries into the next byte, too.
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

/// The expected output of the kernel for `frame`.
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
    let all = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);
    let kernels = function.kernels().expect("kernels").declaring(all);
    let layout = layout(&*function, words, 0);
    let staging = Staging::new(fields, &layout);
    let source = with_text(CHANGE_ALL, &kernels, &staging.binding);
    let program = Program::new(&kernels, &source, &layout, staging, device);
    let mut side = Side::new(&*function, &layout);
    assert_eq!(side.fill(inputs), inputs.len());
    let after = program.left_of(&mut side, all_columns()).arena;
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

/// Packets of one launch, and columns of all fields.
struct WithColumns<'a> {
    staging: Staging,
    layout: ArenaLayout,
    side: Side<'a>,
    rows: LaunchRows,
    arena: Vec<u8>,
    /// The launch's table: its own columns, and random bytes in those of fields.
    table: Vec<u8>,
}

impl<'a> WithColumns<'a> {
    fn new(function: &'a dyn Function, words: usize, inputs: &[Input]) -> Self {
        let layout = layout(function, words, LEN_MAX);
        let staging = Staging::new(Binding::stageable(), &layout);
        let mut side = Side::new(function, &layout);
        assert_eq!(side.fill(inputs), inputs.len());
        let mut arena = vec![0; side.reached.len()];
        side.reached.copy_to(&mut arena);
        let rows = rows_of(&mut side, WORKED);
        let mut table = Random::new(6).bytes(staging.row_len * rows.rows());
        for index in WORKED {
            side.batch(index).copy_columns(all_columns(), rows.of(index), &mut table);
        }
        Self { staging, layout, side, rows, arena, table }
    }

    /// The frames as they lie in `arena`.
    fn frames(&mut self, arena: &[u8]) -> Vec<Vec<u8>> {
        let all = WORKED.flat_map(|index| {
            (0..self.side.batch(index).len())
                .map(|row| arena[self.side.reached.frame_place(index, row)].to_vec())
                .collect::<Vec<_>>()
        });
        all.collect()
    }
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
        let mut all = WithColumns::new(&*function, words, &packets());
        let (mut gathered, mut expected) = (all.table.clone(), all.table.clone());
        for index in WORKED {
            let batch = all.side.batch(index);
            batch.gather(&all.staging.binding, fields, all.rows.of(index), &mut gathered);
            all.staging.each((&mut all.side, index), &all.rows, |field, frame, cell| {
                if fields.contains(field) {
                    expected[cell].copy_from_slice(&all.arena[frame]);
                }
            });
        }
        assert!(gathered == expected, "{fields:?}");

        let mut expected = all.arena.clone();
        for index in WORKED {
            let batch = all.side.batch(index);
            batch.scatter(&all.staging.binding, fields, all.rows.of(index), &all.table);
            all.staging.each((&mut all.side, index), &all.rows, |field, frame, cell| {
                if fields.contains(field) {
                    expected[frame].copy_from_slice(&all.table[cell]);
                }
            });
        }
        let mut after = vec![0; all.arena.len()];
        all.side.reached.copy_to(&mut after);
        assert!(all.frames(&after) == all.frames(&expected), "{fields:?}");
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
            let mut all = WithColumns::new(&*function, words, &packets());
            let binding = all.staging.binding.clone().with_copies(put, take);
            let none = Staging { binding: Binding::MIRROR, row_len: all.staging.row_len };
            let source = source(&kernels, &binding);
            let program = Program::new(&kernels, &source, &all.layout, none, &*device);
            let after = program.launch(&all.arena, &all.table, all.rows.count());
            let (mut arena, mut table) = (all.arena.clone(), all.table.clone());
            for index in WORKED {
                all.staging.each((&mut all.side, index), &all.rows, |field, frame, cell| match put
                    .contains(field)
                {
                    true => arena[frame].copy_from_slice(&all.table[cell]),
                    false => table[cell].copy_from_slice(&all.arena[frame]),
                });
            }
            let said = device.description();
            let differs =
                |one: &[u8], other: &[u8]| one.iter().zip(other).position(|(a, b)| a != b);
            assert_eq!(differs(&after.arena, &arena), None, "{said}: {put:?} there");
            assert_eq!(differs(&after.table, &table), None, "{said}: {take:?} back");
        }
    }
}

#[test]
fn kernels_compile_for_gpus() {
    let [put, take] = halves();
    let kernels = field_copies();
    let columns = Binding::staged(Binding::stageable(), 0).expect("fields with places");
    compile_all(&kernels, &source(&kernels, &columns.with_copies(put, take)));
}

/// ESP makes headers in frames, which the columns would not contain.
#[test]
fn a_text_that_makes_headers_is_refused_columns_of_theirs() {
    let files = Files::new(&Sa::all(), "out");
    let (function, words) = files.function("nonces");
    let kernels = function.kernels().expect("kernels");
    let fields = FieldSet::of(&[Field::TrafficClass]);
    let Staging { binding, .. } = Staging::new(fields, &layout(&*function, words, 0));
    for device in devices() {
        let refused = device.compile(&source(&kernels, &binding));
        let Err(Failure::Compile { log }) = refused else { panic!("{refused:?}") };
        assert!(log.contains("traffic_class_lies_in_a_column"), "{log}");
    }
}
