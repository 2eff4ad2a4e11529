//! Accessors against declarations: an undeclared access fails with function, phase and field.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::{
    Arena, ArenaLayout, Arrival, Batch, Field, FieldSet, Flags, Headers, HeapMemory, Instant,
    LinkType, PacketMut, Placer, Reason, ScratchWord,
};

const LAYOUT: ArenaLayout = ArenaLayout {
    slabs: 1,
    emit_slabs: 1,
    tables: 1,
    slots: 8,
    scratch_words: 1,
    headroom: 32,
    tailroom: 32,
};

/// Two packets of TCP over IPv4, the second one flagged.
fn batch() -> (Batch, Placer) {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 44, 0, 0, 0, 0, 9, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    frame.extend([0, 53, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    let memory = HeapMemory::new(LAYOUT.memory_len()).expect("memory");
    let mut arena = Arena::new(Box::new(memory), &LAYOUT).expect("an arena");
    let mut batch = Batch::new(arena.tables.remove(0));
    for ingress in 0..2 {
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        let arrival = Arrival {
            timestamp: Instant::ZERO,
            captured: Instant::ZERO,
            ingress,
            wire_len: frame.len() as u32,
            link: LinkType::ETHERNET,
            interface: 0,
            shard: 0,
            flow_hash: 0,
        };
        batch.push(&frame, &headers, &arrival, &mut arena.ingress).expect("room");
    }
    batch.packet_mut(1).flag();
    (batch, arena.emit)
}

fn see<T>(_: T) {}

/// An access of a function to a packet, and the fields that must all be declared for it.
type Deed = (&'static [Field], fn(&mut PacketMut<'_>));

const SOME: FieldSet = FieldSet::of(&[Field::DstAddr, Field::Payload]);

const READS: &[Deed] = &[
    (&[Field::EthDst], |p| see(p.eth_dst())),
    (&[Field::Ttl], |p| see(p.ttl())),
    (&[Field::SrcPort], |p| see(p.src_port())),
    (&[Field::Payload, Field::PayloadOffset], |p| see(p.payload().len())),
    (&[Field::Payload], |p| see(p.as_packet().into_payload().len())),
    (&[Field::TcpOptions, Field::L4Offset, Field::Kind], |p| see(p.tcp_options().len())),
    (&[Field::IpOptions, Field::L3Offset, Field::Kind], |p| see(p.ip_options().len())),
    (&[Field::Remainder, Field::EthSrc, Field::TcpSeq], |p| see(p.frame().len())),
    (&[Field::Remainder, Field::EthSrc], |p| see(p.as_packet().into_frame().len())),
    (&[Field::Payload, Field::L3Offset, Field::Kind], |p| see(p.ip_packet().len())),
    (&[Field::DstAddr, Field::Payload], |p| see(p.frame_for(SOME).len())),
    (&[Field::DstAddr, Field::Payload], |p| see(p.as_packet().into_frame_for(SOME).len())),
    (&[Field::Len], |p| see(p.len())),
    (&[Field::Len], |p| see(p.wire_len())),
    (&[Field::L3Offset], |p| see(p.l3_offset())),
    (&[Field::L4Offset], |p| see(p.l4_offset())),
    (&[Field::PayloadOffset], |p| see(p.payload_offset())),
    (&[Field::PayloadOffset], |p| see(p.ip_end())),
    (&[Field::Kind], |p| see(p.version())),
    (&[Field::Kind], |p| see(p.protocol())),
    (&[Field::Kind], |p| see(p.has(Flags::VLAN))),
    (&[Field::Kind], |p| see(p.malformed())),
    (&[Field::Kind], |p| see(p.link())),
    (&[Field::Timestamp], |p| see(p.timestamp())),
    (&[Field::Timestamp], |p| see(p.captured())),
    (&[Field::Ingress], |p| see(p.ingress())),
    (&[Field::Ingress], |p| see(p.interface())),
    (&[Field::Shard], |p| see(p.shard())),
    (&[Field::FlowHash], |p| see(p.flow_hash())),
    (&[Field::NextHop], |p| see(p.next_hop())),
    (&[Field::Scratch0], |p| see(p.scratch(word()))),
    (&[Field::Flagged], |p| see(p.is_flagged())),
    (&[Field::Verdict], |p| see(p.verdict())),
    (&[Field::Verdict], |p| see(p.reason())),
    (&[Field::Verdict], |p| see(p.settled_by())),
    (&[Field::Timestamp, Field::Ingress, Field::Len], |p| see(p.arrival())),
    (&[Field::L3Offset, Field::Kind], |p| see(p.headers())),
    (&[Field::Ttl, Field::IpChecksum], |p| see(p.decrement_ttl())),
    (&[Field::EthType, Field::IpLen, Field::TcpFlags], |p| p.reparse()),
];

const WRITES: &[Deed] = &[
    (&[Field::EthDst, Field::EthSrc], |p| p.set_eth_addresses([2; 6], [4; 6])),
    (&[Field::Ttl], |p| p.set_ttl(7)),
    (&[Field::Ttl, Field::IpChecksum], |p| see(p.decrement_ttl())),
    (&[Field::SrcPort], |p| p.set_src_port(7)),
    (&[Field::Payload], |p| p.payload_mut().fill(0)),
    (&[Field::Remainder, Field::EthSrc, Field::TcpSeq], |p| p.frame_mut().fill(0)),
    (&[Field::DstAddr, Field::Payload], |p| p.frame_mut_for(SOME).fill(0)),
    (&[Field::Start, Field::Len], |p| see(p.reshape(1, 0))),
    (&[Field::L3Offset, Field::Kind], |p| p.set_headers(&Headers::default())),
    (&[Field::L4Offset, Field::Kind], |p| p.reparse()),
    (&[Field::NextHop], |p| p.set_next_hop(1)),
    (&[Field::Scratch0], |p| p.set_scratch(word(), 1)),
    (&[Field::Flagged], |p| p.flag()),
    (&[Field::Verdict], |p| p.drop(Reason(0))),
    (&[Field::Verdict], |p| p.absorb()),
    (&[Field::Verdict], |p| p.send_back()),
];

fn word() -> ScratchWord {
    ScratchWord::new(0).expect("a word")
}

/// The violation reported for a deed in `phase` on packet `index` under this access, if any.
fn violation(access: &Access, phase: Phase, index: usize, deed: Deed) -> Option<String> {
    let (mut batch, _) = batch();
    batch.set_phase(access.of(phase, "careless"));
    let does = || deed.1(&mut batch.packet_mut(index));
    let panicked = catch_unwind(AssertUnwindSafe(does)).err()?;
    Some(panicked.downcast_ref::<String>().expect("a message").clone())
}

/// An access that declares everything except `field`, in each phase, and everything for flagged
/// packets if `of_flagged`.
fn incomplete(field: Field, in_writes: bool, of_flagged: bool) -> Access {
    let rest = FieldSet::ALL & !FieldSet::of(&[field]);
    let all = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);
    let partial = match in_writes {
        true => ReadWrite::new(FieldSet::ALL, rest),
        false => ReadWrite::new(rest, FieldSet::ALL),
    };
    let after_flagged = if of_flagged { all } else { ReadWrite::NONE };
    Access { before: partial, run: partial, after: partial, after_flagged, flagged_share: 0.0 }
}

