//! Network functions: the interface between functions and the engine.
//!
//! A [`Function`] is built once from its configuration and shared, read-only, by all lanes. Its
//! work on a batch has three phases: [`Before`] (state), [`Function::run`] (pure), [`After`]
//! (state). Only the state may be divided among lanes, by [`Shard`]. Results never depend on which
//! lane holds a shard.

use core::any::Any;
use core::time::Duration;
use std::net::IpAddr;
use std::path::PathBuf;

use warpline_packet::{Access, Batch, Instant, ReadWrite, ScratchWord, Shard, StateKey};

use crate::{About, Emit, HopPorts, Kernels, Outputs, PeakHistory, Report, Sampler, TableSize};

/// A network function, built once from its configuration.
pub trait Function: Any + Send + Sync {
    /// The fields it reads and writes, phase by phase.
    fn access(&self) -> &Access;

    /// Its name in failed checks of its access.
    fn type_name(&self) -> &'static str {
        core::any::type_name::<Self>()
    }

    /// The work on every packet that is still `Forward`. Pure: it depends on the function's tables
    /// and the batch alone, so it can be repeated, or done on a device.
    fn run(&self, batch: &mut Batch);

    /// The same work as kernels for a device, if there is such a form of it.
    fn kernels(&self) -> Option<Kernels> {
        None
    }

    /// The fields that kernels touch, in packets that they don't leave to the CPU. They are among
    /// those that `run` declares, and few, since all of them cross. A payload that only `run`
    /// writes it writes in few packets, through [`warpline_packet::PacketMut::payload_mut`].
    fn kernel_access(&self) -> ReadWrite {
        self.access().run
    }

    /// The key by which its state may be divided.
    fn state_key(&self) -> StateKey {
        StateKey::None
    }

    /// Its state for one shard. Built before any packet flows; all memory it will use is taken
    /// here.
    fn state(&self, shard: Shard) -> State {
        let _ = shard;
        State::NONE
    }

    /// The scratch words of its change to a packet, if an answer to the packet must undo the
    /// change. The first of them is 0 in other packets. Both places of an instance give the same
    /// words.
    fn change_words(&self) -> &[ScratchWord] {
        &[]
    }

    /// Whether it decides about all fragments of a packet by the first: then ingress gives it that
    /// one before the others.
    fn follows_first_fragment(&self) -> bool {
        false
    }

    /// The scratch words that its second place reads. Packets that are made between its places take
    /// them from their cause.
    fn carried_words(&self) -> &[ScratchWord] {
        self.change_words()
    }

    /// How it treats addresses and conversations, from which follows where it may stand.
    fn traits(&self) -> Traits {
        Traits::NONE
    }

    /// Bytes by which it may grow a frame.
    fn growth(&self) -> Growth {
        Growth::NONE
    }

    /// Bytes by which it makes most frames of `frame_len` bytes longer at their head and tail, as
    /// plans expect it; shorter where they are below 0.
    fn lengthens(&self, frame_len: usize) -> [i32; 2] {
        let _ = frame_len;
        [0; 2]
    }

    /// The packets, frames and notes that it may make.
    fn emits(&self) -> Emits {
        Emits::NONE
    }

    /// A description of its configuration, before a packet flows.
    fn about(&self) -> About {
        About::default()
    }

    /// The tables of its state that fill up with traffic, and how much each holds.
    fn tables(&self) -> Vec<TableSize> {
        Vec::new()
    }

    /// The report that takes its notes. It is opened when a run starts, with the files and sockets
    /// that it writes to. Functions share `outputs`. The error names what could not be opened.
    fn report(&self, outputs: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        let _ = outputs;
        Ok(None)
    }

    /// Looks at the first frames of the input, before the function gets any.
    fn sampler(&self) -> Option<Box<dyn Sampler>> {
        None
    }

    /// Whether its report writes to [`Outputs::alerts`].
    fn alerts(&self) -> bool {
        false
    }

    /// The files that [`Function::report`] will create, so that none of them is written over an
    /// input.
    fn writes(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The files that go on from run to run: [`Function::report`] reads them, or makes them where
    /// there are none, and they are written while packets flow. None of them is anything else, and
    /// none is emptied.
    fn keeps(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The port of each next hop that it sets, in a chain with ports.
    fn hop_ports(&self) -> Option<HopPorts> {
        None
    }

    /// The function as it is now, if it follows something outside the chain, such as the kernel's
    /// routes, and that has changed. Called now and then while packets flow; the result replaces
    /// the function like a reload. `report` gets failures.
    fn renewed(&self, report: &mut dyn FnMut(String)) -> Option<Box<dyn Function>> {
        let _ = report;
        None
    }

    /// The function with `hops` in place of the next hops that it was built with, if it uses those.
    fn with_hop_ports(&self, hops: &HopPorts) -> Option<Box<dyn Function>> {
        let _ = hops;
        None
    }

    /// Addresses whose packets are for this function, even if they are this machine's: first and
    /// last of each range.
    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        Vec::new()
    }

    /// Whether it can take the place of `old`, a function of its own kind, while packets flow, and
    /// if not, why. Where it can, each half of the old one's state gets the new function
    /// ([`StateHalf::reload`]).
    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        let _ = old;
        Err("it can't be changed while packets flow".into())
    }

    /// Called once all lanes have it in place of another one. Nothing works with the old state any
    /// more, so the function may free what it kept of that.
    fn reloaded(&self) {}

    /// How often its state needs the time ([`StateHalf::handle_timeout`]), in packet time; `None`
    /// for never.
    fn tick(&self) -> Option<Duration> {
        None
    }
}

