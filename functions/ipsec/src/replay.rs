//! The window that distinguishes replayed packets from late ones, and finds the half of a sequence
//! number that isn't sent (RFC 4303, 3.4.3 and appendix A2). It does so even after the loss of more
//! packets than that half can count (A3).
//!
//! [`ReplayWindow`] belongs to one SA. Its bits are in a ring of words, each for 64 consecutive
//! numbers (RFC 6479). Moving on clears the words that are entered and shifts nothing.

/// The least window, in packets (RFC 4303, 3.4.3).
pub const WINDOW_MIN: u32 = 32;
/// The greatest, in packets.
pub const WINDOW_MAX: u32 = 4096;

/// Numbers in a word of the ring.
const WORD_BITS: u64 = u64::BITS as u64;
/// Without a window, the whole number nearest to the highest is meant, as with the greatest window
/// that RFC 4303, A2.1 allows.
const WINDOW_INFERRED: u64 = 1 << 31;

/// Packets in a row that do not authenticate, after which the last one is tried as later numbers
/// (RFC 4303, A3.1).
const FAILURES: u16 = 16;
/// Upper halves that it is tried with (A3.2), so that garbage costs an eighth more.
const TRIES: u64 = 2;
/// The furthest upper half that is tried, counted from the inferred one. After it the first ones
/// are tried again.
const HALVES_AHEAD: u64 = 64;
/// Failures from one try of an upper half to the next.
const FAILURES_OF_ALL: u16 = FAILURES * (HALVES_AHEAD / TRIES) as u16;

/// The 64-bit number of a packet that carries `low`, where `highest` was the highest so far; see
/// [`ReplayWindow::infer`].
pub fn infer_extended(highest: u64, window: u32, low: u32) -> Option<u64> {
    let window = if window == 0 { WINDOW_INFERRED } else { u64::from(window) };
    let (top_high, top_low) = ((highest >> 32) as u32, highest as u32);
    let reach = (window - 1) as u32;
    let is_at_edge_or_above = low >= top_low.wrapping_sub(reach);
    let high = match (top_low >= reach, is_at_edge_or_above) {
        // Case A: the window is in one run of 2^32 numbers; numbers below its edge are of the next
        // run.
        (true, true) => top_high,
        (true, false) => top_high.checked_add(1)?,
        // Case B: the window began in the run before.
        (false, true) => top_high.checked_sub(1)?,
        (false, false) => top_high,
    };
    Some(u64::from(high) << 32 | u64::from(low))
}

/// The received sequence numbers of one SA.
///
/// For each packet: [`infer`](Self::infer) its number, [`check`](Self::check) it, authenticate,
/// check it again and [`accept`](Self::accept) it. If it does not authenticate,
/// [`reject`](Self::reject) it.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// A power of two of words, one more than the window needs. Bits above that of `highest` in its
    /// word are clear.
    words: Box<[u64]>,
    /// Packets; 0 where replays are not looked for.
    window: u32,
    /// Whether numbers have 64 bits.
    esn: bool,
    /// Rejected packets since the last accepted one, counted round to [`FAILURES_OF_ALL`].
    rejected: u16,
    highest: u64,
}

impl ReplayWindow {
    /// For `window` packets, clamped to [`WINDOW_MIN`] and [`WINDOW_MAX`], or 0 to let replays
    /// pass; with 64-bit numbers if `esn`. Numbers up to `highest` count as received: nothing that
    /// an earlier run may have accepted is accepted again.
    pub fn new(window: u32, esn: bool, highest: u64) -> Self {
        let window = if window == 0 { 0 } else { window.clamp(WINDOW_MIN, WINDOW_MAX) };
        let count = match window {
            0 => 0,
            _ => (u64::from(window).div_ceil(WORD_BITS) + 1).next_power_of_two() as usize,
        };
        let highest = if esn { highest } else { highest.min(u64::from(u32::MAX)) };
        let mut made = Self {
            words: vec![u64::MAX; count].into_boxed_slice(),
            window,
            esn,
            rejected: 0,
            highest,
        };
        if let Some(word) = made.word_mut(highest) {
            *word = u64::MAX >> (WORD_BITS - 1 - highest % WORD_BITS);
        }
        made
    }

    /// The highest number that was accepted.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The whole number of a packet that carries `low`. With 64-bit numbers it is the one in the
    /// window or less than 2^32 after its lower edge (RFC 4303, A2.1). `None` if that would be
    /// below 1 or above the last number; drop such a packet.
    pub fn infer(&self, low: u32) -> Option<u64> {
        let whole = match self.esn {
            true => infer_extended(self.highest, self.window, low)?,
            false => u64::from(low),
        };
        (whole != 0).then_some(whole)
    }

    /// Whether a packet of this number may be received: it is new, and isn't below the window. 0
    /// never is, nor numbers above the last. Without a window every other number is.
    pub fn check(&self, sequence: u64) -> bool {
        if !self.is_number(sequence) {
            return false;
        }
        if self.window == 0 || sequence > self.highest {
            return true;
        }
        !self.is_below(sequence) && self.word(sequence) & bit(sequence) == 0
    }

    /// Marks a number whose packet was authentic, and moves the window to it if it is above.
    /// Ignores one that is below the window or invalid.
    pub fn accept(&mut self, sequence: u64) {
        if !self.is_number(sequence) {
            return;
        }
        self.rejected = 0;
        if sequence > self.highest {
            self.enter(sequence);
            self.highest = sequence;
        }
        if !self.is_below(sequence)
            && let Some(word) = self.word_mut(sequence)
        {
            *word |= bit(sequence);
        }
    }

    /// Counts a packet that did not authenticate as `sequence`. Returns the later numbers to try:
    /// none with 32-bit numbers, otherwise some for one in `FAILURES` packets.
    pub fn reject(&mut self, sequence: u64) -> impl Iterator<Item = u64> + use<> {
        self.rejected = self.rejected % FAILURES_OF_ALL + 1;
        let is_due = self.esn && self.rejected.is_multiple_of(FAILURES);
        let tried = u64::from(self.rejected / FAILURES).saturating_sub(1) * TRIES;
        let halves = if is_due { tried + 1..tried + 1 + TRIES } else { 0..0 };
        halves.filter_map(move |half| sequence.checked_add(half << 32))
    }

    /// Clears the words after that of the highest number, up to that of `sequence`.
    fn enter(&mut self, sequence: u64) {
        let from = self.highest / WORD_BITS;
        let count = (sequence / WORD_BITS - from).min(self.words.len() as u64);
        for step in 1..=count {
            if let Some(word) = self.word_mut((from + step) * WORD_BITS) {
                *word = 0;
            }
        }
    }

    fn is_number(&self, sequence: u64) -> bool {
        sequence != 0 && (self.esn || sequence <= u64::from(u32::MAX))
    }

    /// Whether it is below the window, which ends with the highest number.
    fn is_below(&self, sequence: u64) -> bool {
        self.highest.saturating_sub(sequence) >= u64::from(self.window)
    }

    fn place(&self, sequence: u64) -> usize {
        (sequence / WORD_BITS) as usize & self.words.len().wrapping_sub(1)
    }

    /// All set where there is no window.
    fn word(&self, sequence: u64) -> u64 {
        self.words.get(self.place(sequence)).copied().unwrap_or(u64::MAX)
    }

    fn word_mut(&mut self, sequence: u64) -> Option<&mut u64> {
        let place = self.place(sequence);
        self.words.get_mut(place)
    }
}

fn bit(sequence: u64) -> u64 {
    1 << (sequence % WORD_BITS)
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
