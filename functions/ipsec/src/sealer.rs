//! The half before the cipher: decides on every packet, and gives those to be sealed their number
//! (RFC 4301, 5.1 and RFC 4303, 3.3.3).
//!
//! At the first of two places a packet in the clear may be inbound or outbound. It is dropped there
//! if a policy discards it, or if it should have come by an SA. The second place decides about the
//! rest.

use core::mem::offset_of;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use warpline_packet::wire::ipv4;
use warpline_packet::{Batch, Flags, Instant, Packet, PacketMut, Shard, prefetch};

use super::access::{ASKED, OF_FRAGMENTS};
use super::at::At;
use super::cipher::Engine;
use super::counts::{Carried, Refusals, Refused};
use super::nonce_state::Reserve;
use super::outbound::{self, Fate};
use super::replay::infer_extended;
use super::sa::{Action, Direction, DontFragment, Sa};
use super::shape::Shape;
use super::spd::Decision;
use super::strip::StripOutcome;
use super::tables::{Class, Tables};
use super::words::{TOGETHER, Task, Words, Work};
use super::{Ipsec, Options, reason, report};
use warpline_nf::{Before, Emit, Function, Ports, Report, Side, StateHalf};
use warpline_packet::upper::UpperLayer;
use warpline_streams::reassembly::{Reassembly, Taken, Why};

/// The longest IP packet: RFC 791, 3.1; of IPv6 without its header.
const PACKET_LEN_MAX: usize = u16::MAX as usize;

/// The state of an SA that seals; the data of every packet are at the front, in one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct OutState {
    /// The last number that was used.
    sequence: u64,
    carried: Carried,
    /// The right to use numbers of a key that must not see one twice. Such an SA sends nothing
    /// without it.
    reserve: Option<Reserve>,
    refusals: Refusals,
}

const _: () = assert!(offset_of!(OutState, reserve) + Reserve::FRONT_LEN <= 64);

impl OutState {
    pub(super) fn new(sa: &Sa, reserve: Option<Reserve>) -> Self {
        let start = reserve.as_ref().map_or(0, |reserve| reserve.start().saturating_sub(1));
        let (carried, refusals) = (Carried::default(), Refusals::default());
        Self { sequence: sa.sequence.max(start), carried, reserve, refusals }
    }

    /// The number of its next packet.
    #[inline]
    fn next(&mut self, shape: &Shape) -> Result<u64, warpline_packet::Reason> {
        // RFC 4303, 3.3.3: a number that was used is never used again.
        let last = if shape.esn { u64::MAX - 1 } else { u64::from(u32::MAX) };
        if self.sequence >= last {
            return Err(reason::SEQUENCE_OVERFLOW);
        }
        let next = self.sequence + 1;
        if shape.is_counter() && !self.reserve.as_ref().is_some_and(|own| own.covers(next)) {
            return Err(reason::NONCE_STATE);
        }
        self.sequence = next;
        Ok(next)
    }
}

/// One shard's half.
pub(super) struct Sealer {
    shard: Shard,
    at: At,
    tables: Arc<Tables>,
    engine: Arc<Engine>,
    options: Options,
    words: Words,
    states: Box<[OutState]>,
    /// Of SAs that a reload took away.
    retired: Carried,
    reassembly: Option<Reassembly>,
    bypassed: u64,
    keepalives: u64,
    ports: Ports,
}

impl Sealer {
    pub(super) fn new(ipsec: &Ipsec, shard: Shard, states: Box<[OutState]>) -> Self {
        let options = ipsec.options;
        Self {
            shard,
            at: ipsec.at,
            tables: Arc::clone(&ipsec.tables),
            engine: Arc::clone(&ipsec.engine),
            options,
            words: ipsec.words,
            states,
            retired: Carried::default(),
            reassembly: (ipsec.at.opens() && options.reassembly > 0).then(|| {
                let datagrams = shard.share(options.reassembly).max(1);
                Reassembly::new(datagrams, options.frame_len_max()).reading(OF_FRAGMENTS)
            }),
            bypassed: 0,
            keepalives: 0,
            ports: ipsec.ports.clone(),
        }
    }

