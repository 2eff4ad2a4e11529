//! The merge: restores ingress order over all lanes and hands packets to the sink.
//!
//! Every number of the input arrives exactly once, on one lane, even for dropped packets. The
//! number of a tick or of the end arrives once on every lane. So the merge always knows the next
//! number and never waits for an idle lane.

mod late_losses;
mod moved;
mod rest;
mod routed;
mod sending;

use warpline_io::Sink;
use warpline_io::neighbours::NeighbourTable;
use warpline_launch::Clock;
use warpline_packet::{Batch, BatchKind, Verdict};

use crate::comments::Comments;
use crate::control::REPORT_EVERY;
use crate::egress::Egress;
use crate::queue::Queue;
use crate::reports::{Ended, Reports};
use crate::stats::{Packets, ThreadStats};
use crate::{Chain, Control};
use late_losses::LateLosses;

/// How long the sender sends before it answers others, in nanoseconds.
const STEP_MAX: u64 = 1_000_000;
/// Packets after which it looks at the clock.
const LOOK_AFTER: u64 = 128;
/// Packets of a batch that it sends together.
const RUN_MAX: usize = 256;

/// A lane as the merge sees it.
struct Exit {
    queue: Queue,
    pool: Queue,
    head: Option<Head>,
}

/// A batch being sent.
struct Head {
    batch: Box<Batch>,
    /// The place of its next packet.
    at: usize,
    /// The place of its next note.
    note: usize,
}

impl Head {
    fn new(mut batch: Box<Batch>) -> Self {
        if !batch.notes().is_empty() {
            batch.notes_mut().sort();
        }
        Self { batch, at: 0, note: 0 }
    }
}

/// All lanes of a chain and its sink.
pub(crate) struct Merge {
    sink: Box<dyn Sink>,
    wants_frames: bool,
    /// The comments on packets that are not sent, if the sink shows them.
    comments: Option<Comments>,
    /// Where packets leave, in a chain with ports.
    egress: Option<Egress>,
    /// The neighbours of ports that forward by routes.
    neighbours: Option<NeighbourTable>,
    exits: Vec<Exit>,
    /// The lane of the first of them.
    first_lane: usize,
    /// The number that is sent next.
    next: u64,
    /// How many numbers before it were no packets'.
    announced: u64,
    finished: bool,
    /// The number of the last reload that came by.
    reloaded: u32,
    sink_open: bool,
    /// Whether the sink may hold frames that it did not hand on.
    unflushed: bool,
    /// The reasons reported so far for frames that did not suit the sink.
    unsuitable: Vec<&'static str>,
    reports: Reports,
    /// Room for a tick: its batches, and its packets by shard, lane and place.
    heads: Vec<Head>,
    turns: Vec<(u8, usize, usize)>,
    clock: Clock,
    part: ThreadStats,
    /// Packets that ended and are not published yet, and the published counts.
    unreported: u64,
    reported: Packets,
    late_losses: LateLosses,
}

impl Merge {
    /// Of lanes with these `(output, pool)` queues; a tick causes at most `slots` packets on all.
    pub(crate) fn new(
        sink: Box<dyn Sink>,
        lanes: Vec<(Queue, Queue)>,
        reports: Reports,
        functions: usize,
        slots: usize,
        clock: Clock,
    ) -> Self {
        let lanes_len = lanes.len();
        let exits =
            lanes.into_iter().map(|(queue, pool)| Exit { queue, pool, head: None }).collect();
        let wants_frames = sink.wants_frames();
        let part = ThreadStats { has_no_output: !wants_frames, ..ThreadStats::new(functions) };
        Self {
            sink,
            wants_frames,
            comments: None,
            egress: None,
            neighbours: None,
            exits,
            first_lane: 0,
            next: 0,
            announced: 0,
            finished: false,
            reloaded: 0,
            sink_open: true,
            unflushed: false,
            unreported: 0,
            reported: Packets::default(),
            late_losses: LateLosses::default(),
            unsuitable: Vec::new(),
            reports,
            heads: Vec::with_capacity(lanes_len),
            turns: Vec::with_capacity(slots),
            clock,
            part,
        }
    }

