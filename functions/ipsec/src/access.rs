//! The access of each phase, for any SAs that a reload may bring: a chain keeps its stages then.

use warpline_packet::{Access, Field, FieldSet, ReadWrite};

/// Fields that selectors, policies and the search for a packet's SA read. Ports are in the payload
/// if a header is cut or of a protocol that ingress does not know; so is ESP in UDP.
pub(super) const ASKED: FieldSet = FieldSet::of(&[
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::DstPort,
    Field::UdpLen,
    Field::IcmpType,
    Field::IcmpCode,
    Field::EspSpi,
    Field::EspSeq,
    Field::Payload,
]);

/// Fields that reassembly reads. Its fragments carry ESP or UDP, and it computes the header
/// checksum.
pub(super) const OF_FRAGMENTS: FieldSet = FieldSet::FRAME.without(FieldSet::of(&[
    Field::IpChecksum,
    Field::TcpSeq,
    Field::TcpAck,
    Field::TcpFlags,
    Field::TcpWindow,
    Field::TcpUrgent,
    Field::TcpOptions,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IcmpIdent,
    Field::IcmpSeq,
]));

/// Fields that determine a packet's length once it is sealed, and whether it may be fragmented.
const MEASURED: FieldSet = FieldSet::of(&[Field::IpProtocol, Field::IpOptions, Field::IpFragment]);

const BYTES: FieldSet = FieldSet::FRAME.union(FieldSet::GEOMETRY);

/// The share of packets that a plan expects to be flagged unless the SAs need more: those that are
/// opened again, and those that are too big. Well configured tunnels have none. This is the
/// expectation by Laplace's rule of succession after a launch of a thousand packets without one.
const FLAGGED_SHARE_LEAST: f32 = 1.0 / 1002.0;

/// Of a gateway with `words`; `run` writes only `outcome` of them. `reassembles`: datagrams are put
/// together; `answers`: ICMP errors are made; `with_selectors` is the share of packets that come by
/// SAs with selectors.
pub(super) const fn of(
    (words, outcome): (FieldSet, FieldSet),
    reassembles: bool,
    answers: bool,
    with_selectors: f32,
) -> Access {
    let settles = FieldSet::of(&[Field::Verdict, Field::Flagged]);
    // A datagram that was put together is another frame: to replace one is not to write its fields.
    let asked = ASKED.union(MEASURED).union(FieldSet::HEADERS);
    let reads = match reassembles {
        true => asked.union(OF_FRAGMENTS).union(FieldSet::GEOMETRY),
        false => asked,
    };
    // Frames of packets that are not flagged stay unchanged after the cipher.
    let counted =
        FieldSet::of(&[Field::L3Offset, Field::PayloadOffset, Field::Timestamp, Field::Verdict]);
    let reads_flagged = if answers { BYTES.with(Field::Ingress) } else { BYTES };
    Access {
        before: ReadWrite::new(reads.with(Field::Timestamp), settles.union(words)),
        run: ReadWrite::new(BYTES.union(words), BYTES.union(settles).union(outcome)),
        after: ReadWrite::new(counted.union(words), FieldSet::of(&[Field::Verdict])),
        // Packets that are opened again, fields of SA selectors, and reports to senders.
        after_flagged: ReadWrite::new(reads_flagged, BYTES),
        flagged_share: with_selectors.max(FLAGGED_SHARE_LEAST),
    }
}
