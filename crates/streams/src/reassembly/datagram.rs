//! One datagram's memory: its head, its data so far, and which bytes those are.
//!
//! Two bits stand for every eight bytes: whether they arrived, and whether a fragment starts there.
//! They give the bounds of every fragment, which distinguishes a duplicate from an overlap.

use warpline_packet::in_small_pages;
use warpline_packet::wire::{ipv4, ipv6};

use super::Why;
use super::bits;
use super::overlap::{Overlap, Span};
use super::piece::{ECN_MASK, Head, Piece, UNIT};

/// The longest head in bytes: link header, IP header and options or IPv6 extension headers.
pub(super) const HEAD_LEN_MAX: usize = 256;

/// The memory of a fixed number of datagrams.
pub(super) struct Datagrams {
    states: Box<[DatagramState]>,
    /// For each datagram: room for the longest head, which ends where the data begin, and `len_max`
    /// bytes.
    bytes: Box<[u8]>,
    /// Of each: the units that came, then those at which a fragment starts.
    bits: Box<[u64]>,
    /// For each datagram, by unit: the range of the fragment that owns it; empty if overlaps are
    /// refused.
    owners: Box<[Span]>,
    overlap: Overlap,
    len_max: usize,
}

/// The state of a datagram.
#[derive(Clone, Copy, Default)]
pub(super) struct DatagramState {
    version: u8,
    /// Bytes of its head, and where the IP header starts in it; 0 until the first fragment came.
    head_len: usize,
    l3: usize,
    /// Bytes that came, and where the farthest of them end.
    pub(super) received: usize,
    pub(super) end: usize,
    /// Bytes that there are in all, once the last fragment came.
    pub(super) total: Option<usize>,
    /// One bit for each codepoint of congestion notification that came.
    pub(super) ecns: u8,
    /// Why nothing more of it is taken.
    refused: Option<Why>,
}

/// The effect of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is kept.
    Kept,
    /// It overlapped others, and what the policy gives it is kept.
    Laid,
    /// It was there already.
    Duplicate,
    /// It was the one that was missing.
    Last,
}

/// One datagram's part of the memory.
pub(super) struct Parts<'a> {
    pub(super) state: &'a mut DatagramState,
    bytes: &'a mut [u8],
    pub(super) came: &'a mut [u64],
    pub(super) starts: &'a mut [u64],
    owners: &'a mut [Span],
    overlap: Overlap,
    len_max: usize,
}

impl Datagrams {
    pub(super) fn new(count: usize, len_max: usize) -> Self {
        let words = 2 * bits::words_for(len_max.div_ceil(UNIT));
        Self {
            states: vec![DatagramState::default(); count].into_boxed_slice(),
            bytes: in_small_pages(|| vec![0; count * (HEAD_LEN_MAX + len_max)].into_boxed_slice()),
            bits: vec![0; count * words].into_boxed_slice(),
            owners: Box::default(),
            overlap: Overlap::Refuse,
            len_max,
        }
    }

    /// Does this with fragments that overlap from here on.
    pub(super) fn set_overlap(&mut self, overlap: Overlap) {
        let has_owners = !matches!(overlap, Overlap::Refuse | Overlap::Linux);
        let units = if has_owners { self.len_max.div_ceil(UNIT) } else { 0 };
        self.owners = vec![Span::default(); self.states.len() * units].into_boxed_slice();
        self.overlap = overlap;
    }

    /// The policy for overlapping fragments.
    pub(super) fn overlap(&self) -> Overlap {
        self.overlap
    }

    /// Forgets what was at `place`, for another datagram.
    pub(super) fn start(&mut self, place: usize, version: u8) {
        let parts = self.parts(place);
        *parts.state = DatagramState { version, ..DatagramState::default() };
        parts.came.fill(0);
        parts.starts.fill(0);
    }

    /// Whether it was refused, and nothing more of it is taken.
    pub(super) fn refused(&self, place: usize) -> Option<Why> {
        self.states[place].refused
    }

    /// Takes a fragment in. After an error the datagram takes no more.
    pub(super) fn add(&mut self, place: usize, piece: &Piece<'_>) -> Result<Added, Why> {
        let mut parts = self.parts(place);
        if let Some(why) = parts.state.refused {
            return Err(why);
        }
        match parts.overlap {
            Overlap::Refuse => {}
            Overlap::Linux => return parts.queue(piece),
            _ => return parts.lay(piece),
        }
        let added = parts.add(piece);
        parts.state.refused = added.err();
        added
    }

