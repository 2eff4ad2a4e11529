//! Reassembly of IPv4 and IPv6 fragments (RFC 791, 3.2; RFC 815; RFC 8200, 4.5), for one shard, in
//! fixed memory.
//!
//! [`Reassembly::take`] gets fragments and returns the whole frame with the last of them. Fragments
//! belong together by source, destination and identification, with IPv4 also by protocol, and
//! optionally by VLAN ([`Reassembly::by_vlan`]). The frame has the link and IP headers of the first
//! fragment (offset 0).
//!
//! Limits: the number of datagrams (the oldest of the source with the most makes room), the length
//! of a frame, and the time from a datagram's first fragment on. The number of fragments is
//! unlimited. Overlapping fragments discard their datagram and its later fragments (RFC 5722), also
//! with IPv4; exact duplicates are ignored (RFC 8200, 4.5). Congestion marks are kept (RFC 3168,
//! 5.3). A passive listener chooses another [`Overlap`].
//!
//! Nothing is allocated after [`Reassembly::new`].

use core::time::Duration;

use warpline_packet::{FieldSet, Instant, Packet};

mod bits;
mod datagram;
mod overlap;
mod piece;
mod queue;
mod table;
#[cfg(test)]
mod tests;

use datagram::{Added, Datagrams};
pub use overlap::Overlap;
use piece::Piece;
use table::Table;

/// How long the fragments of an IPv4 datagram are waited for; RFC 1122, 3.3.2 leaves it open.
pub const TIMEOUT_V4: Duration = Duration::from_secs(30);
/// The same with IPv6 (RFC 8200, 4.5).
pub const TIMEOUT_V6: Duration = Duration::from_secs(60);
/// How long a passive listener waits for the next fragment of a datagram: as long as any known
/// receiver, with either version.
pub const TIMEOUT_LISTENING: Duration = Duration::from_secs(60);

/// The datagrams of one shard that are being put together.
pub struct Reassembly {
    table: Table,
    datagrams: Datagrams,
    timeouts: [Duration; 2],
    /// Whether the time begins anew with each fragment.
    prolongs: bool,
    by_vlan: bool,
    /// The fields of fragments that it reads.
    reads: FieldSet,
    /// The latest time passed in.
    now: Instant,
    counters: Counters,
}

/// The outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// It is no fragment, and was not taken.
    Whole,
    /// It is kept, or was there already.
    Stored,
    /// It was the last missing one. The frame: link header, IP header without traces of the
    /// fragments, with correct length and checksum, and all data.
    Complete(&'a [u8]),
    /// It is to be dropped.
    Refused(Why),
}

/// Why a fragment is refused. All reasons except a malformed one discard the datagram and its later
/// fragments. With an [`Overlap`] other than `Refuse` only the fragment is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It overlaps another without being its duplicate, or they disagree on where the datagram
    /// ends.
    Overlap,
    /// The datagram is longer than the memory for one, or its headers are.
    TooLong,
    /// Some fragments are marked as having experienced congestion, others have a transport without
    /// marks (RFC 3168, 5.3).
    Ecn,
    /// It has no data, a length that is not a multiple of 8 although more follow, an end beyond
    /// 65,535 bytes, or is cut. The first one of IPv6 also if it does not have the whole
    /// upper-layer header.
    Malformed,
}

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Fragments that came.
    pub fragments: u64,
    /// Datagrams put together.
    pub complete: u64,
    /// Fragments that were there already.
    pub duplicates: u64,
    /// Fragments that overlapped others, and were taken by the policy.
    pub overlaid: u64,
    /// Fragments refused, by [`Why`].
    pub overlap: u64,
    /// See [`Counters::overlap`].
    pub too_long: u64,
    /// See [`Counters::overlap`].
    pub ecn: u64,
    /// See [`Counters::overlap`].
    pub malformed: u64,
    /// Incomplete datagrams, not refused before, that made room.
    pub evicted: u64,
    /// Incomplete datagrams, not refused before, whose time was over.
    pub expired: u64,
}

