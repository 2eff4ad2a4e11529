//! The batch: up to 1024 packets that travel together, with everything known about them in columns.
//!
//! A batch is moved from stage to stage and never shared. Its packets are reached through
//! [`Batch::packet`] and [`Batch::packet_mut`]. Dropped packets stay in place and are skipped.
//! Packets are in ingress order, and made packets come right after their cause.

mod answers;
mod arrival;
mod join;
mod kind;
mod phase_checks;
mod tally;

use core::iter;

pub use arrival::Arrival;
pub use kind::BatchKind;
pub use tally::Tally;

use crate::arena::{
    DroppedBy, Flagged, HeadersOf, Ingress, Link, Row, ShardOf, VerdictOf, WireLen, prefetch,
};
use crate::{
    FieldSet, Findings, Flags, Full, Headers, LinkType, Notes, Packet, PacketMut, Placer,
    ScratchWord, Table, Verdict,
};

/// Packets a batch of a chain may be asked to hold.
pub const BATCH_MAX: usize = 1024;
/// Packets of a batch unless the chain says otherwise.
pub const BATCH_DEFAULT: usize = 256;

/// Packets that travel together.
#[derive(Debug)]
pub struct Batch {
    pub(crate) table: Table,
    kind: BatchKind,
    /// The number in the input of a tick or of the end.
    ingress: u64,
    /// When it was opened, in nanoseconds of a clock that the engine chose.
    opened: u64,
    /// Whose verdicts are being written: the function's position in the chain.
    pub(crate) function: u8,
    /// How many packets were dropped, absorbed, rejected or returned since [`Batch::take_settled`].
    pub(crate) settled: u32,
    /// Whether a packet was flagged since a function's turn began.
    pub(crate) has_flagged: bool,
    /// Whether a packet was sent back since the batch was cleared.
    pub(crate) has_answers: bool,
    /// Whether a packet was routed past a function since the batch was cleared.
    pub(crate) has_bypass: bool,
    /// The scratch word with the ways of its packets, if the chain has routes.
    pub(crate) way: Option<ScratchWord>,
    notes: Notes,
    findings: Findings,
    #[cfg(debug_assertions)]
    phase: Option<crate::Allowed>,
}