    /// Decides on a packet: drops it, or returns its task, without the number of a packet to seal.
    #[inline(always)]
    fn decide(&mut self, batch: &mut Batch, index: usize, emit: &mut Emit<'_>) -> Task {
        let packet = batch.packet(index);
        let headers = packet.headers();
        if headers.malformed().is_some() {
            let _ = batch.packet_mut(index).reject_malformed();
            return Task::NONE;
        }
        if self.at == At::Second {
            return self.decide_outbound(batch, index);
        }
        let mut class = self.tables.classify(packet.into_frame_for(ASKED), &headers);
        let mut is_cut = headers.flags.has(Flags::SNAPPED);
        if class == Class::Fragment {
            if !self.reassemble(batch, index, emit) {
                return Task::NONE;
            }
            let packet = batch.packet(index);
            (class, is_cut) = (self.classify_anew(&packet), packet.has(Flags::SNAPPED));
        }
        let packet = &mut batch.packet_mut(index);
        match class {
            Class::Open(row, low) if !is_cut => return self.open(packet, row, low),
            Class::Clear(decision) if self.lacks_protection(packet, decision) => {
                packet.drop(reason::NO_POLICY);
            }
            Class::Clear(Decision::Is(Action::Discard)) => packet.drop(reason::DISCARD),
            Class::Clear(_) if self.at == At::First => {}
            Class::Clear(Decision::Is(Action::Protect(row))) if !is_cut => {
                return Task { work: Work::Seal, row: row as u16, ..Task::NONE };
            }
            class => self.dismiss(packet, class),
        }
        Task::NONE
    }

    /// Says what becomes of a packet at the second place.
    #[inline(always)]
    fn decide_outbound(&mut self, batch: &mut Batch, index: usize) -> Task {
        let packet = batch.packet(index);
        let was_opened = self.words.what(&packet).0 == Work::Open;
        let fate = outbound::fate(&self.tables, self.options.bypasses, packet, was_opened);
        let packet = &mut batch.packet_mut(index);
        match fate {
            Fate::Seal(row) => {
                let outcome = if was_opened { StripOutcome::Plain } else { StripOutcome::Closed };
                return Task { work: Work::Seal, row, outcome, ..Task::NONE };
            }
            Fate::Pass if was_opened => return Task::OPENED,
            Fate::Bypass if was_opened => {
                self.bypassed += 1;
                packet.set_opened(false);
                return Task::OPENED;
            }
            Fate::Pass | Fate::Bypass => self.bypassed += 1,
            Fate::NotIp => self.dismiss(packet, Class::NotIp),
            Fate::Drop(why) => packet.drop(why),
        }
        Task::NONE
    }

    /// Whether a packet in the clear should have come by an SA (RFC 4301, 5.2, 3). From outside
    /// none is sealed. Without ports it may also come from inside, which a policy for it shows.
    #[inline(always)]
    fn lacks_protection(&self, packet: &PacketMut<'_>, decision: Decision) -> bool {
        let may_lack = match (decision, self.side(packet)) {
            (Decision::Is(Action::Bypass | Action::Discard) | Decision::Uncertain, _)
            | (_, Some(Side::Inside)) => false,
            (Decision::Is(Action::Protect(_)), side) => return side.is_some(),
            (Decision::None, _) => true,
        };
        may_lack && self.tables.wants_protection(packet.as_packet())
    }

    /// The side that a packet came from, in a chain with ports.
    #[inline(always)]
    fn side(&self, packet: &PacketMut<'_>) -> Option<Side> {
        if self.ports.is_empty() { None } else { self.ports.side(packet.interface()) }
    }

    /// The outcome of a packet without anything to seal or open.
    fn dismiss(&mut self, packet: &mut PacketMut<'_>, class: Class) {
        let is_cut = packet.has(Flags::SNAPPED);
        match class {
            // It may be IP that was to be sealed, or was to come by an SA.
            Class::NotIp if packet.has(Flags::IP_CUT) => packet.drop(reason::SNAPPED),
            Class::NotIp if self.options.forwards_non_ip => {}
            Class::NotIp => packet.drop(reason::NON_IP),
            Class::Fragment => packet.drop(reason::FRAGMENT),
            Class::NoSa => packet.drop(reason::NO_SA),
            Class::Keepalive => {
                self.keepalives += 1;
                packet.absorb();
            }
            Class::Cut if !is_cut => packet.drop(reason::MALFORMED),
            Class::Open(..) | Class::Cut => packet.drop(reason::SNAPPED),
            Class::Clear(decision) => match decision {
                Decision::Is(Action::Protect(_)) => packet.drop(reason::SNAPPED),
                Decision::Is(Action::Bypass) => self.bypassed += 1,
                Decision::Is(Action::Discard) => packet.drop(reason::DISCARD),
                Decision::Uncertain => packet.drop(reason::FRAGMENT),
                Decision::None if self.options.bypasses => self.bypassed += 1,
                Decision::None => packet.drop(reason::NO_POLICY),
            },
        }
    }