impl Reassembly {
    /// Room for `datagrams` at a time, at least one, whose frames have at most `len_max` bytes,
    /// link header included. Takes about 1.03 times their product, and 500 bytes for each datagram.
    pub fn new(datagrams: usize, len_max: usize) -> Self {
        let places = datagrams.max(1);
        Self {
            table: Table::new(places),
            datagrams: Datagrams::new(places, len_max.min(FRAME_LEN_MAX)),
            timeouts: [TIMEOUT_V4, TIMEOUT_V6],
            prolongs: false,
            by_vlan: false,
            reads: FieldSet::FRAME,
            now: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    /// Waits this long, in place of [`TIMEOUT_V4`] and [`TIMEOUT_V6`].
    #[must_use]
    pub fn with_timeouts(mut self, v4: Duration, v6: Duration) -> Self {
        self.timeouts = [v4, v6];
        self
    }

    /// Waits like a passive listener: [`TIMEOUT_LISTENING`] for each fragment, instead of one time
    /// for all.
    #[must_use]
    pub fn listening(self) -> Self {
        let own = self.with_timeouts(TIMEOUT_LISTENING, TIMEOUT_LISTENING);
        Self { prolongs: true, ..own }
    }

    /// Reads only these fields. The caller promises that its fragments lack the others, or that
    /// reassembly overwrites them.
    #[must_use]
    pub fn reading(mut self, reads: FieldSet) -> Self {
        self.reads = reads;
        self
    }

    /// Whether fragments in different VLANs are of different datagrams.
    #[must_use]
    pub fn by_vlan(mut self, by_vlan: bool) -> Self {
        self.by_vlan = by_vlan;
        self
    }

    /// Sets the policy for overlapping fragments. Takes half as much memory again, unless it is
    /// [`Overlap::Refuse`].
    #[must_use]
    pub fn with_overlap(mut self, overlap: Overlap) -> Self {
        self.datagrams.set_overlap(overlap);
        self
    }

    /// Takes a fragment in, at its own time. Reads the whole frame, or the fields of
    /// [`Reassembly::reading`].
    pub fn take(&mut self, packet: &Packet<'_>) -> Taken<'_> {
        if !piece::is_fragment(packet) {
            return Taken::Whole;
        }
        self.counters.fragments += 1;
        self.expire(packet.timestamp());
        let Some(mut piece) = Piece::read(packet, self.reads) else { return self.malformed() };
        if self.by_vlan {
            piece.key.vlans = packet.headers().vlan_ids(packet.frame_for(self.reads));
        }
        if !piece.is_regular() && !self.amend(&mut piece) {
            return self.malformed();
        }
        let Some(place) = self.place(&piece) else { return Taken::Refused(Why::TooLong) };
        match self.datagrams.add(place, &piece) {
            Ok(Added::Kept) => Taken::Stored,
            Ok(Added::Laid) => {
                self.counters.overlaid += 1;
                Taken::Stored
            }
            Ok(Added::Duplicate) => {
                self.counters.duplicates += 1;
                Taken::Stored
            }
            Ok(Added::Last) => {
                self.counters.complete += 1;
                self.table.remove(place);
                Taken::Complete(self.datagrams.finish(place))
            }
            Err(why) => {
                *self.counters.refused(why) += 1;
                if self.begins_anew() {
                    self.table.remove(place);
                }
                Taken::Refused(why)
            }
        }
    }

    fn malformed(&mut self) -> Taken<'_> {
        self.counters.malformed += 1;
        Taken::Refused(Why::Malformed)
    }

    /// Whether what a refused fragment discards is forgotten at once, and later ones begin a
    /// datagram.
    fn begins_anew(&self) -> bool {
        self.datagrams.overlap() == Overlap::Linux
    }

    /// Trims an irregular fragment as Linux does. Returns whether something is left of it.
    fn amend(&mut self, piece: &mut Piece<'_>) -> bool {
        if !self.begins_anew() {
            return false;
        }
        if piece.key.version == 4 && piece.more {
            piece.cut_to_units();
        }
        if piece.data.is_empty()
            && let Some(place) = self.table.find(&piece.key)
        {
            self.table.remove(place);
        }
        piece.is_regular()
    }

    /// Gives up the datagrams whose time is over at `now`. [`Reassembly::take`] does so itself;
    /// calling this at ticks only frees memory earlier.
    pub fn expire(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(place) = self.table.expired(self.now, self.timeouts) {
            self.counters.expired += u64::from(self.datagrams.refused(place).is_none());
            self.table.remove(place);
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The place of a fragment's datagram: its own, or else a free one, or the one that makes room.
    fn place(&mut self, piece: &Piece<'_>) -> Option<usize> {
        if let Some(place) = self.table.find(&piece.key) {
            if self.prolongs {
                self.table.renew(place, self.now);
            }
            return Some(place);
        }
        let place = match self.table.insert(piece.key, self.now) {
            Some(place) => place,
            None => {
                let least = self.table.least()?;
                self.counters.evicted += u64::from(self.datagrams.refused(least).is_none());
                self.table.remove(least);
                self.table.insert(piece.key, self.now)?
            }
        };
        self.datagrams.start(place, piece.key.version);
        Some(place)
    }
}

impl Counters {
    fn refused(&mut self, why: Why) -> &mut u64 {
        match why {
            Why::Overlap => &mut self.overlap,
            Why::TooLong => &mut self.too_long,
            Why::Ecn => &mut self.ecn,
            Why::Malformed => &mut self.malformed,
        }
    }
}

/// Bytes of the longest frame there can be: the longest head and the longest IP packet's data.
const FRAME_LEN_MAX: usize = datagram::HEAD_LEN_MAX + u16::MAX as usize;
