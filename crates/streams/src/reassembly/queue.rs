//! Fragments as Linux takes them in (`inet_frag_queue_insert`, since 5.0, with either version of
//! IP; RFC 5722).
//!
//! A fragment is ignored if all of it came before in one *run*: a fragment with those that followed
//! it at the datagram's end, in order. Any other overlap, a different end, and a fragment without
//! data discard the datagram so far, and later fragments begin anew.

use super::Why;
use super::bits;
use super::datagram::{Added, Parts};
use super::piece::{Piece, UNIT};

/// A codepoint of congestion notification that no other goes with: the transport knows of none.
const NOT_ECT: u8 = 1 << 0;

impl Parts<'_> {
    /// Takes a fragment in. An error discards what came so far.
    pub(super) fn queue(&mut self, piece: &Piece<'_>) -> Result<Added, Why> {
        self.check_len(piece)?;
        let (farthest, end) = (self.state.end, piece.end());
        let is_beyond = piece.more && end > farthest && self.state.total.is_some();
        let is_short =
            !piece.more && (end < farthest || self.state.total.is_some_and(|t| t != end));
        if is_beyond || is_short {
            return Err(Why::Overlap);
        }
        self.note_end(piece);
        let units = piece.offset / UNIT..end.div_ceil(UNIT);
        let begins = match end > farthest {
            true if piece.offset < farthest => return Err(Why::Overlap),
            true => piece.offset > farthest || farthest == 0,
            false if bits::count(self.came, units.clone()) == 0 => true,
            false => {
                let is_in_run = bits::count(self.came, units.clone()) == units.len()
                    && bits::count(self.starts, units.start + 1..units.end) == 0;
                return if is_in_run { Ok(Added::Duplicate) } else { Err(Why::Overlap) };
            }
        };
        if begins {
            bits::set(self.starts, units.start..units.start + 1);
        }
        bits::set(self.came, units);
        self.put(piece);
        if self.state.total != Some(self.state.received) {
            return Ok(Added::Kept);
        }
        let is_at_odds = self.state.ecns & NOT_ECT != 0 && self.state.ecns != NOT_ECT;
        if is_at_odds { Err(Why::Ecn) } else { Ok(Added::Last) }
    }
}
