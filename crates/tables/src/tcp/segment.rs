//! One TCP segment: its numbers, and the meaning of its flags.

use core::ops::Deref;

use super::PickUp;
use warpline_packet::wire::ipv6;
use warpline_packet::wire::options::Options;
use warpline_packet::wire::tcp::flags::{ACK, FIN, RST, SYN, URG};
use warpline_packet::wire::tcp::option;
use warpline_packet::{Batch, Flags, PacketView};

/// The meaning of a segment's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    Syn,
    SynAck,
    /// ACK, with or without data.
    Ack,
    Fin,
    Reset,
}

impl SegmentKind {
    /// `None` for flags that no sender sets together. FIN always comes with ACK.
    fn of(flags: u16) -> Option<Self> {
        const FLAGS: u16 = FIN | SYN | RST | ACK | URG;
        const SYN_ACK: u16 = SYN | ACK;
        const SYN_URG: u16 = SYN | URG;
        const RST_ACK: u16 = RST | ACK;
        const FIN_ACK: u16 = FIN | ACK;
        const FIN_ACK_URG: u16 = FIN | ACK | URG;
        const ACK_URG: u16 = ACK | URG;
        Some(match flags & FLAGS {
            SYN | SYN_URG => Self::Syn,
            SYN_ACK => Self::SynAck,
            RST | RST_ACK => Self::Reset,
            FIN_ACK | FIN_ACK_URG => Self::Fin,
            ACK | ACK_URG => Self::Ack,
            _ => return None,
        })
    }
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub(super) kind: SegmentKind,
    pub(super) has_ack: bool,
    pub(super) seq: u32,
    /// The number after its last byte; SYN and FIN count as one each.
    pub(super) end: u32,
    pub(super) ack: u32,
    /// As the header has it.
    pub(super) window: u16,
    pub(super) options: &'a [u8],
    /// Only its first part is known: the rest comes in later fragments.
    pub(super) is_part: bool,
}

impl<'a> Segment<'a> {
    /// The segment in a packet that has a whole TCP header; `None` where its flags contradict each
    /// other.
    pub fn of<B: Deref<Target = Batch>>(packet: &'a PacketView<B>) -> Option<Self> {
        let flags = packet.tcp_flags();
        let (kind, seq) = (SegmentKind::of(flags)?, packet.tcp_seq());
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        Some(Self {
            kind,
            has_ack: flags & ACK != 0,
            seq,
            end: seq.wrapping_add(data_len(packet) as u32).wrapping_add(controls),
            ack: packet.tcp_ack(),
            window: packet.tcp_window(),
            options: packet.tcp_options(),
            is_part: packet.has(Flags::FRAGMENT),
        })
    }

    /// Whether it opens a conversation.
    pub fn may_open(&self, pick_up: PickUp) -> bool {
        match self.kind {
            SegmentKind::Syn => true,
            SegmentKind::Ack => pick_up != PickUp::Never,
            SegmentKind::SynAck | SegmentKind::Fin => pick_up == PickUp::OneSided,
            SegmentKind::Reset => false,
        }
    }

    pub(super) fn has_syn(&self) -> bool {
        matches!(self.kind, SegmentKind::Syn | SegmentKind::SynAck)
    }

    /// The highest number that it acknowledges, alone or in a block (RFC 2018).
    pub(super) fn highest_ack(&self) -> u32 {
        const TIMESTAMPS: &[u8] = &[1, 1, option::TIMESTAMPS, 10];
        let is_usual = self.options.len() == 12 && self.options.starts_with(TIMESTAMPS);
        if self.options.is_empty() || is_usual {
            return self.ack;
        }
        let is_whole = |data: &[u8]| !data.is_empty() && data.len().is_multiple_of(8);
        let sack = Options::new(self.options)
            .find(|option| option.kind == option::SACK && is_whole(option.data));
        let blocks = sack.map_or(&[][..], |option| option.data).as_chunks::<8>().0;
        let ends = blocks.iter().map(|&[_, _, _, _, a, b, c, d]| u32::from_be_bytes([a, b, c, d]));
        ends.fold(self.ack, |most, end| if super::ends::is_before(most, end) { end } else { most })
    }
}

/// Bytes of data, with those that the capture cut.
#[inline]
fn data_len<B: Deref<Target = Batch>>(packet: &PacketView<B>) -> usize {
    let end = if packet.has(Flags::SNAPPED) { wire_end(packet) } else { packet.ip_end() };
    end.saturating_sub(packet.payload_offset())
}

/// The end of a cut packet on the wire. Without a length in its header it ends with its frame.
#[cold]
fn wire_end<B: Deref<Target = Batch>>(packet: &PacketView<B>) -> usize {
    let fixed = if packet.version() == 6 { ipv6::HEADER_LEN } else { 0 };
    match usize::from(packet.ip_len()) {
        0 => packet.wire_len(),
        len => packet.l3_offset() + fixed + len,
    }
}

/// The options of a SYN: the shift of its sender's windows in the lower four bits, and
/// which options there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SynOptions(u8);

impl SynOptions {
    const SHIFT: u8 = 0x0f;
    const HAS_SHIFT: u8 = 0x10;
    const HAS_SACK: u8 = 0x20;
    /// RFC 7323, 2.3: a larger one counts as this.
    const SHIFT_MAX: u8 = 14;

    /// Of a picked-up end, which may acknowledge selectively.
    pub(super) const UNSEEN: Self = Self(Self::HAS_SACK);

    pub(super) fn of(options: &[u8]) -> Self {
        let mut bits = 0;
        for found in Options::new(options) {
            match (found.kind, found.data) {
                (option::WINDOW_SCALE, &[shift]) => {
                    bits = bits & !Self::SHIFT | Self::HAS_SHIFT | shift.min(Self::SHIFT_MAX);
                }
                (option::SACK_PERMITTED, []) => bits |= Self::HAS_SACK,
                _ => {}
            }
        }
        Self(bits)
    }

    pub(super) fn shift(self) -> u8 {
        self.0 & Self::SHIFT
    }

    pub(super) fn has_shift(self) -> bool {
        self.0 & Self::HAS_SHIFT != 0
    }

    pub(super) fn has_sack(self) -> bool {
        self.0 & Self::HAS_SACK != 0
    }

    /// Windows are as the header has them.
    pub(super) fn drop_shift(&mut self) {
        self.0 &= !Self::SHIFT;
    }
}
