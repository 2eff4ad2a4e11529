//! The access of each phase, for any SAs that a reload may bring: a chain keeps its stages then.

use warpline_packet::{Access, Field, FieldSet, ReadWrite};

use super::at::At;

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

/// Properties of a place that its access depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of {
    /// All scratch words, and the one of them that `run` writes.
    pub(super) words: FieldSet,
    pub(super) outcome: FieldSet,
    /// Whether datagrams are put together.
    pub(super) reassembles: bool,
    /// Whether ICMP errors are made.
    pub(super) answers: bool,
    /// The share of packets that are checked once they are opened.
    pub(super) checked: f32,
    /// Whether it asks from which side packets come.
    pub(super) asks_sides: bool,
    pub(super) at: At,
}

impl Of {
    /// A gateway without words.
    pub(super) const ALL: Self = Self {
        words: FieldSet::EMPTY,
        outcome: FieldSet::EMPTY,
        reassembles: true,
        answers: true,
        checked: 0.0,
        asks_sides: true,
        at: At::Only,
    };

    pub(super) const fn access(self) -> Access {
        let Self { words, outcome, answers, checked, at, .. } = self;
        let settles = FieldSet::of(&[Field::Verdict, Field::Flagged]);
        // Frames of packets that are not flagged are left alone after the cipher.
        let counted = FieldSet::of(&[
            Field::L3Offset,
            Field::PayloadOffset,
            Field::Timestamp,
            Field::Verdict,
        ]);
        let (mut asked, mut decides) = (self.asked().with(Field::Timestamp), settles.union(words));
        if self.asks_sides {
            asked = asked.with(Field::Ingress);
        }
        if !at.opens() {
            // An opened packet that a policy bypasses is no secret.
            decides = decides.with(Field::Kind);
        }
        let reads_flagged = if answers { BYTES.with(Field::Ingress) } else { BYTES };
        Access {
            before: ReadWrite::new(asked, decides),
            run: ReadWrite::new(BYTES.union(words), BYTES.union(settles).union(outcome)),
            after: ReadWrite::new(counted.union(words), FieldSet::of(&[Field::Verdict])),
            // Packets to open again, to check, and to answer.
            after_flagged: match at.opens() {
                true => ReadWrite::new(reads_flagged, BYTES),
                false => ReadWrite::new(reads_flagged, FieldSet::EMPTY),
            },
            flagged_share: match at.opens() {
                true => checked.max(FLAGGED_SHARE_LEAST),
                false => FLAGGED_SHARE_LEAST,
            },
        }
    }

    /// The fields that `before` reads of frames and words.
    const fn asked(self) -> FieldSet {
        let asked = ASKED.union(FieldSet::HEADERS);
        let asked = if self.at.seals() { asked.union(MEASURED) } else { asked };
        // A reassembled datagram is another frame: to replace one is not to write its fields.
        if self.reassembles {
            return asked.union(OF_FRAGMENTS).union(FieldSet::GEOMETRY);
        }
        // The second place reads whether the first opened a packet.
        if self.at.opens() { asked } else { asked.union(self.words) }
    }
}