#[test]
fn violations_name_function_phase_and_field() {
    let phases = [(Phase::Before, "before"), (Phase::Run, "run"), (Phase::After, "after")];
    for (in_writes, verb, deeds) in [(false, "reads", READS), (true, "writes", WRITES)] {
        for &deed in deeds {
            for &field in deed.0 {
                for (phase, name) in phases {
                    let access = incomplete(field, in_writes, false);
                    let violation = violation(&access, phase, 0, deed).expect("a violation");
                    let start = format!("careless: `{name}` {verb} `{}`", field.name());
                    assert!(violation.starts_with(&start), "{violation}");
                }
            }
        }
    }
}

#[test]
fn declared_access_is_allowed() {
    let all = ReadWrite::new(FieldSet::ALL, FieldSet::ALL);
    let access = Access { before: all, run: all, after: all, ..Access::default() };
    for &deed in READS.iter().chain(WRITES) {
        for phase in [Phase::Before, Phase::Run, Phase::After] {
            assert_eq!(violation(&access, phase, 0, deed), None, "{:?}", deed.0);
        }
    }
}

/// Access that `after` declares for flagged packets alone is forbidden for others and in other
/// phases.
#[test]
fn fields_for_flagged_packets_are_not_for_others() {
    for (in_writes, deeds) in [(false, READS), (true, WRITES)] {
        for &deed in deeds {
            let field = deed.0[0];
            let access = incomplete(field, in_writes, true);
            assert_eq!(violation(&access, Phase::After, 1, deed), None, "{}", field.name());
            let of_other = violation(&access, Phase::After, 0, deed).expect("a violation");
            assert!(of_other.contains("of a packet that is not flagged"), "{of_other}");
            for phase in [Phase::Before, Phase::Run] {
                assert!(violation(&access, phase, 1, deed).is_some(), "{}", field.name());
            }
        }
    }
}
