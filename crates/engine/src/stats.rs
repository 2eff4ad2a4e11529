//! Counters by function, lane and chain. Each thread adds to its own plain integers, and they are
//! summed up when it ends.

mod function;
mod port;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use warpline_io::FrameCount;
use warpline_launch::Followed;
use warpline_sched::PauseEvidence;

pub use function::FunctionStats;
pub use port::PortStats;
pub use warpline_launch::Transfers;

use crate::StageCounts;
use crate::ingress::TimeCounts;

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndedBy {
    /// There was no more to read.
    #[default]
    Input,
    /// Someone asked for it ([`crate::Control::stop`]).
    Stop,
    /// The reader of the output went away.
    Output,
    /// Something failed, see [`ThreadStats::errors`].
    Error,
}

/// Packets by their outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Read from the source.
    pub read: u64,
    /// Made by functions.
    pub generated: u64,
    /// Sent to the sink.
    pub sent: u64,
    /// Went into other packets, or came to the end of a chain that has no output.
    pub absorbed: u64,
    /// Dropped by a function for a named reason.
    pub dropped: u64,
    /// Rejected because their headers lie.
    pub malformed: u64,
    /// Found no room at a named queue.
    pub overload: u64,
    /// Not written: the output failed or closed before it wrote them, or has no form for them.
    pub unwritten: u64,
    /// Neither of these yet: none, after a drained stop.
    pub in_flight: u64,
}

impl Packets {
    /// Whether every packet read or generated ended as exactly one thing (invariant I1).
    pub fn balanced(&self) -> bool {
        self.read + self.generated == self.ended() + self.in_flight
    }

    /// Those that ended as something.
    pub fn ended(&self) -> u64 {
        let gone = self.dropped + self.malformed + self.overload;
        self.sent + self.absorbed + gone + self.unwritten
    }

    fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.generated += other.generated;
        self.sent += other.sent;
        self.absorbed += other.absorbed;
        self.dropped += other.dropped;
        self.malformed += other.malformed;
        self.overload += other.overload;
        self.unwritten += other.unwritten;
        self.in_flight += other.in_flight;
    }
}

/// Moves of functions to other devices while packets flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Completed moves. A move of all lanes counts once.
    pub count: u64,
    /// The longest time that a lane took no packets for one, in nanoseconds.
    pub stall_ns_max: u64,
}

impl Moves {
    fn add(&mut self, other: &Self) {
        self.count = self.count.max(other.count);
        self.stall_ns_max = self.stall_ns_max.max(other.stall_ns_max);
    }
}

/// Latencies in nanoseconds, from 1 ns to an hour, to three digits.
pub(crate) fn latency_histogram() -> Histogram<u64> {
    let bounds = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
    // The bounds are constants that the histogram takes; `new` is its unbounded form.
    bounds.unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits")))
}

/// The counts of one thread of a chain; the threads' parts add up to the chain's.
#[derive(Clone, Debug)]
pub struct ThreadStats {
    /// Packets.
    pub packets: Packets,
    /// Bytes read, as captured.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// By port, in a chain with ports.
    pub ports: Vec<PortStats>,
    /// Packets that were dropped after the last function as they had no port to leave by, by
    /// reason.
    pub egress_drops: BTreeMap<&'static str, u64>,
    /// Packets that had no route from ingress.
    pub unrouted: u64,
    /// In a chain with routes, packets that left it, by the number of their path
    /// ([`warpline_sched::Routes::functions`]). Answers are not among them.
    pub paths: Vec<u64>,
    /// Packets without room, by queue.
    pub overload: BTreeMap<&'static str, u64>,
    /// By function, in the chain's order.
    pub functions: Vec<FunctionStats>,
    /// How the queues between stages filled, and the pauses that they caused.
    pub pressure: Option<PauseEvidence>,
    /// By stage, in the chain's order.
    pub stages: Vec<StageCounts>,
    /// Bytes to devices and back.
    pub transfers: Transfers,
    /// Moves of functions to other devices.
    pub moves: Moves,
    /// From the ingress of a batch's first packet to the sink, once for each packet of the batch.
    pub latency: Histogram<u64>,
    /// Batches of these packets.
    pub batches: u64,
    /// Counts of times far from the clock.
    pub time: TimeCounts,
    /// Warnings for the operator.
    pub warnings: Vec<String>,
    /// Errors that ended the run early.
    pub errors: Vec<String>,
    /// The outcome of following versions of fields, if that was requested
    /// ([`crate::Settings::follows_versions`]).
    pub versions: Followed,
    /// Whether what came to the end of the chain was not sent anywhere.
    pub has_no_output: bool,
    /// Why the run ended, as far as the thread can see: the worst reason of all.
    pub ended_by: EndedBy,
    /// The first packet in and the last out, on the engine's clock.
    pub span_ns: Option<(u64, u64)>,
}

