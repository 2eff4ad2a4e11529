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
mod zipf;

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use arrayvec::ArrayVec;
use warpline_packet::{Instant, LinkType};

pub use self::config::GeneratorConfig;
pub use self::settings::ParseProblem;

use self::arrivals::Arrivals;
use self::flow::{Flows, HeaderKind};
use self::headers::{Packet, Template};
use self::pace::Pace;
use self::payload::Pool;
use self::rates::Rates;
use self::rng::Rng;
use self::sizes::Sizes;
use self::zipf::Popularity;
use crate::port::{BURST_MAX, Burst, Frame, Given, Next, Source, SourceError};

/// The timestamp of the first packet: 2024-01-01T00:00:00Z.
pub const EPOCH: Instant = Instant::from_secs(1_704_067_200);

/// Room for the frames of a burst, in bytes; one frame may need more.
const BURST_BYTES: usize = 64 << 10;

/// The rate at which timestamps advance if none is set, in Gb/s.
const NOMINAL_GBPS: f64 = 10.0;

/// Frames lost before the next is given, at most. At a rate that no computer follows the reader so
/// still sees requests to stop.
const LOST_AT_ONCE: u32 = 1 << 16;

/// A source of synthetic packets.
///
/// Its memory is 32 of the longest frame (64 KiB or one frame at most), the payload pool (up to 384
/// KiB) and, with TCP, 4 bytes a flow.
pub struct Generator {
    packets: u64,
    duration: Duration,
    produced: u64,
    drop_when_full: bool,
    /// Frames that wait for room at most; others are lost.
    ring: Option<u64>,
    /// Frames lost, and those of them that were reported.
    lost: [u64; 2],
    arrivals: Arrivals,
    pace: Option<Pace>,
    sizes: Sizes,
    popularity: Popularity,
    flows: Flows,
    /// For each flow the payload bytes sent so far; empty without TCP.
    sent: Vec<u32>,
    /// By `six` and `tcp`.
    templates: [[Template; 2]; 2],
    pool: Pool,
    streams: Streams,
    /// The frames given last, one after the other.
    bytes: Vec<u8>,
    longest: usize,
}

/// One stream of random numbers for each concern.
struct Streams {
    flow: Rng,
    size: Rng,
    time: Rng,
    payload: Rng,
}

/// The stream that the flows' keys are drawn from; [`Streams`] has 1 to 4.
const FLOW_STREAM: u64 = 0;

impl Generator {
    /// A generator at its first packet. Real time, where it matters, begins with the first call
    /// of `next`.
    pub fn new(config: GeneratorConfig) -> Self {
        let stream = |number| Rng::stream(config.seed, number);
        let mut streams =
            Streams { flow: stream(1), size: stream(2), time: stream(3), payload: stream(4) };
        let longest = config.frame_len_max();
        let tracked = if config.protocol.has_second() { config.flows as usize } else { 0 };
        let template = |six, tcp| Template::new(HeaderKind { six, tcp });
        Self {
            packets: config.packets,
            duration: Duration::try_from_secs_f64(config.seconds).unwrap_or(Duration::MAX),
            produced: 0,
            drop_when_full: config.drop_when_full,
            ring: config.ring(),
            lost: [0; 2],
            pace: config.rates.as_ref().map(|_| Pace::default()),
            arrivals: Arrivals::new(
                config.process,
                config.rates.unwrap_or_else(|| Rates::steady(NOMINAL_GBPS)),
                config.sizes.mean(),
            ),
            sizes: config.sizes,
            popularity: Popularity::new(config.flows, config.zipf),
            flows: Flows::new(config.seed, config.ip, config.protocol),
            sent: vec![0; tracked],
            templates: [false, true].map(|six| [template(six, false), template(six, true)]),
            pool: Pool::new(config.content, longest, &mut streams.payload),
            streams,
            bytes: vec![0; longest.max(BURST_BYTES.min(BURST_MAX * longest))],
            longest,
        }
    }

    /// Packets given so far.
    pub fn produced(&self) -> u64 {
        self.produced - self.lost[0]
    }

    /// Packets given so far into which the pattern of `payload=planted:` was put.
    pub fn planted(&self) -> u64 {
        self.pool.planted()
    }

