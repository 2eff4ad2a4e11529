//! The half after the cipher: the replay window, the outcome of opening, and whether the SA may
//! carry the packet (RFC 4303, 3.4.3 and 3.4.4; RFC 4301, 5.2).
//!
//! With extended numbers a packet carries half of its own. The other half depends on the packets
//! that authenticated before: on the window, which moves here, perhaps while later packets are
//! already at the cipher. So packets are opened with a guess. The window decides on the right
//! number in their turn, and they are opened again if the guess was wrong. So the outcome of a
//! packet never depends on the guess. After many packets that did not authenticate, some are tried
//! as later numbers (A3).

use core::sync::atomic::Ordering;
use std::sync::Arc;

use warpline_packet::wire::icmp_error::{Icmpv4Error, Icmpv6Error};
use warpline_packet::{Batch, Packet, Reason, Shard, Verdict, prefetch};

use super::access::ASKED;
use super::at::At;
use super::cipher::Engine;
use super::counts::{Carried, Refusals, Refused};
use super::replay::ReplayWindow;
use super::sa::{Direction, Mode, Sa};
use super::strip::StripOutcome;
use super::tables::{Tables, is_authenticated};
use super::traffic::Traffic;
use super::words::{Task, Words, Work};
use super::{Ipsec, MTU_LEAST_V6, reason, report, work};
use warpline_nf::{After, Emit, Function, Report, StateHalf};
use warpline_packet::upper::UpperLayer;
use warpline_rewrite::icmp_errors::{Errors, Problem};

/// The state of an SA that opens; the data of every packet are at the front, in one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct InState {
    window: ReplayWindow,
    carried: Carried,
    refusals: Refusals,
}

impl InState {
    pub(super) fn new(sa: &Sa) -> Self {
        // RFC 4303, 3.4.3: numbers that did not authenticate don't count.
        let window = if is_authenticated(sa) { sa.replay_window } else { 0 };
        let window = ReplayWindow::new(window, sa.esn, sa.sequence);
        Self { window, carried: Carried::default(), refusals: Refusals::default() }
    }
}

/// One shard's half.
pub(super) struct Opener {
    shard: Shard,
    at: At,
    tables: Arc<Tables>,
    engine: Arc<Engine>,
    words: Words,
    states: Box<[InState]>,
    /// Of SAs that a reload took away.
    retired: Carried,
    icmp: Option<Errors>,
    dummies: u64,
    reopened: u64,
    /// Later numbers that packets were tried as, and those that were right.
    tried: u64,
    resynchronized: u64,
}

impl Opener {
    pub(super) fn new(ipsec: &Ipsec, shard: Shard, states: Box<[InState]>) -> Self {
        Self {
            shard,
            at: ipsec.at,
            tables: Arc::clone(&ipsec.tables),
            engine: Arc::clone(&ipsec.engine),
            words: ipsec.words,
            states,
            retired: Carried::default(),
            icmp: ipsec.options.icmp.filter(|_| ipsec.at.seals()).map(Errors::new),
            dummies: 0,
            reopened: 0,
            tried: 0,
            resynchronized: 0,
        }
    }

    /// Says what becomes of a packet that came by ESP.
    fn settle(&mut self, tables: &Tables, batch: &mut Batch, index: usize, task: Task) {
        let shape = tables.shape(task.row);
        let Some(slot) = tables.slot(task.row, self.shard) else {
            return batch.packet_mut(index).drop(reason::MISPLACED);
        };
        let opened = self.open(batch, index, task, slot);
        let InState { carried, refusals, .. } = &mut self.states[slot];
        let packet = &mut batch.packet_mut(index);
        if opened == Ok(StripOutcome::Plain) && !shape.has_terms {
            carried.begin(packet.timestamp());
            return carried.count(packet.ip_end() - packet.l3_offset());
        }
        let verdict = opened.and_then(|outcome| match outcome {
            StripOutcome::Closed => Err(reason::BAD_ICV),
            StripOutcome::Dummy => Ok(false),
            StripOutcome::BadPadding => Err(reason::BAD_PADDING),
            StripOutcome::Malformed => Err(reason::MALFORMED),
            StripOutcome::Congestion => Err(reason::CONGESTION),
            StripOutcome::Link => Err(reason::LINK),
            StripOutcome::Plain => {
                let packet = packet.as_packet();
                let (len, now) = (packet.ip_end() - packet.l3_offset(), packet.timestamp());
                let sa = tables.row(task.row).0;
                if !is_carried(tables, task.row, packet) {
                    Err(reason::SELECTOR_MISMATCH)
                } else if !carried.admits(len, now, &sa.lifetime, refusals) {
                    Err(reason::LIFETIME)
                } else {
                    carried.count(len);
                    Ok(true)
                }
            }
        });
        match verdict {
            Ok(true) => {}
            Ok(false) => {
                self.dummies += 1;
                packet.absorb();
            }
            Err(why) => {
                let of = match why {
                    reason::BAD_ICV => Some(Refused::BadIcv),
                    reason::REPLAY => Some(Refused::Replay),
                    // Counted already.
                    reason::LIFETIME => None,
                    _ => Some(Refused::Other),
                };
                of.into_iter().for_each(|of| refusals.count(of));
                packet.drop(why);
            }
        }
    }

