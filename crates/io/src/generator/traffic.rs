//! The packets of a generator, one after the other: when each is due, and its bytes.

use core::fmt;
use core::time::Duration;

use warpline_packet::Instant;

use super::EPOCH;
use super::arrivals::Arrivals;
use super::config::GeneratorConfig;
use super::flow::{Flows, HeaderKind};
use super::headers::{HEADERS_ROOM, Head, Heads, Packet};
use super::pace::Pace;
use super::payload::{BLOCK, Pool};
use super::rates::Rates;
use super::rng::Rng;
use super::sizes::Sizes;
use super::zipf::Popularity;

/// Room that a frame needs beyond its own length: headers and short payloads are copied as blocks
/// of fixed size.
pub(super) const ROOM_MORE: usize = HEADERS_ROOM + BLOCK;

/// The rate at which timestamps advance if none is set, in Gb/s.
const NOMINAL_GBPS: f64 = 10.0;

/// Frames lost before the next is given, at most. At a rate that no computer follows the reader so
/// still sees requests to stop.
pub(super) const LOST_AT_ONCE: u32 = 1 << 16;

/// Packets, and the random numbers that they follow from.
pub(super) struct Traffic {
    packets: u64,
    duration_ns: u64,
    produced: u64,
    drop_when_full: bool,
    /// Frames that wait for room at most; others are lost.
    ring: Option<u64>,
    /// Frames lost, and those of them that were reported.
    lost: [u64; 2],
    arrivals: Arrivals,
    pace: Option<Pace>,
    sizes: Sizes,
    longest: usize,
    popularity: Popularity,
    heads: Heads,
    /// For each flow the payload bytes sent so far; empty without TCP.
    sent: Vec<u32>,
    pool: Pool,
    streams: Streams,
}

/// One stream of random numbers for each concern.
struct Streams {
    flow: Rng,
    size: Rng,
    time: Rng,
    payload: Rng,
}

/// The result of [`Traffic::step`].
pub(super) enum Step {
    /// The next frame is due; its timestamp.
    Due(Instant),
    Idle(Duration),
    End,
}

impl Traffic {
    pub(super) fn new(config: GeneratorConfig) -> Self {
        let stream = |number| Rng::stream(config.seed, number);
        let mut streams =
            Streams { flow: stream(1), size: stream(2), time: stream(3), payload: stream(4) };
        let longest = config.frame_len_max();
        let tracked = if config.protocol.has_second() { config.flows as usize } else { 0 };
        let duration = Duration::try_from_secs_f64(config.seconds).unwrap_or(Duration::MAX);
        let flows = Flows::new(config.seed, config.ip, config.protocol);
        Self {
            packets: config.packets,
            duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
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
            longest,
            popularity: Popularity::new(config.flows, config.zipf),
            heads: Heads::new(flows, config.flows),
            sent: vec![0; tracked],
            pool: Pool::new(config.content, longest, &mut streams.payload),
            streams,
        }
    }

    /// Whether any frame fits there.
    #[inline]
    pub(super) fn fits(&self, room: &[u8]) -> bool {
        room.len() >= self.longest + ROOM_MORE
    }

    /// Whether the next frame is due; then it must be built.
    #[inline(always)]
    pub(super) fn step(&mut self) -> Step {
        if self.is_over() {
            return Step::End;
        }
        if self.pace.is_some()
            && let Some(step) = self.wait()
        {
            return step;
        }
        let since = self.arrivals.elapsed_ns();
        Step::Due(Instant::from_nanos(EPOCH.as_nanos().saturating_add(since)))
    }

    /// With a rate, what is to be done before the next frame is due.
    #[inline(never)]
    fn wait(&mut self) -> Option<Step> {
        let wait = self.pace.as_mut()?.wait(self.arrivals.elapsed(), std::time::Instant::now);
        if let Some(wait) = wait {
            return Some(Step::Idle(wait));
        }
        (self.is_ring_full() && !self.lose()).then_some(Step::End)
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.produced >= self.packets || self.arrivals.elapsed_ns() >= self.duration_ns
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

    /// Builds the next frame at the start of `room`, which any frame fits, and gives its length.
    #[inline(always)]
    pub(super) fn build(&mut self, room: &mut [u8]) -> usize {
        let len = self.sizes.draw(&mut self.streams.size);
        let number = self.popularity.draw(&mut self.streams.flow);
        let head = self.heads.write(number, room);
        let payload = &mut room[head.len()..];
        let payload_len = len as usize - head.len();
        let payload_sum = self.pool.fill(payload, payload_len, &mut self.streams.payload);
        let sent = self.send(&head, number, payload_len);
        let id = self.produced as u16;
        head.complete(room, &Packet { sent, id, payload_len, payload_sum });
        self.arrivals.advance(len, &mut self.streams.time);
        self.produced += 1;
        len as usize
    }

    /// The bytes that a TCP flow has sent before this payload.
    #[inline]
    fn send(&mut self, head: &Head, number: u64, payload_len: usize) -> u32 {
        let HeaderKind { tcp, .. } = head.kind();
        let before = if tcp { self.sent.get_mut(number as usize) } else { None };
        before.map_or(0, |sent| {
            let next = sent.wrapping_add(payload_len as u32);
            core::mem::replace(sent, next)
        })
    }

    /// Packets given so far.
    pub(super) fn given(&self) -> u64 {
        self.produced - self.lost[0]
    }

    /// Packets with the planted pattern.
    pub(super) fn planted(&self) -> u64 {
        self.pool.planted()
    }

    pub(super) fn loses_when_full(&self) -> bool {
        self.drop_when_full
    }

    pub(super) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    pub(super) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// Frames lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        let [all, reported] = self.lost;
        self.lost[1] = all;
        all - reported
    }

    /// How much of the packets or of the time is over, from 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        let packets = share(self.produced, self.packets);
        packets.max(share(self.arrivals.elapsed_ns(), self.duration_ns))
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if part < whole { part as f64 / whole as f64 } else { 1.0 }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, produced, .. } = self;
        write!(f, "{produced} of {packets} packets")
    }
}