    /// Builds the next frame at `start` of the buffer, if one is due, and gives its place and its
    /// time.
    #[inline]
    fn advance(&mut self, start: usize) -> Advance {
        if self.is_over() {
            return Advance::End;
        }
        if let Some(pace) = &mut self.pace
            && let Some(wait) = pace.wait(self.arrivals.elapsed(), std::time::Instant::now)
        {
            return Advance::Idle(wait);
        }
        if self.is_ring_full() && !self.lose() {
            return Advance::End;
        }
        let elapsed = self.arrivals.elapsed();
        let len = self.build(start);
        self.arrivals.advance(len as u32, &mut self.streams.time);
        self.produced += 1;
        Advance::Built(start..start + len, EPOCH.after(elapsed))
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.produced >= self.packets || self.arrivals.elapsed() >= self.duration
    }

    /// Whether more frames wait than the ring holds.
    #[inline]
    fn is_ring_full(&self) -> bool {
        let (Some(ring), Some(pace)) = (self.ring, &self.pace) else { return false };
        self.arrivals.count_within(pace.late(self.arrivals.elapsed())) > ring as f64
    }

    /// Loses frames that the ring has no room for. Returns whether one is left.
    #[cold]
    fn lose(&mut self) -> bool {
        let mut most = LOST_AT_ONCE;
        while most > 0 && !self.is_over() && self.is_ring_full() {
            most -= 1;
            let len = self.sizes.draw(&mut self.streams.size);
            self.arrivals.advance(len, &mut self.streams.time);
            self.produced += 1;
            self.lost[0] += 1;
        }
        !self.is_over()
    }

    /// Builds the next frame at `start` of the buffer and gives its length.
    #[inline]
    fn build(&mut self, start: usize) -> usize {
        let len = self.sizes.draw(&mut self.streams.size) as usize;
        let number = self.popularity.draw(&mut self.streams.flow);
        let flow = self.flows.flow(number);
        let frame = &mut self.bytes[start..start + len];
        let (headers, payload) = frame.split_at_mut(flow.kind.headers_len());
        let payload_sum = self.pool.fill(payload, &mut self.streams.payload);
        let payload_len = payload.len();
        let before = if flow.kind.tcp { self.sent.get_mut(number as usize) } else { None };
        let sent = before.map_or(0, |sent| {
            let next = sent.wrapping_add(payload_len as u32);
            core::mem::replace(sent, next)
        });
        let id = self.produced as u16;
        let packet = Packet { flow, sent, id, payload_len, payload_sum };
        let template = &self.templates[usize::from(flow.kind.six)][usize::from(flow.kind.tcp)];
        template.write(headers, &packet);
        len
    }
}

/// The result of [`Generator::advance`].
enum Advance {
    /// Where the frame lies, and its timestamp.
    Built(Range<usize>, Instant),
    Idle(Duration),
    End,
}

impl Source for Generator {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        Ok(match self.advance(0) {
            Advance::Built(range, timestamp) => Next::Frame(frame(&self.bytes[range], timestamp)),
            Advance::Idle(wait) => Next::Idle(wait),
            Advance::End => Next::End,
        })
    }

    /// The frames that are due, as far as the buffer has room for them.
    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        let mut built = ArrayVec::<_, BURST_MAX>::new();
        let mut end = 0;
        while !built.is_full() && end + self.longest <= self.bytes.len() {
            match self.advance(end) {
                Advance::Built(range, timestamp) => {
                    end = range.end;
                    built.push((range, timestamp));
                }
                _ if !built.is_empty() => break,
                Advance::Idle(wait) => return Ok(Given::Idle(wait)),
                Advance::End => return Ok(Given::End),
            }
        }
        for (range, timestamp) in built {
            burst.push(frame(&self.bytes[range], timestamp));
        }
        Ok(Given::Frames)
    }

    /// Frames that a ring has no room for are lost by [`Source::take_lost`].
    fn drops_when_full(&self) -> bool {
        self.drop_when_full && self.ring.is_none()
    }

    fn loses_when_full(&self) -> bool {
        self.drop_when_full
    }

    fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        let [all, reported] = self.lost;
        if all > reported {
            self.lost[1] = all;
            lost(0, all - reported);
        }
    }

    fn progress(&self) -> Option<f64> {
        let packets = share(self.produced as f64, self.packets as f64);
        let time = share(self.arrivals.elapsed().as_secs_f64(), self.duration.as_secs_f64());
        Some(packets.max(time))
    }
}

/// A whole frame.
fn frame(bytes: &[u8], timestamp: Instant) -> Frame<'_> {
    Frame { bytes, timestamp, wire_len: bytes.len() as u32, link: LinkType::ETHERNET, interface: 0 }
}

fn share(part: f64, whole: f64) -> f64 {
    if part < whole { part / whole } else { 1.0 }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, produced, .. } = self;
        write!(f, "Generator({produced} of {packets} packets)")
    }
}