    /// Prepares the ports of `chain`, and its names for a sink that shows drops.
    pub(crate) fn naming(mut self, chain: &Chain) -> Self {
        self.comments = self.sink.wants_dropped().then(|| Comments::new(chain));
        self.egress = Egress::of(chain, |port| self.sink.wants_frames_of(port));
        self.neighbours = self.sink.take_neighbours();
        self
    }

    /// Sends the next packets as far as they have arrived. Returns whether anything was done.
    pub(crate) fn step(&mut self, control: &Control) -> bool {
        let mut worked = self.send_held(false);
        let (mut began, mut looked) = (None, self.next);
        while !self.finished && self.send_next(control) {
            worked = true;
            if self.next - looked < LOOK_AFTER {
                continue;
            }
            // The lanes' queues may never be empty before a slow sink.
            let now = self.clock.now();
            if now - *began.get_or_insert(now) > STEP_MAX {
                break;
            }
            looked = self.next;
        }
        if self.unreported >= REPORT_EVERY || (self.unreported > 0 && (self.finished || !worked)) {
            self.unreported = 0;
            control.publish_settled(&self.part.packets, &mut self.reported);
            self.sink.events(&mut |event| control.report_again(event));
        }
        worked
    }

    /// Whether everything up to the end of the input was sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the sink takes no more.
    pub(crate) fn is_sink_closed(&self) -> bool {
        !self.sink_open
    }

    /// Its counts so far.
    pub(crate) fn counts(&mut self) -> ThreadStats {
        let mut part = self.part.clone();
        let has_ports = self.egress.is_some();
        self.late_losses.take_back(&mut part, &self.sink.unwritten(), has_ports);
        self.reports.add_counters(&mut part);
        part
    }

    /// Closes the sink; returns the counts and the reports.
    pub(crate) fn finish(mut self) -> Ended {
        self.send_held(true);
        if self.sink_open
            && let Err(error) = self.sink.close()
        {
            self.close_sink(&error);
        }
        for (port, lost) in self.sink.unwritten().by_port() {
            self.part.lose_sent(lost);
            if self.egress.is_some() {
                self.part.port(port).lose_sent(lost);
            }
        }
        Ended { part: self.part, states: Vec::new(), reports: Some(self.reports) }
    }

    fn send_next(&mut self, control: &Control) -> bool {
        for lane in 0..self.exits.len() {
            let exit = &mut self.exits[lane];
            if exit.head.is_none() {
                exit.head = exit.queue.pop().map(Head::new);
            }
            let Some(head) = &exit.head else { continue };
            match head.batch.kind() {
                BatchKind::Packets if self.send_run(lane) => return true,
                BatchKind::Packets => {}
                // Its turn comes when all lanes have it and all before it was sent.
                BatchKind::Tick { .. } | BatchKind::Reload | BatchKind::Finish => {}
            }
        }
        self.send_announced(control)
    }

    /// Sends the packets of `lane`'s head batch that are next in order; returns whether there were
    /// any.
    fn send_run(&mut self, lane: usize) -> bool {
        let Some(mut head) = self.exits[lane].head.take() else { return false };
        if self.exits.len() == 1 && !self.wants_frames && self.egress.is_none() {
            // On one lane whatever comes is next.
            self.next = head.batch.last_ingress() + 1;
            self.count(&head.batch);
            self.release(lane, head);
            return true;
        }
        let start = head.at;
        head.at = self.run_end(&head);
        self.settle(&mut head.batch, start..head.at);
        let worked = head.at > start;
        if head.at == head.batch.len() {
            self.release(lane, head);
        } else {
            head.note = self.reports.take(&head.batch, head.note, self.next, self.announced);
            self.exits[lane].head = Some(head);
        }
        worked
    }