impl Batch {
    /// An empty batch over a table of an arena.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            kind: BatchKind::Packets,
            ingress: 0,
            opened: 0,
            function: 0,
            settled: 0,
            has_flagged: false,
            has_answers: false,
            has_bypass: false,
            way: None,
            notes: Notes::default(),
            findings: Findings::default(),
            #[cfg(debug_assertions)]
            phase: None,
        }
    }

    /// Gives it room for `notes` notes of `bytes` bytes together; it has none otherwise.
    pub fn take_notes(&mut self, notes: usize, bytes: usize) {
        self.notes = Notes::with_capacity(notes, bytes);
    }

    /// Gives it room for as many findings of a function's pure work; it has none otherwise.
    pub fn take_findings_room(&mut self, numbers: usize) {
        self.findings = Findings::with_capacity(numbers);
    }

    /// The findings of the current function.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Takes them out, to write while packets are read; [`Batch::set_findings`] gives them back.
    pub fn take_findings(&mut self) -> Findings {
        core::mem::take(&mut self.findings)
    }

    /// See [`Batch::take_findings`].
    pub fn set_findings(&mut self, findings: Findings) {
        self.findings = findings;
    }

    /// Notes of functions about its packets.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The same, to write.
    pub fn notes_mut(&mut self) -> &mut Notes {
        &mut self.notes
    }

    /// How many packets it holds, whatever their verdict.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many it has room for.
    pub fn slots(&self) -> usize {
        self.table.slots()
    }

    /// Whether it carries packets, and fewer than `packets` so far.
    #[inline(always)]
    pub fn takes_packets(&self, packets: usize) -> bool {
        self.kind == BatchKind::Packets && self.len() < packets
    }

    /// Its content.
    pub fn kind(&self) -> BatchKind {
        self.kind
    }

    /// The number in the input of a tick or of the end; of the last packet otherwise.
    pub fn last_ingress(&self) -> u64 {
        match self.kind {
            BatchKind::Packets => {
                self.table.column(Ingress).last().copied().unwrap_or(self.ingress)
            }
            BatchKind::Tick { .. } | BatchKind::Reload | BatchKind::Finish => self.ingress,
        }
    }

    /// Makes it a tick or the end of the input, with its number.
    pub fn mark(&mut self, kind: BatchKind, ingress: u64) {
        self.kind = kind;
        self.ingress = ingress;
    }

    /// When it was opened, on the engine's clock, in nanoseconds.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Notes when it was opened.
    pub fn set_opened(&mut self, nanos: u64) {
        self.opened = nanos;
    }

    /// Places a frame after the others; `headers` are those of `bytes`. Returns its index.
    #[inline(always)]
    pub fn push(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        arrival: &Arrival,
        placer: &mut Placer,
    ) -> Result<usize, Full> {
        self.place(iter::once((bytes, headers, *arrival)), placer)?;
        self.compare();
        Ok(self.len() - 1)
    }

    /// Like [`Batch::push`], for several consecutive frames. Places as many as fit at once, at
    /// least one if there is any, and returns their number.
    #[inline(always)]
    pub fn place<'a>(
        &mut self,
        frames: impl Iterator<Item = (&'a [u8], &'a Headers, Arrival)> + Clone,
        placer: &mut Placer,
    ) -> Result<usize, Full> {
        let row = |(bytes, headers, arrival)| (bytes, Row { headers, arrival });
        placer.place(&mut self.table, frames.map(row))
    }

    /// Finds out whether all packets are alike, so that functions may process many of them at once.
    /// Call it when all were placed.
    pub fn compare(&mut self) {
        self.table.compare();
    }

    /// Gives packet `index` the frame `bytes` in a new room, with the chain's head- and tailroom.
    /// Finds its headers; all other columns stay. Returns whether there was room; otherwise nothing
    /// changed.
    ///
    /// No mirror has the new frame: the row's room crosses whole at the next launch. So a phase
    /// that replaces frames doesn't declare their fields as written, and no plan pays for it.
    #[must_use]
    pub fn replace(&mut self, index: usize, bytes: &[u8], placer: &mut Placer) -> bool {
        // Bytes that the capture cut off stay cut off.
        let cut =
            self.table.column(WireLen)[index].saturating_sub(self.table.frame_len(index) as u32);
        let fits = placer.replace(&mut self.table, index, bytes).is_ok();
        if fits {
            self.table.column_mut(WireLen)[index] = bytes.len() as u32 + cut;
            self.find_headers(index);
        }
        fits
    }

    /// Finds the headers of packet `index` in its frame.
    pub(crate) fn find_headers(&mut self, index: usize) {
        let link = LinkType(self.table.column(Link)[index]);
        let wire_len = self.table.column(WireLen)[index] as usize;
        self.table.set_unalike();
        let mut rows = self.table.frames_mut(index..index + 1, HeadersOf);
        let Some((frame, headers)) = rows.next() else { return };
        let kept = headers.flags.0 & Flags::KEPT;
        // In place, as ingress does.
        *headers = Headers::default();
        headers.find(frame, link, wire_len);
        headers.flags.set(kept);
    }

    #[inline(always)]
    pub(crate) fn set_headers(&mut self, row: usize, headers: &Headers) {
        self.table.set_unalike();
        self.table.column_mut(HeadersOf)[row] = *headers;
    }

    /// Packet `index`; panics where there is none.
    #[inline(always)]
    pub fn packet(&self, index: usize) -> Packet<'_> {
        assert!(index < self.len());
        Packet::new(self, index)
    }

    /// Packet `index`, to change; panics where there is none.
    #[inline(always)]
    pub fn packet_mut(&mut self, index: usize) -> PacketMut<'_> {
        assert!(index < self.len());
        PacketMut::new(self, index)
    }

    /// Whether packet `index` still goes to the next function.
    #[inline(always)]
    pub fn is_forward(&self, index: usize) -> bool {
        self.table.column(VerdictOf)[index] == Verdict::Forward as u8
    }

    /// How many packets still go to the next function.
    pub fn forward_count(&self) -> usize {
        self.table.column(VerdictOf).iter().filter(|&&v| v == Verdict::Forward as u8).count()
    }

    /// Bytes of all its frames, whatever their verdict.
    pub fn frame_bytes(&self) -> usize {
        self.table.frame_lens().iter().map(|&len| len as usize).sum()
    }

    /// Every packet that still goes to the next function.
    #[inline(always)]
    pub fn forward(&self) -> impl Iterator<Item = Packet<'_>> {
        (0..self.len()).filter(|&i| self.is_forward(i)).map(|i| Packet::new(self, i))
    }

    /// Prefetches the first reads of a function for every packet that continues: its header column
    /// and its frame's first cache line, in memory order. Waits for none.
    pub fn fetch_frames(&self) {
        for index in (0..self.len()).filter(|&index| self.is_forward(index)) {
            prefetch(self.headers(index));
            self.table.frame(index).first().into_iter().for_each(prefetch);
        }
    }

    /// Does `work` on every packet that still goes to the next function.
    #[inline(always)]
    pub fn for_each_forward(&mut self, mut work: impl FnMut(&mut PacketMut<'_>)) {
        for index in 0..self.len() {
            if self.is_forward(index) {
                work(&mut PacketMut::new(self, index));
            }
        }
    }

    /// A scratch word of every packet; of none where the chain handed out fewer.
    #[inline(always)]
    pub fn scratch(&self, word: ScratchWord) -> &[u32] {
        self.check_read(word.field());
        self.table.scratch(word.0.into())
    }

    /// The same, to write.
    #[inline(always)]
    pub fn scratch_mut(&mut self, word: ScratchWord) -> &mut [u32] {
        self.check_write(word.field());
        self.table.scratch_mut(word.0.into())
    }

    /// The frames of packets `picks`, in ascending order, for writing all at once: for work that
    /// proceeds in several packets together. It ends before a pick that is no packet or is not
    /// larger than the one before.
    pub fn frames_mut(
        &mut self,
        picks: impl Iterator<Item = usize> + Clone,
    ) -> impl Iterator<Item = &mut [u8]> {
        if cfg!(debug_assertions) {
            let fields = |pick| FieldSet::FRAME.iter().map(move |field| (pick, field));
            let all = picks.clone().filter(|&pick| pick < self.len()).flat_map(fields);
            all.for_each(|(pick, field)| self.check_write_of(pick, field));
        }
        self.table.frames_at_mut(picks)
    }

    /// The indices of packets that still go to the next function, by shard: `order` gets them
    /// grouped, `ends[s]` where shard `s` ends. Within a shard they are in ingress order.
    pub fn group_by_shard(&self, order: &mut Vec<u16>, ends: &mut [u16; crate::SHARDS]) {
        let (shards, verdicts) = (self.table.column(ShardOf), self.table.column(VerdictOf));
        let mut next = [0u16; crate::SHARDS + 1];
        for (shard, verdict) in shards.iter().zip(verdicts) {
            next[usize::from(*shard) % crate::SHARDS + 1] += u16::from(*verdict == 0);
        }
        for shard in 1..next.len() {
            next[shard] += next[shard - 1];
        }
        order.clear();
        order.resize(usize::from(next[crate::SHARDS]), 0);
        for (index, (shard, verdict)) in shards.iter().zip(verdicts).enumerate() {
            if *verdict == 0 {
                let at = &mut next[usize::from(*shard) % crate::SHARDS];
                order[usize::from(*at)] = index as u16;
                *at += 1;
            }
        }
        ends.copy_from_slice(&next[..crate::SHARDS]);
    }

    /// Drops the packets that still go to the next function: function `next` has no room for them.
    /// Returns how many.
    pub fn overload(&mut self, next: u8) -> u64 {
        let mut dropped = 0;
        for index in 0..self.len() {
            if self.is_forward(index) {
                self.table.column_mut(VerdictOf)[index] = Verdict::Overload as u8;
                self.table.column_mut(DroppedBy)[index] = next;
                dropped += 1;
            }
        }
        dropped
    }

    /// Forgets its packets and gives their memory back.
    pub fn clear(&mut self) {
        self.table.clear();
        self.kind = BatchKind::Packets;
        self.ingress = 0;
        self.opened = 0;
        self.settled = 0;
        self.has_flagged = false;
        self.has_answers = false;
        self.has_bypass = false;
        self.notes.clear();
        self.leave_phase();
    }

    /// Begins the turn of a function, by its position in the chain: verdicts are its own, flags of
    /// the previous function are cleared, and packets routed to it are `Forward`.
    pub fn enter(&mut self, function: u8) {
        self.function = function;
        self.findings.clear();
        if core::mem::take(&mut self.has_flagged) {
            self.table.column_mut(Flagged).fill(0);
        }
        if self.has_bypass {
            self.resume_routed(Verdict::Bypass);
        }
    }

    /// The function whose turn it is, by its position in the chain.
    pub fn function(&self) -> u8 {
        self.function
    }

    /// How many packets left the way since this was last asked.
    pub fn take_settled(&mut self) -> u32 {
        core::mem::take(&mut self.settled)
    }

    /// The parsed headers of packet `index`.
    #[inline(always)]
    pub(crate) fn headers(&self, index: usize) -> &Headers {
        &self.table.column(HeadersOf)[index]
    }

    /// The flags of packet `index`.
    #[inline(always)]
    pub(crate) fn flags(&self, index: usize) -> Flags {
        self.headers(index).flags
    }
}
