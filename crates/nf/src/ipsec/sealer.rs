//! The half before the cipher: says what becomes of every packet, and gives those to be sealed their number
//! (RFC 4301, 5.1 and RFC 4303, 3.3.3).

use core::sync::atomic::Ordering;
use std::sync::Arc;

use warpline_packet::wire::ipv4;
use warpline_packet::{Batch, Flags, Instant, Packet, PacketMut, Shard};

use super::counts::{Counts, Refused};
use super::nonce_state::Reserve;
use super::replay::infer_extended;
use super::sa::{Action, Direction, DontFragment, Mode, Sa};
use super::spd::Decision;
use super::tables::{Class, Shape, Tables};
use super::traffic::EspPlace;
use super::words::{Task, Words, Work};
use super::{Ipsec, Options, reason, report};
use crate::reassembly::{Reassembly, Taken, Why};
use crate::upper::Place;
use crate::{Before, Emit, Function, Report};

/// The longest IP packet: RFC 791, 3.1; of IPv6 without its header.
const PACKET_LEN_MAX: usize = u16::MAX as usize;

/// What an SA that seals remembers.
#[derive(Debug)]
pub(super) struct OutState {
    /// The last number that was used.
    sequence: u64,
    /// The right to use numbers of a key that must not see one twice; nothing is sent by such an SA without.
    reserve: Option<Reserve>,
    counts: Counts,
}

impl OutState {
    pub(super) fn new(sa: &Sa, reserve: Option<Reserve>) -> Self {
        let start = reserve.as_ref().map_or(0, |reserve| reserve.start().saturating_sub(1));
        Self { sequence: sa.sequence.max(start), reserve, counts: Counts::default() }
    }

    /// The number of its next packet.
    fn next(&mut self, sa: &Sa) -> Result<u64, warpline_packet::Reason> {
        // RFC 4303, 3.3.3: a number that was used is never used again.
        let last = if sa.esn { u64::MAX - 1 } else { u64::from(u32::MAX) };
        if self.sequence >= last {
            return Err(reason::SEQUENCE_OVERFLOW);
        }
        let next = self.sequence + 1;
        if sa.cipher.is_counter() && !self.reserve.as_ref().is_some_and(|own| own.covers(next)) {
            return Err(reason::NONCE_STATE);
        }
        self.sequence = next;
        Ok(next)
    }
}

/// One shard's half.
pub(super) struct Sealer {
    shard: Shard,
    tables: Arc<Tables>,
    options: Options,
    words: Words,
    states: Box<[OutState]>,
    /// Of SAs that a reload took away.
    retired: Counts,
    reassembly: Option<Reassembly>,
    bypassed: u64,
    keepalives: u64,
}

impl Sealer {
    pub(super) fn new(ipsec: &Ipsec, shard: Shard, states: Box<[OutState]>) -> Self {
        let options = ipsec.options;
        Self {
            shard,
            tables: Arc::clone(&ipsec.tables),
            options,
            words: ipsec.words,
            states,
            retired: Counts::default(),
            reassembly: (options.reassembly > 0).then(|| {
                Reassembly::new(shard.share(options.reassembly).max(1), options.frame_len_max())
            }),
            bypassed: 0,
            keepalives: 0,
        }
    }

    /// Says what becomes of a packet: drops it, or gives what is to be done with it.
    fn decide(&mut self, batch: &mut Batch, index: usize, emit: &mut Emit<'_>) -> Task {
        if batch.packet_mut(index).reject_malformed() {
            return Task::NONE;
        }
        let mut class = self.classify(&batch.packet(index));
        if class == Class::Fragment {
            if !self.reassemble(batch, index, emit) {
                return Task::NONE;
            }
            class = self.classify(&batch.packet(index));
        }
        let packet = &mut batch.packet_mut(index);
        let is_cut = packet.has(Flags::SNAPPED);
        match class {
            Class::NotIp if self.options.forwards_non_ip => {}
            Class::NotIp => packet.drop(reason::NON_IP),
            Class::Fragment => packet.drop(reason::FRAGMENT),
            Class::NoSa => packet.drop(reason::NO_SA),
            Class::Keepalive => {
                self.keepalives += 1;
                packet.absorb();
            }
            Class::Open(..) | Class::Cut if is_cut => packet.drop(reason::SNAPPED),
            Class::Cut => packet.drop(reason::MALFORMED),
            Class::Open(row, place) => return self.open(packet, row, place),
            Class::Clear(decision, traffic) => match decision {
                Decision::Is(Action::Protect(_)) if is_cut => packet.drop(reason::SNAPPED),
                Decision::Is(Action::Protect(row)) => return self.seal(packet, row as u16),
                Decision::Is(Action::Bypass) => self.bypassed += 1,
                Decision::Is(Action::Discard) => packet.drop(reason::DISCARD),
                Decision::Uncertain => packet.drop(reason::FRAGMENT),
                // RFC 4301, 5.2, 3: what should have come by an SA does not pass in the clear.
                Decision::None
                    if self.options.bypasses && !self.tables.wants_protection(&traffic) =>
                {
                    self.bypassed += 1;
                }
                Decision::None => packet.drop(reason::NO_POLICY),
            },
        }
        Task::NONE
    }

    fn classify(&self, packet: &Packet<'_>) -> Class {
        self.tables.classify(packet.frame(), &packet.headers())
    }