    /// The frame of a datagram that is complete, with its IP header set right.
    pub(super) fn finish(&mut self, place: usize) -> &[u8] {
        let Parts { state, bytes, .. } = self.parts(place);
        let end = HEAD_LEN_MAX + state.total.unwrap_or(0);
        let frame = &mut bytes[HEAD_LEN_MAX - state.head_len..end];
        let is_congested = state.ecns & 1 << ECN_MASK != 0;
        let packet = &mut frame[state.l3..];
        if state.version == 4 {
            finish_v4(packet, is_congested)
        } else {
            finish_v6(packet, is_congested)
        }
        frame
    }

    fn parts(&mut self, place: usize) -> Parts<'_> {
        let room = HEAD_LEN_MAX + self.len_max;
        let words = bits::words_for(self.len_max.div_ceil(UNIT));
        let bits = &mut self.bits[place * 2 * words..(place + 1) * 2 * words];
        let (came, starts) = bits.split_at_mut(words);
        let bytes = &mut self.bytes[place * room..(place + 1) * room];
        let units = self.owners.len() / self.states.len().max(1);
        let owners = &mut self.owners[place * units..(place + 1) * units];
        let (state, overlap, len_max) = (&mut self.states[place], self.overlap, self.len_max);
        Parts { state, bytes, came, starts, owners, overlap, len_max }
    }
}

impl Parts<'_> {
    fn add(&mut self, piece: &Piece<'_>) -> Result<Added, Why> {
        self.check_len(piece)?;
        if self.disagrees(piece) {
            return Err(Why::Overlap);
        }
        let units = piece.offset / UNIT..piece.end().div_ceil(UNIT);
        if bits::count(self.came, units.clone()) > 0 {
            return if self.holds(piece) { Ok(Added::Duplicate) } else { Err(Why::Overlap) };
        }
        bits::set(self.starts, units.start..units.start + 1);
        bits::set(self.came, units);
        self.put(piece);
        if self.state.ecns & ECNS_AT_ODDS == ECNS_AT_ODDS {
            return Err(Why::Ecn);
        }
        let is_whole = self.state.total == Some(self.state.received);
        Ok(if is_whole { Added::Last } else { Added::Kept })
    }

    /// Takes a fragment in as the policy says. One that is refused changes nothing.
    fn lay(&mut self, piece: &Piece<'_>) -> Result<Added, Why> {
        self.check_len(piece)?;
        if self.disagrees(piece) {
            return Err(Why::Overlap);
        }
        let units = piece.data.chunks(UNIT);
        let start = (piece.offset / UNIT) as u16;
        let span = Span { start, end: start + units.len() as u16 };
        if !piece.data.is_empty() && self.lay_alone(piece, span) {
            let is_whole = self.state.total == Some(self.state.received);
            return Ok(if is_whole { Added::Last } else { Added::Kept });
        }
        let (mut is_new, mut overlaps, mut changes) = (false, false, false);
        for (unit, data) in (piece.offset / UNIT..).zip(units) {
            let came = bits::count(self.came, unit..unit + 1) == 1;
            overlaps |= came;
            if came && !self.overlap.is_for_last(self.owners[unit], span) {
                continue;
            }
            let at = HEAD_LEN_MAX + unit * UNIT;
            changes |= came && self.bytes[at..at + data.len()] != *data;
            is_new |= !came;
            self.bytes[at..at + data.len()].copy_from_slice(data);
            self.owners[unit] = span;
            bits::set(self.came, unit..unit + 1);
            self.state.received += if came { 0 } else { data.len() };
            if unit == 0 {
                self.keep_head(&piece.head);
            }
        }
        self.note_end(piece);
        let is_whole = self.state.total == Some(self.state.received);
        Ok(match (is_whole, overlaps, is_new || changes) {
            (true, ..) => Added::Last,
            (_, true, true) => Added::Laid,
            (_, true, false) => Added::Duplicate,
            (_, false, _) => Added::Kept,
        })
    }

    /// Takes a fragment in at once, if it overlaps no other, as most do.
    fn lay_alone(&mut self, piece: &Piece<'_>, span: Span) -> bool {
        let units = usize::from(span.start)..usize::from(span.end);
        if bits::count(self.came, units.clone()) > 0 {
            return false;
        }
        bits::set(self.came, units.clone());
        self.owners[units].fill(span);
        self.copy(piece);
        true
    }

    /// Refuses what is too long for the memory or for an IP packet, as far as can be known yet.
    pub(super) fn check_len(&self, piece: &Piece<'_>) -> Result<(), Why> {
        let (head_len, l3) = match piece.offset {
            0 => (piece.head.bytes.len(), piece.head.l3),
            _ => (self.state.head_len, self.state.l3),
        };
        let end = piece.end().max(self.state.end);
        // The length field of IPv6 doesn't count the fixed header.
        let uncounted = if self.state.version == 6 { ipv6::HEADER_LEN } else { 0 };
        let counted = (head_len - l3).saturating_sub(uncounted) + end;
        let is_right = head_len <= HEAD_LEN_MAX
            && head_len + end <= self.len_max
            && counted <= usize::from(u16::MAX);
        if is_right { Ok(()) } else { Err(Why::TooLong) }
    }

    /// Whether it goes beyond the end of the datagram, or says that this is elsewhere.
    fn disagrees(&self, piece: &Piece<'_>) -> bool {
        let end = piece.end();
        match self.state.total {
            Some(total) => end > total || (!piece.more && end < total),
            None => !piece.more && end < self.state.end,
        }
    }

    /// Whether one fragment of these very bounds came, with these very data.
    fn holds(&self, piece: &Piece<'_>) -> bool {
        let (start, end) = (piece.offset / UNIT, piece.end().div_ceil(UNIT));
        let is_one = bits::count(self.came, start..end) == end - start
            && bits::count(self.starts, start..start + 1) == 1
            && bits::count(self.starts, start + 1..end) == 0;
        let is_end = bits::count(self.came, end..end + 1) == 0
            || bits::count(self.starts, end..end + 1) == 1;
        let came = self.bytes.get(HEAD_LEN_MAX + piece.offset..HEAD_LEN_MAX + piece.end());
        let is_last = self.state.total == Some(piece.end());
        is_one && is_end && came == Some(piece.data) && piece.more != is_last
    }

    /// Copies a fragment that doesn't overlap and isn't too long, and notes its congestion mark.
    pub(super) fn put(&mut self, piece: &Piece<'_>) {
        self.state.ecns |= 1 << piece.ecn;
        self.copy(piece);
    }

    fn copy(&mut self, piece: &Piece<'_>) {
        let at = HEAD_LEN_MAX + piece.offset;
        if let Some(room) = self.bytes.get_mut(at..at + piece.data.len()) {
            room.copy_from_slice(piece.data);
        }
        self.state.received += piece.data.len();
        self.note_end(piece);
        if piece.offset == 0 {
            self.keep_head(&piece.head);
        }
    }

    pub(super) fn note_end(&mut self, piece: &Piece<'_>) {
        self.state.end = self.state.end.max(piece.end());
        if !piece.more {
            self.state.total = Some(piece.end());
        }
    }

    fn keep_head(&mut self, head: &Head<'_>) {
        (self.state.head_len, self.state.l3) = (head.bytes.len(), head.l3);
        put_head(&mut self.bytes[HEAD_LEN_MAX - head.bytes.len()..HEAD_LEN_MAX], head);
    }
}