    /// The end of the packets from `head` on that are next in order.
    fn run_end(&mut self, head: &Head) -> usize {
        let number = |at: usize| head.batch.packet(at).ingress();
        let (mut end, len) = (head.at, head.batch.len());
        // Packets that a function made follow their cause and share its number.
        while end < len && end - head.at < RUN_MAX && number(end) <= self.next {
            if end + 1 == len || number(end + 1) > number(end) {
                // Never back, whatever number a function gave to packets that it made.
                self.next = self.next.max(number(end) + 1);
            }
            end += 1;
        }
        end
    }

    /// A tick or the end, when every lane came to it: what it caused, by shard.
    fn send_announced(&mut self, control: &Control) -> bool {
        let next = self.next;
        let due = |exit: &Exit| {
            exit.head.as_ref().is_some_and(|Head { batch, .. }| {
                batch.kind() != BatchKind::Packets && batch.last_ingress() == next
            })
        };
        if !self.exits.iter().all(due) {
            return false;
        }
        let mut reloaded = false;
        let mut turns = std::mem::take(&mut self.turns);
        for (lane, exit) in self.exits.iter().enumerate() {
            let Some(Head { batch, .. }) = &exit.head else { continue };
            turns.extend((0..batch.len()).map(|at| (batch.packet(at).shard(), lane, at)));
            self.finished |= batch.kind() == BatchKind::Finish;
            reloaded |= batch.kind() == BatchKind::Reload;
        }
        if reloaded
            && let (Some(egress), Some(new)) = (&mut self.egress, control.reloads.deployment())
        {
            egress.follow(new.chain());
            self.neighbours.iter().for_each(|own| own.claim(new.chain().own_addresses()));
        }
        if self.finished {
            control.reloads.leave(self.reloaded);
        }
        turns.sort_unstable();
        let mut heads = std::mem::take(&mut self.heads);
        heads.extend(self.exits.iter_mut().filter_map(|exit| exit.head.take()));
        turns.drain(..).for_each(|(_, lane, at)| self.settle(&mut heads[lane].batch, at..at + 1));
        self.take_notes(&mut heads);
        for (lane, head) in heads.drain(..).enumerate() {
            self.release(lane, head);
        }
        (self.turns, self.heads) = (turns, heads);
        if reloaded {
            self.follow(control);
        }
        self.next += 1;
        self.announced += 1;
        true
    }

    /// Gives the notes of a tick or the end function by function and then lane by lane, as one lane
    /// would give them.
    fn take_notes(&mut self, heads: &mut [Head]) {
        for function in 0..self.reports.functions() {
            for head in &mut *heads {
                head.note = self.reports.take_of(function, &head.batch, head.note, self.announced);
            }
        }
    }

    /// Counts the packets of a batch that need not be seen, by their outcome.
    fn count(&mut self, batch: &Batch) {
        let tally = batch.tally();
        let packets = &mut self.part.packets;
        // There is no sink to send them to.
        packets.absorbed += tally.of(Verdict::Forward) + tally.of(Verdict::Return);
        packets.dropped += tally.of(Verdict::Dropped);
        packets.absorbed += tally.of(Verdict::Absorbed);
        packets.malformed += tally.of(Verdict::Malformed);
        packets.overload += tally.of(Verdict::Overload);
    }

    /// Notes how long a batch took, and gives it back to its lane.
    fn release(&mut self, lane: usize, head: Head) {
        let Head { mut batch, note, .. } = head;
        self.reports.take(&batch, note, u64::MAX, self.announced);
        let now = self.clock.now();
        let count = batch.len() as u64;
        if count > 0 {
            let latency = now.saturating_sub(batch.opened()).max(1);
            self.part.latency.saturating_record_n(latency, count);
            self.part.batches += 1;
            self.part.touch(now);
            self.unreported += count;
        }
        batch.clear();
        let returned = self.exits[lane].pool.push(batch);
        debug_assert!(returned.is_ok(), "a pool has room for all its batches");
    }
}