    /// Takes a fragment in; says whether packet `index` is the whole datagram now.
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
            Taken::Complete(_) if is_placed => {
                packet.reparse();
                return !packet.reject_malformed();
            }
            Taken::Complete(_) => packet.drop(reason::TOO_BIG),
            Taken::Stored => packet.absorb(),
            Taken::Refused(Why::TooLong) => packet.drop(reason::TOO_BIG),
            Taken::Refused(Why::Malformed) => packet.drop(reason::MALFORMED),
            Taken::Refused(_) | Taken::Whole => packet.drop(reason::FRAGMENT),
        }
        false
    }

    /// Says as which number the packet is opened first. It is a guess from what arrived so far; the half after the
    /// cipher knows, and has it opened again where the guess was wrong.
    fn open(&self, packet: &mut PacketMut<'_>, row: u16, place: EspPlace) -> Task {
        let (sa, shape) = self.tables.row(row);
        if shape.slot(self.shard).is_none() {
            packet.drop(reason::MISPLACED);
            return Task::NONE;
        }
        let highest = self.tables.highest[usize::from(row)].load(Ordering::Relaxed);
        let low = u64::from(place.low);
        let sequence = match sa.esn {
            true => infer_extended(highest, sa.replay_window, place.low).unwrap_or(low),
            false => low,
        };
        Task { work: Work::Open, row, sequence, ..Task::NONE }
    }

    fn seal(&mut self, packet: &mut PacketMut<'_>, row: u16) -> Task {
        let (sa, shape) = self.tables.row(row);
        // Another SA's numbers with this one's keys would give nonces that were used already.
        let Some(slot) = shape.slot(self.shard) else {
            packet.drop(reason::MISPLACED);
            return Task::NONE;
        };
        let state = &mut self.states[slot];
        let len = packet.ip_end() - packet.l3_offset();
        let task = check(packet, sa, shape, len).and_then(|()| {
            if !state.counts.admits(len, packet.timestamp(), &sa.lifetime) {
                return Err(reason::LIFETIME);
            }
            state.next(sa).inspect(|_| state.counts.count(len))
        });
        let sequence = task.unwrap_or_else(|why| {
            if why != reason::LIFETIME {
                state.counts.refuse(Refused::Other);
            }
            packet.drop(why);
            0
        });
        // A dropped packet's row tells the half behind which MTU the sender is to learn.
        Task { work: Work::Seal, row, sequence, ..Task::NONE }
    }
}

/// Whether an SA can carry a packet of `len` bytes as it is.
fn check(
    packet: &PacketMut<'_>,
    sa: &Sa,
    shape: &Shape,
    len: usize,
) -> Result<(), warpline_packet::Reason> {
    let kept = match sa.mode {
        Mode::Tunnel if !packet.link().takes(if sa.src.is_ipv4() { 4 } else { 6 }) => {
            return Err(reason::LINK);
        }
        Mode::Tunnel => 0,
        // RFC 4303, 3.1.1: whole datagrams alone.
        Mode::Transport if packet.has(Flags::FRAGMENT) => return Err(reason::FRAGMENT),
        Mode::Transport => match Place::end_to_end(&packet.as_packet()) {
            Some(place) => place.body - packet.l3_offset(),
            None => return Err(reason::MALFORMED),
        },
    };
    let sealed = shape.sealed_len(kept, len);
    if sealed > PACKET_LEN_MAX || sealed > sa.outer.mtu.into() && !may_fragment(packet, sa) {
        return Err(reason::TOO_BIG);
    }
    Ok(())
}

/// Whether routers on the way may cut a packet that is too long for them.
fn may_fragment(packet: &PacketMut<'_>, sa: &Sa) -> bool {
    let own = packet.version() == 4 && packet.ip_fragment() & ipv4::DONT_FRAGMENT == 0;
    match sa.mode {
        Mode::Transport => own,
        Mode::Tunnel if sa.src.is_ipv6() => false,
        Mode::Tunnel => match sa.outer.dont_fragment {
            DontFragment::Copy => own,
            DontFragment::Set => false,
            DontFragment::Clear => true,
        },
    }
}

impl Before for Sealer {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            let index = usize::from(index);
            let task = self.decide(batch, index, emit);
            self.words.put(&mut batch.packet_mut(index), task);
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Emit<'_>) {
        self.reassembly.iter_mut().for_each(|reassembly| reassembly.expire(now));
    }

    fn reload(&mut self, function: &dyn Function) {
        let function: &dyn core::any::Any = function;
        let Some(new) = function.downcast_ref::<Ipsec>() else { return };
        let (retired, states) = (&mut self.retired, &mut self.states);
        let retire = |state: &OutState| retired.add(&state.counts);
        new.successor.take_over(&new.tables, &self.tables, self.shard, states, retire);
        self.tables = Arc::clone(&new.tables);
        self.options = new.options;
    }

    fn close(&mut self, report: &mut dyn Report) {
        for (row, state) in self.tables.rows(self.shard, Direction::Out).zip(&self.states) {
            report::tell(report, &self.tables.sas[row], state.sequence, &state.counts);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let sum = |of: fn(&Counts) -> u64| {
            of(&self.retired) + self.states.iter().map(|state| of(&state.counts)).sum::<u64>()
        };
        visit("sealed", sum(|counts| counts.packets));
        visit("sealed_bytes", sum(|counts| counts.bytes));
        visit("bypassed", self.bypassed);
        visit("keepalives", self.keepalives);
        let Some(reassembly) = &self.reassembly else { return };
        let counters = reassembly.counters();
        visit("fragments", counters.fragments);
        visit("reassembled", counters.complete);
        visit("reassembly_expired", counters.expired);
        visit("reassembly_evicted", counters.evicted);
    }
}