/// Copies a head. With IPv6 the fragment header is replaced by the header that it named.
fn put_head(room: &mut [u8], head: &Head<'_>) {
    room.copy_from_slice(head.bytes);
    if let Some((at, next)) = head.next
        && let Some(byte) = room.get_mut(at)
    {
        *byte = next;
    }
}

fn finish_v4(packet: &mut [u8], is_congested: bool) {
    let len = packet.len() as u16;
    let mut ip = ipv4::Ipv4::new_unchecked(packet);
    if is_congested {
        ip.set_dscp_ecn(ip.dscp() << 2 | ECN_MASK);
    }
    ip.set_total_len(len);
    ip.set_flags_fragment(ip.flags_fragment() & ipv4::DONT_FRAGMENT);
    ip.fill_checksum();
}

fn finish_v6(packet: &mut [u8], is_congested: bool) {
    let len = packet.len().saturating_sub(ipv6::HEADER_LEN) as u16;
    let mut ip = ipv6::Ipv6::new_unchecked(packet);
    if is_congested {
        ip.set_class_and_flow(ip.traffic_class() | ECN_MASK, ip.flow_label());
    }
    ip.set_payload_len(len);
}

/// Fragments both of a transport without congestion notification and with congestion (RFC 3168,
/// 5.3).
const ECNS_AT_ODDS: u8 = 1 << 0 | 1 << ECN_MASK;
