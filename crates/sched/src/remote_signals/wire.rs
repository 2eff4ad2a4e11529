//! The bytes of signals and answers, all numbers in network order. A message authentication code
//! follows them; it is the caller's.
//!
//! ```text
//! 0   "WLPS"    4 version   5 kind   6 flags   7 zero
//! 8   session   16 turn   24 epoch   32 sequence   40 highest epoch seen
//! 48  lease in ms         52 zero
//! ```

use super::SignalRefusal;

/// The version of signals.
pub const VERSION: u8 = 1;
/// Bytes of a signal or an answer. They are equal, so no answer is larger than its cause.
pub const BODY_LEN: usize = 56;

const MAGIC: &[u8; 4] = b"WLPS";
const SIGNAL: u8 = 1;
const ANSWER: u8 = 2;

/// The state of an instance, for the one upstream of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseSignal {
    /// The life of the sender.
    pub epoch: u64,
    /// The number of the signal in it, from 1.
    pub sequence: u64,
    /// The life of the receiver that it is for; 0 while the sender has had no answer.
    pub session: u64,
    /// The receiver's time, as its last answer had it.
    pub turn: u64,
    /// How long a pause holds.
    pub lease_ms: u32,
    /// Whether the receiver should send nothing.
    pub pause: bool,
}

/// The answer to a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseAnswer {
    /// The epoch of the signal.
    pub epoch: u64,
    /// Its number.
    pub sequence: u64,
    /// The life of the receiver.
    pub session: u64,
    /// Its time.
    pub turn: u64,
    /// The highest epoch that it saw.
    pub seen: u64,
    /// Whether it took over the state of the signal.
    pub accepted: bool,
}

/// A signal or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// From downstream.
    Signal(PauseSignal),
    /// From upstream.
    Answer(PauseAnswer),
}

/// The part of a datagram that its authentication code is of, and the code, of `code_len` bytes.
///
/// # Errors
/// It is no message, or one of another version.
pub fn body(datagram: &[u8], code_len: usize) -> Result<(&[u8; BODY_LEN], &[u8]), SignalRefusal> {
    if datagram.get(..4) != Some(&MAGIC[..]) {
        return Err(SignalRefusal::Malformed);
    }
    if datagram.get(4) != Some(&VERSION) {
        return Err(SignalRefusal::Version);
    }
    let (body, code) = datagram.split_first_chunk().ok_or(SignalRefusal::Malformed)?;
    if code.len() == code_len { Ok((body, code)) } else { Err(SignalRefusal::Malformed) }
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> [u8; BODY_LEN] {
        let (kind, flag, numbers, lease_ms) = match self {
            Self::Signal(s) => {
                (SIGNAL, s.pause, [s.session, s.turn, s.epoch, s.sequence, 0], s.lease_ms)
            }
            Self::Answer(a) => {
                (ANSWER, a.accepted, [a.session, a.turn, a.epoch, a.sequence, a.seen], 0)
            }
        };
        let mut bytes = [0; BODY_LEN];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..7].copy_from_slice(&[VERSION, kind, u8::from(flag)]);
        for (place, number) in bytes[8..48].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes[48..52].copy_from_slice(&lease_ms.to_be_bytes());
        bytes
    }

    /// The message of these bytes, which [`body`] gave.
    ///
    /// # Errors
    /// It is no message.
    pub fn decode(bytes: &[u8; BODY_LEN]) -> Result<Self, SignalRefusal> {
        let mut numbers = [0; 5];
        for (number, place) in numbers.iter_mut().zip(bytes[8..48].chunks_exact(8)) {
            *number = place.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        let [session, turn, epoch, sequence, seen] = numbers;
        let lease_ms = bytes[48..52].iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        let flag = bytes[6] & 1 == 1;
        let message = match bytes[5] {
            SIGNAL => {
                Self::Signal(PauseSignal { epoch, sequence, session, turn, lease_ms, pause: flag })
            }
            ANSWER => {
                Self::Answer(PauseAnswer { epoch, sequence, session, turn, seen, accepted: flag })
            }
            _ => return Err(SignalRefusal::Malformed),
        };
        // Unused bits are zero, so a message has one form.
        if message.encode() == *bytes { Ok(message) } else { Err(SignalRefusal::Malformed) }
    }
}