    #[cold]
    fn classify_anew(&self, packet: &Packet<'_>) -> Class {
        self.tables.classify(packet.frame_for(ASKED), &packet.headers())
    }

    /// Takes a fragment in; returns whether packet `index` is the whole datagram now.
    fn reassemble(&mut self, batch: &mut Batch, index: usize, emit: &mut Emit<'_>) -> bool {
        let Some(reassembly) = &mut self.reassembly else {
            batch.packet_mut(index).drop(reason::FRAGMENT);
            return false;
        };
        let taken = reassembly.take(&batch.packet(index));
        let is_placed =
            matches!(taken, Taken::Complete(frame) if emit.replace(batch, index, frame));
        let packet = &mut batch.packet_mut(index);
        match taken {
            Taken::Complete(_) if is_placed => return !packet.reject_malformed(),
            Taken::Complete(_) => packet.drop(reason::TOO_BIG),
            Taken::Stored => packet.absorb(),
            Taken::Refused(Why::TooLong) => packet.drop(reason::TOO_BIG),
            Taken::Refused(Why::Malformed) => packet.drop(reason::MALFORMED),
            Taken::Refused(_) | Taken::Whole => packet.drop(reason::FRAGMENT),
        }
        false
    }

    /// Chooses the number with which the packet is opened first. It is a guess from the packets so
    /// far. The half after the cipher knows the right one, and opens the packet again if the guess
    /// was wrong.
    fn open(&self, packet: &mut PacketMut<'_>, row: u16, low: u32) -> Task {
        if self.tables.slot(row, self.shard).is_none() {
            packet.drop(reason::MISPLACED);
            return Task::NONE;
        }
        let sequence = match self.tables.shape(row).esn {
            true => self.guess(row, low).unwrap_or(low.into()),
            false => low.into(),
        };
        Task { work: Work::Open, row, sequence, ..Task::NONE }
    }

    fn guess(&self, row: u16, low: u32) -> Option<u64> {
        let highest = self.tables.highest[usize::from(row)].load(Ordering::Relaxed);
        infer_extended(highest, self.tables.row(row).0.replay_window, low)
    }

    /// The task of a packet to seal, with its number. A dropped packet keeps its row: from it the
    /// half after the cipher gets the MTU for the sender.
    #[inline(always)]
    fn number(&mut self, packet: &mut PacketMut<'_>, task: Task) -> Task {
        let row = task.row;
        let shape = self.tables.shape(row);
        // Another SA's numbers with this one's keys would give nonces that were used already.
        let Some(slot) = self.tables.slot(row, self.shard) else {
            packet.drop(reason::MISPLACED);
            return Task::NONE;
        };
        let state = &mut self.states[slot];
        let len = packet.ip_end() - packet.l3_offset();
        let now = packet.timestamp();
        let sequence = check(packet, shape, len).and_then(|()| {
            if !shape.has_terms {
                state.carried.begin(now);
            } else {
                let lifetime = &self.tables.row(row).0.lifetime;
                if !state.carried.admits(len, now, lifetime, &mut state.refusals) {
                    return Err(reason::LIFETIME);
                }
            }
            state.next(shape).inspect(|_| state.carried.count(len))
        });
        let sequence = sequence.unwrap_or_else(|why| {
            if why != reason::LIFETIME {
                state.refusals.count(Refused::Other);
            }
            if why == reason::TOO_BIG {
                // Its sender may need a report.
                packet.flag();
            }
            packet.drop(why);
            0
        });
        Task { sequence, ..task }
    }
}

/// Whether an SA can carry a packet of `len` bytes as it is.
#[inline(always)]
fn check(packet: &PacketMut<'_>, shape: &Shape, len: usize) -> Result<(), warpline_packet::Reason> {
    let version = shape.outer_version();
    if version > 0 && len <= shape.tunnelled_len_max.into() && packet.link().takes(version) {
        return Ok(());
    }
    check_all(packet, shape, len)
}