/// How a function treats addresses and conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It gives packets of one direction other destinations, and those of the other direction other
    /// sources.
    pub translates: bool,
    /// It keeps state of conversations and drops packets that belong to none, so it must see both
    /// directions under the same addresses.
    pub tracks: bool,
    /// It chooses the way of packets by their destination.
    pub routes: bool,
    /// It looks into payloads.
    pub inspects: bool,
    /// It deciphers packets.
    pub deciphers: bool,
    /// It puts outer IP headers before packets.
    pub wraps: bool,
}

impl Traits {
    /// None of all that.
    pub const NONE: Self = Self {
        translates: false,
        tracks: false,
        routes: false,
        inspects: false,
        deciphers: false,
        wraps: false,
    };
}

/// Bytes by which a frame may grow where it lies. Every packet's room is larger by them; what only
/// few need is asked for by [`Emit::replace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// At the front.
    pub head: usize,
    /// At the back.
    pub tail: usize,
}

impl Growth {
    /// It never grows.
    pub const NONE: Self = Self { head: 0, tail: 0 };
}

/// The most that a function may make. A function that makes packets only at ticks declares one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emits {
    /// Packets for each packet that it gets, in `before` and `after` together.
    pub per_packet: usize,
    /// How many of these may go on to the next function ([`Emit::forward`]); the others are sent
    /// past the rest.
    pub forward_per_packet: usize,
    /// Bytes of the longest frame.
    pub len_max: usize,
    /// Notes for each packet that it gets, in `before` and `after` together.
    pub notes_per_packet: usize,
    /// Bytes of the longest note; at most [`warpline_packet::NOTE_LEN_MAX`].
    pub note_len_max: usize,
    /// Numbers that `run` may leave for `after` ([`warpline_packet::Findings`]), for each packet of
    /// a batch on average; each list takes one more.
    pub findings_per_packet: usize,
    /// Bytes of the longest frame that a packet may be given by [`Emit::replace`], in `before` and
    /// once; 0: none is.
    pub replace_len_max: usize,
}

impl Emits {
    /// It makes none.
    pub const NONE: Self = Self {
        per_packet: 0,
        forward_per_packet: 0,
        len_max: 0,
        notes_per_packet: 0,
        note_len_max: 0,
        findings_per_packet: 0,
        replace_len_max: 0,
    };

