//! Synthetic traffic: a [`Source`] whose packets are a pure function of its settings.
//!
//! `generate:KEY=VALUE,KEY=VALUE,...`, each key at most once, in any order:
//!
//! | key | values | default | meaning |
//! |---|---|---|---|
//! | `packets` | whole number | 1000000; unlimited with `seconds` | how many packets |
//! | `seconds` | 0 to 1e9 | unlimited | for how long, in the packets' own time |
//! | `size` | bytes, `A\|B\|C`, `imix` | `imix` | frame length without FCS |
//! | `flows` | 1 to 16777216 | 1000 | how many 5-tuples |
//! | `zipf` | 0 to 10 | uniform | exponent of the flows' popularity |
//! | `rate_gbps` | 0.000001 to 10000, `R@S\|R@S` | as fast as possible | frame bits a second in real time |
//! | `arrivals` | `constant`, `poisson`, `onoff` | `constant` | how packets are spaced |
//! | `seed` | whole number | 1 | which of the possible traffics |
//! | `payload` | `random`, `text`, `planted:PATTERN@SHARE` | `random` | what packets carry |
//! | `on_full` | `wait`, `drop` | `wait` | when the receiver has no room |
//! | `ring` | 0 to 1048576 | 4096 | frames that wait for room, with `rate_gbps` and `on_full=drop` |
//! | `ip` | `4`, `6`, `mix` | `4` | version; `mix` is one flow in two |
//! | `protocol` | `udp`, `tcp`, `mix` | `udp` | transport; `mix` is one flow in two |
//!
//! A frame is as long as its headers at least (42 bytes for UDP over IPv4, 74 for TCP over IPv6)
//! and 65549 bytes at most. The lengths of a list are equally likely; one may be there several
//! times. The IMIX is 60, 590 and 1514 bytes as 7:4:1, where 60 is raised to the headers' length.
//!
//! A planted pattern stands somewhere in text, in `@SHARE` (0.01 where left out) of the payloads
//! that have room for it. `%XX` in a pattern is the byte of that hexadecimal number, which is how
//! `,`, `@` and `%` are written.
//!
//! All frames go from inside (10.0.0.0/8, 2001:db8:1::/64) to outside (198.18.0.0/15,
//! 2001:db8:2::/64) over Ethernet, with correct lengths and checksums. TCP segments carry PSH and
//! ACK, and a flow's sequence numbers advance by its payload; there are no handshakes and no
//! answers. Payloads are windows of a 64 KiB pool, so they come again.
//!
//! The first packet's timestamp is [`EPOCH`]; they advance by `rate_gbps`, or by 10 Gb/s where that
//! is absent. `onoff` sends bursts of 32 packets on average at ten times the rate. With
//! `rate_gbps`, a generator that was held up catches up as fast as it can. With `on_full=drop` it
//! then has about `ring` frames, as many as a port's ring holds, and those before them are lost. A
//! frame is lost at once with `ring=0`, or without `rate_gbps`. `RATE@SECONDS` joined by `|` are
//! rates that take turns.
//!
//! ```
//! use warpline_io::generator::{Generator, GeneratorConfig};
//! use warpline_io::{Next, Source};
//!
//! let config = GeneratorConfig::parse("packets=2,size=64,ip=6").expect("good settings");
//! let mut source = Generator::new(config);
//! while let Next::Frame(frame) = source.next()? {
//!     assert_eq!(frame.bytes.len(), 64);
//! }
//! # Ok::<(), warpline_io::SourceError>(())
//! ```

mod arrivals;
mod config;
mod flow;
mod headers;
mod math;
mod pace;
mod payload;
mod rates;
pub(crate) mod rng;
pub(crate) mod settings;
mod sizes;
mod sum;
#[cfg(test)]
mod tests;
mod traffic;
mod zipf;

use core::fmt;

use warpline_packet::{Instant, LinkType};

pub use self::config::GeneratorConfig;
pub use self::settings::ParseProblem;

use self::traffic::{ROOM_MORE, Step, Traffic};
use crate::port::{BURST_MAX, Burst, Frame, Given, Next, Source, SourceError};

/// The timestamp of the first packet: 2024-01-01T00:00:00Z.
pub const EPOCH: Instant = Instant::from_secs(1_704_067_200);

/// Room for the frames of a burst, in bytes; one frame may need more.
const BURST_BYTES: usize = 64 << 10;

/// A source of synthetic packets.
///
/// Its memory is 32 of the longest frame (64 KiB or one frame at most), the payload pool (up to 256
/// KiB), 96 bytes for each of the first 4,096 flows and, with TCP, 4 bytes a flow.
pub struct Generator {
    traffic: Traffic,
    /// The frames given last, one after the other.
    bytes: Vec<u8>,
}

impl Generator {
    /// A generator at its first packet. Real time, where it matters, begins with the first call
    /// of `next`.
    pub fn new(config: GeneratorConfig) -> Self {
        let longest = config.frame_len_max();
        let len = longest.max(BURST_BYTES.min(BURST_MAX * longest)) + ROOM_MORE;
        Self { traffic: Traffic::new(config), bytes: vec![0; len] }
    }

    /// Packets given so far.
    pub fn produced(&self) -> u64 {
        self.traffic.given()
    }

    /// Packets given so far into which the pattern of `payload=planted:` was put.
    pub fn planted(&self) -> u64 {
        self.traffic.planted()
    }
}

impl Source for Generator {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        Ok(match self.traffic.step() {
            Step::Due(timestamp) => {
                let len = self.traffic.build(&mut self.bytes);
                Next::Frame(frame(&self.bytes[..len], timestamp))
            }
            Step::Idle(wait) => Next::Idle(wait),
            Step::End => Next::End,
        })
    }

    /// The frames that are due, as far as the buffer has room for them.
    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let Self { traffic, bytes } = self;
        let mut room = bytes.as_mut_slice();
        let mut given = 0;
        while given < BURST_MAX && traffic.fits(room) {
            match traffic.step() {
                Step::Due(timestamp) => {
                    let len = traffic.build(room);
                    let (bytes, rest) = room.split_at_mut(len);
                    burst.push(frame(bytes, timestamp));
                    room = rest;
                    given += 1;
                }
                _ if given > 0 => break,
                Step::Idle(wait) => return Ok(Given::Idle(wait)),
                Step::End => return Ok(Given::End),
            }
        }
        Ok(Given::Frames)
    }

    /// Frames that a ring has no room for are lost by [`Source::take_lost`].
    fn drops_when_full(&self) -> bool {
        self.traffic.loses_when_full() && !self.traffic.has_ring()
    }

    fn loses_when_full(&self) -> bool {
        self.traffic.loses_when_full()
    }

    fn is_paced(&self) -> bool {
        self.traffic.is_paced()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        let count = self.traffic.take_lost();
        if count > 0 {
            lost(0, count);
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(self.traffic.progress())
    }
}

/// A whole frame.
fn frame(bytes: &[u8], timestamp: Instant) -> Frame<'_> {
    Frame { bytes, timestamp, wire_len: bytes.len() as u32, link: LinkType::ETHERNET, interface: 0 }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generator({:?})", self.traffic)
    }
}