impl ThreadStats {
    /// Of a chain with `functions` functions, nothing counted yet.
    pub fn new(functions: usize) -> Self {
        Self {
            packets: Packets::default(),
            bytes_read: 0,
            bytes_sent: 0,
            ports: Vec::new(),
            egress_drops: BTreeMap::new(),
            unrouted: 0,
            paths: Vec::new(),
            overload: BTreeMap::new(),
            functions: vec![FunctionStats::default(); functions],
            pressure: None,
            stages: Vec::new(),
            transfers: Transfers::default(),
            moves: Moves::default(),
            latency: latency_histogram(),
            batches: 0,
            time: TimeCounts::default(),
            warnings: Vec::new(),
            errors: Vec::new(),
            versions: Followed::default(),
            has_no_output: false,
            ended_by: EndedBy::Input,
            span_ns: None,
        }
    }

    /// Adds another thread's part.
    pub fn add(&mut self, other: Self) {
        self.packets.add(&other.packets);
        self.bytes_read += other.bytes_read;
        self.bytes_sent += other.bytes_sent;
        for (number, port) in (0..).zip(&other.ports) {
            self.port(number).add(port);
        }
        for (reason, n) in other.egress_drops {
            *self.egress_drops.entry(reason).or_default() += n;
        }
        self.unrouted += other.unrouted;
        self.paths.resize(self.paths.len().max(other.paths.len()), 0);
        self.paths.iter_mut().zip(&other.paths).for_each(|(sum, n)| *sum += n);
        for (queue, n) in other.overload {
            *self.overload.entry(queue).or_default() += n;
        }
        match (&mut self.pressure, other.pressure) {
            (Some(own), Some(other)) if own.nodes.len() == other.nodes.len() => own.add(&other),
            // During a move, lanes have other stages.
            (Some(own), Some(other)) => own.add_source(&other),
            (own, other) => *own = own.take().or(other),
        }
        self.stages.resize(self.stages.len().max(other.stages.len()), StageCounts::default());
        self.stages.iter_mut().zip(&other.stages).for_each(|(own, other)| own.add(other));
        self.transfers.add(&other.transfers);
        self.moves.add(&other.moves);
        self.functions.iter_mut().zip(&other.functions).for_each(|(sum, f)| sum.add(f));
        // Both have the same bounds, so that adding can't fail.
        let _ = self.latency.add(&other.latency);
        self.batches += other.batches;
        self.time.add(&other.time);
        self.warnings.extend(other.warnings);
        self.errors.extend(other.errors);
        self.versions.add(other.versions);
        self.has_no_output |= other.has_no_output;
        self.ended_by = self.ended_by.max(other.ended_by);
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, another) => one.or(another),
        };
    }

    /// The run was ended at once: what is no packet's end yet is in flight.
    pub(crate) fn abort(&mut self) {
        let packets = &mut self.packets;
        packets.in_flight = (packets.read + packets.generated).saturating_sub(packets.ended());
        self.ended_by = EndedBy::Stop;
        if packets.in_flight > 0 {
            self.errors.push("it was ended at once, with packets in flight".into());
        }
    }

    /// Notes that something happened at `now`.
    pub(crate) fn touch(&mut self, now: u64) {
        self.span_ns = Some(self.span_ns.map_or((now, now), |(a, b)| (a.min(now), b.max(now))));
    }

    /// The counts of port `port`.
    #[inline]
    pub(crate) fn port(&mut self, port: u16) -> &mut PortStats {
        let at = usize::from(port);
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, PortStats::default);
        }
        &mut self.ports[at]
    }

    /// Counts packets as not sent that the output lost later.
    pub(crate) fn lose_sent(&mut self, lost: FrameCount) {
        self.packets.sent -= lost.frames;
        self.packets.unwritten += lost.frames;
        self.bytes_sent -= lost.bytes;
    }

    /// Counts a packet that leaves by no port.
    pub(crate) fn dropped_at_egress(&mut self, reason: &'static str) {
        self.packets.dropped += 1;
        *self.egress_drops.entry(reason).or_default() += 1;
    }

    /// Counts `count` packets without room at `queue`.
    pub(crate) fn overloaded(&mut self, queue: &'static str, count: u64) {
        self.packets.overload += count;
        *self.overload.entry(queue).or_default() += count;
    }
}