#[inline(never)]
fn check_all(
    packet: &PacketMut<'_>,
    shape: &Shape,
    len: usize,
) -> Result<(), warpline_packet::Reason> {
    let kept = match shape.outer_version() {
        // RFC 4303, 3.1.1: whole datagrams alone.
        0 if packet.has(Flags::FRAGMENT) => return Err(reason::FRAGMENT),
        0 => match UpperLayer::end_to_end(&packet.as_packet()) {
            Some(place) => place.body - packet.l3_offset(),
            None => return Err(reason::MALFORMED),
        },
        version if !packet.link().takes(version) => return Err(reason::LINK),
        _ => 0,
    };
    let sealed = shape.sealed_len(kept, len);
    if sealed > PACKET_LEN_MAX || sealed > shape.outer.mtu.into() && !may_fragment(packet, shape) {
        return Err(reason::TOO_BIG);
    }
    Ok(())
}

/// Whether routers on the way may cut a packet that is too long for them.
fn may_fragment(packet: &PacketMut<'_>, shape: &Shape) -> bool {
    let own = packet.version() == 4 && packet.ip_fragment() & ipv4::DONT_FRAGMENT == 0;
    match (shape.outer_version(), shape.outer.dont_fragment) {
        (0, _) | (4, DontFragment::Copy) => own,
        (4, DontFragment::Clear) => true,
        _ => false,
    }
}

impl Before for Sealer {
    fn fetch_next(&self, batch: &Batch, picks: &[u16]) {
        let picks = if self.tables.is_large() { picks } else { &[] };
        for &index in picks {
            let packet = batch.packet(index.into());
            let row = self.tables.fetch_next(packet.into_frame_for(ASKED), &packet.headers());
            let Some(row) = row else { continue };
            self.engine.announce(row.into());
            // The index of an inbound SA is one among states of the other half; prefetching the
            // wrong one does no harm.
            let slot = self.tables.slot(row, self.shard);
            slot.and_then(|slot| self.states.get(slot)).into_iter().for_each(prefetch);
        }
    }

    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for picks in picks.chunks(TOGETHER) {
            let mut tasks = [Task::NONE; TOGETHER];
            for (task, &index) in tasks.iter_mut().zip(picks) {
                *task = self.decide(batch, index.into(), emit);
                if task.work == Work::Seal {
                    *task = self.number(&mut batch.packet_mut(index.into()), *task);
                }
            }
            self.words.put_all(batch, picks, &tasks);
        }
    }
}

impl StateHalf for Sealer {
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        let picks = if self.tables.is_large() { picks } else { &[] };
        for &index in picks {
            let packet = batch.packet(index.into());
            self.tables.fetch(packet.into_frame_for(ASKED), &packet.headers());
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Emit<'_>) {
        self.reassembly.iter_mut().for_each(|reassembly| reassembly.expire(now));
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        let Some(new) = function.downcast_ref::<Ipsec>() else { return };
        let (retired, states) = (&mut self.retired, &mut self.states);
        let retire = |state: &OutState| retired.add(&state.carried);
        new.successor.take_over(&new.tables, &self.tables, self.shard, states, retire);
        self.tables = Arc::clone(&new.tables);
        self.engine = Arc::clone(&new.engine);
        self.options = new.options;
    }

    fn close(&mut self, report: &mut dyn Report) {
        for (row, state) in self.tables.rows(self.shard, Direction::Out).zip(&self.states) {
            let (sa, OutState { sequence, carried, refusals, .. }) = (&self.tables.sas[row], state);
            report::report_state(report, sa, *sequence, carried, refusals);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let sum = |of: fn(&Carried) -> u64| {
            of(&self.retired) + self.states.iter().map(|state| of(&state.carried)).sum::<u64>()
        };
        if self.at.seals() {
            visit("sealed", sum(|carried| carried.packets));
            visit("sealed-bytes", sum(|carried| carried.bytes));
            visit("bypassed", self.bypassed);
        }
        if self.at.opens() {
            visit("keepalives", self.keepalives);
        }
        let Some(reassembly) = &self.reassembly else { return };
        let counters = reassembly.counters();
        visit("fragments", counters.fragments);
        visit("reassembled", counters.complete);
        visit("reassembly-expired", counters.expired);
        visit("reassembly-evicted", counters.evicted);
    }
}