    /// `per_packet` packets of at most `len_max` bytes for each packet, all of which may go on, and
    /// no notes.
    pub const fn packets(per_packet: usize, len_max: usize) -> Self {
        Self { per_packet, forward_per_packet: per_packet, len_max, ..Self::NONE }
    }

    /// `per_packet` packets of at most `len_max` bytes for each packet, all of them sent past the
    /// functions that remain, and no notes.
    pub const fn answers(per_packet: usize, len_max: usize) -> Self {
        Self { per_packet, len_max, ..Self::NONE }
    }

    /// `notes_per_packet` notes of at most `note_len_max` bytes for each packet, and no packets.
    pub const fn notes(notes_per_packet: usize, note_len_max: usize) -> Self {
        Self { notes_per_packet, note_len_max, ..Self::NONE }
    }
}

/// A function's state for one shard, in two halves: several batches may lie between them, so
/// `after` never writes what `before` reads.
#[derive(Default)]
pub struct State {
    /// The half that works before `run`, where there is one.
    pub before: Option<Box<dyn Before>>,
    /// The half that works after it, where there is one.
    pub after: Option<Box<dyn After>>,
}

impl State {
    /// No state.
    pub const NONE: Self = Self { before: None, after: None };

    /// State that works before `run` only.
    pub fn before(half: impl Before + 'static) -> Self {
        Self { before: Some(Box::new(half)), after: None }
    }

    /// State that works after `run` only.
    pub fn after(half: impl After + 'static) -> Self {
        Self { before: None, after: Some(Box::new(half)) }
    }
}

/// The half of a shard's state that works before `run`.
pub trait Before: StateHalf {
    /// Asks for memory to which that of [`StateHalf::fetch`] leads, which is there by now: all
    /// shards are asked once more.
    fn fetch_next(&self, batch: &Batch, picks: &[u16]) {
        let _ = (batch, picks);
    }

    /// The work on the packets of this shard: `picks` are their places in the batch, in ingress
    /// order, all of them `Forward` when the function's turn began.
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>);
}

/// The half of a shard's state that works after `run`.
pub trait After: StateHalf {
    /// The work on the packets of this shard: `picks` are those that were `Forward` when the
    /// function's turn began, those that `run` dropped among them; ask each for its verdict.
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>);
}

/// The calls that either half of a shard's state gets beside its work on packets.
pub trait StateHalf: Send {
    /// Asks for the memory that the half's work will read for these packets, where its table is
    /// larger than the caches: all shards are asked before the first works, so that their misses
    /// overlap.
    fn fetch(&self, batch: &Batch, picks: &[u16]) {
        let _ = (batch, picks);
    }

    /// Reclaims what expired by `now`; called at every tick of the function, at the same place of
    /// the input whatever the number of lanes. Look-ups judge expiry themselves.
    fn handle_timeout(&mut self, now: Instant, emit: &mut Emit<'_>) {
        let _ = (now, emit);
    }

    /// The input ended: makes what is still to be made.
    fn finish(&mut self, emit: &mut Emit<'_>) {
        let _ = emit;
    }

    /// `function`, whose [`Function::succeeds`] agreed, took the place of the one that this state
    /// was made by. Called between batches, at the same place of the input on every lane; it
    /// neither allocates nor frees more than a handle.
    fn reload(&mut self, function: &dyn Function) {
        let _ = function;
    }

    /// The run is over, for every shard: gives the notes that are still to be given, as many as
    /// there are, straight to the function's report. Called shard by shard, first for the half
    /// before `run`.
    fn close(&mut self, report: &mut dyn Report) {
        let _ = report;
    }

    /// Its counters, by name; the engine sums them over the shards. [`crate::Definition::counters`]
    /// declares all of them.
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let _ = visit;
    }

    /// Its counters that are peaks, by name: the history up to the last tick, and the highest value
    /// since. The engine sums them over the shards with [`crate::PeakSum`].
    fn peaks(&self, visit: &mut dyn FnMut(&'static str, &PeakHistory, u64)) {
        let _ = visit;
    }
}