    /// Checks the packet's number with the window, and moves that if the packet authenticated as
    /// this number, or as a later one.
    fn open(
        &mut self,
        batch: &mut Batch,
        index: usize,
        task: Task,
        slot: usize,
    ) -> Result<StripOutcome, Reason> {
        let window = &self.states[slot].window;
        let number = window.infer(task.sequence as u32).filter(|&number| window.check(number));
        let Some(mut number) = number else { return Err(reason::REPLAY) };
        let mut outcome = self.outcome_as(batch, index, task, number);
        let is_authenticated = is_authenticated(self.tables.row(task.row).0);
        if is_authenticated && number != task.sequence && task.outcome == StripOutcome::Closed {
            self.reopened += 1;
        }
        if is_authenticated && outcome == StripOutcome::Closed {
            for later in self.states[slot].window.reject(number) {
                self.tried += 1;
                outcome = self.outcome_as(batch, index, task, later);
                if outcome != StripOutcome::Closed {
                    number = later;
                    self.resynchronized += 1;
                    break;
                }
            }
        }
        if outcome != StripOutcome::Closed {
            let window = &mut self.states[slot].window;
            window.accept(number);
            if self.tables.shape(task.row).esn {
                let hint = &self.tables.highest[usize::from(task.row)];
                hint.store(window.highest(), Ordering::Relaxed);
            }
        }
        Ok(outcome)
    }

    /// The outcome of opening the packet as `number`.
    fn outcome_as(&self, batch: &mut Batch, index: usize, task: Task, number: u64) -> StripOutcome {
        // Without authentication nothing depends on the number.
        let is_guess = number == task.sequence || !is_authenticated(self.tables.row(task.row).0);
        match (is_guess, task.outcome) {
            (true, outcome) => outcome,
            (false, StripOutcome::Closed) => {
                let (tables, engine) = (&self.tables, &self.engine);
                work::open_one(batch, index, task.row, number, tables, engine)
            }
            // No packet authenticates as two numbers.
            (false, _) => StripOutcome::Closed,
        }
    }

    /// Tells the sender of a packet that is too long what its SA can carry (RFC 4301, 8.2).
    fn report(&mut self, packet: &Packet<'_>, row: u16, emit: &mut Emit<'_>) {
        let Some(icmp) = &mut self.icmp else { return };
        if packet.reason() != reason::TOO_BIG {
            return;
        }
        if self.words.get(packet).outcome == StripOutcome::Plain {
            // No later place would seal an answer to an opened packet.
            return icmp.answer(packet, None, emit);
        }
        let (sa, shape) = self.tables.row(row);
        let kept = match sa.mode {
            Mode::Tunnel => 0,
            Mode::Transport => {
                UpperLayer::end_to_end(packet).map_or(0, |place| place.body - packet.l3_offset())
            }
        };
        let mtu = shape.len_max(kept, sa.outer.mtu.into());
        if packet.version() == 6 && packet.ip_end() - packet.l3_offset() <= MTU_LEAST_V6 {
            // No sender makes packets shorter than that for it (RFC 8201, 4).
            return;
        }
        let v4 = Icmpv4Error::FragmentationNeeded { mtu: mtu as u16 };
        let v6 = Icmpv6Error::PacketTooBig { mtu: mtu.max(MTU_LEAST_V6) as u32 };
        icmp.answer(packet, Some(Problem { v4, v6 }), emit);
    }
}

/// Whether an SA may carry this packet (RFC 4301, 5.2, 4). `run` flagged it if its SA is checked.
fn is_carried(tables: &Tables, row: u16, packet: Packet<'_>) -> bool {
    !tables.shape(row).is_checked
        || Traffic::of(packet.into_frame_for(ASKED), &packet.headers())
            .is_some_and(|traffic| tables.carries(row, &traffic))
}

impl After for Opener {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        let tables = Arc::clone(&self.tables);
        for &index in picks {
            let index = usize::from(index);
            let packet = batch.packet(index);
            let (work, row) = self.words.what(&packet);
            match work {
                Work::None | Work::Opened => {}
                Work::Seal if packet.verdict() != Verdict::Dropped => {}
                Work::Seal => self.report(&packet, row, emit),
                Work::Open => self.settle(&tables, batch, index, self.words.get(&packet)),
            }
        }
    }
}

impl StateHalf for Opener {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        if !self.tables.is_large() {
            return;
        }
        let mut last = None;
        for &index in picks {
            let (work, row) = self.words.what(&batch.packet(index.into()));
            if work == Work::Open && last != Some(row) {
                last = Some(row);
                let slot = self.tables.slot(row, self.shard);
                slot.and_then(|slot| self.states.get(slot)).into_iter().for_each(prefetch);
            }
        }
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        let Some(new) = function.downcast_ref::<Ipsec>() else { return };
        let (retired, states) = (&mut self.retired, &mut self.states);
        let retire = |state: &InState| retired.add(&state.carried);
        new.successor.take_over(&new.tables, &self.tables, self.shard, states, retire);
        self.tables = Arc::clone(&new.tables);
        self.engine = Arc::clone(&new.engine);
        for (row, state) in self.tables.rows(self.shard, Direction::In).zip(&self.states) {
            self.tables.highest[row].store(state.window.highest(), Ordering::Relaxed);
        }
    }

    fn close(&mut self, report: &mut dyn Report) {
        for (row, state) in self.tables.rows(self.shard, Direction::In).zip(&self.states) {
            let (sa, InState { window, carried, refusals }) = (&self.tables.sas[row], state);
            report::report_state(report, sa, window.highest(), carried, refusals);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let sum = |of: fn(&Carried) -> u64| {
            of(&self.retired) + self.states.iter().map(|state| of(&state.carried)).sum::<u64>()
        };
        if self.at.opens() {
            visit("opened", sum(|carried| carried.packets));
            visit("opened-bytes", sum(|carried| carried.bytes));
            visit("dummies", self.dummies);
            visit("reopened", self.reopened);
            visit("resync-tries", self.tried);
            visit("resynchronized", self.resynchronized);
        }
        self.icmp.iter().for_each(|icmp| icmp.counters(visit));
    }
}
