//! The three scratch words by which the phases pass data about a packet.

use core::ops::Deref;

use warpline_packet::{Batch, FieldSet, PacketMut, PacketView, ScratchWord};

use super::strip::StripOutcome;
use warpline_nf::{Resources, Section};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// The SA's row in the lower half, then the [`Work`], then the [`StripOutcome`].
    what: ScratchWord,
    /// The sequence number's halves.
    low: ScratchWord,
    high: ScratchWord,
}

/// Packets whose words are read, or written, together.
pub(super) const TOGETHER: usize = 32;

/// The work of `run` on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Work {
    /// Nothing.
    None = 0,
    /// To seal it.
    Seal = 1,
    /// To open it.
    Open = 2,
    /// Nothing more: it was opened at the first place.
    Opened = 3,
}

impl Work {
    /// As it lies in its word.
    #[inline(always)]
    fn of(word: u32) -> Self {
        match (word >> 16) as u8 {
            1 => Self::Seal,
            2 => Self::Open,
            3 => Self::Opened,
            _ => Self::None,
        }
    }
}

/// One packet's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) row: u16,
    /// Sealing: the number. Opening: what it is taken for.
    pub(super) sequence: u64,
    /// The outcome of opening. To seal: [`StripOutcome::Plain`] if the first place opened it.
    pub(super) outcome: StripOutcome,
}

impl Task {
    /// Nothing to do.
    pub(super) const NONE: Self =
        Self { work: Work::None, row: 0, sequence: 0, outcome: StripOutcome::Closed };
    /// The packet leaves the second place as the first opened it.
    pub(super) const OPENED: Self = Self { work: Work::Opened, ..Self::NONE };

    /// The content of three words.
    #[inline(always)]
    fn of(what: u32, low: u32, high: u32) -> Self {
        Self {
            work: Work::of(what),
            row: what as u16,
            sequence: u64::from(high) << 32 | u64::from(low),
            outcome: StripOutcome::of((what >> 24) as u8),
        }
    }
}

impl Words {
    pub(super) fn from(resources: &mut Resources, section: &mut Section<'_>) -> Option<Self> {
        let Some([what, low, high]) = resources.scratch() else {
            section.mistake("sas", "the chain has no three scratch words left for it");
            return None;
        };
        Some(Self { what, low, high })
    }

    pub(super) fn fields(&self) -> FieldSet {
        FieldSet::of(&self.all().map(ScratchWord::field))
    }

    /// The word that is not 0 in packets that were opened or sealed.
    pub(super) fn change(&self) -> ScratchWord {
        self.what
    }

    /// The one of them that `run` writes.
    pub(super) fn outcome(&self) -> FieldSet {
        FieldSet::of(&[self.what.field()])
    }

    /// The word of the task, and those of the number's halves.
    pub(super) fn all(&self) -> [ScratchWord; 3] {
        [self.what, self.low, self.high]
    }

    /// Writes the words of packets `picks`, word by word, as they lie.
    #[inline(always)]
    pub(super) fn put_all(&self, batch: &mut Batch, picks: &[u16], tasks: &[Task]) {
        let mut put = |word, value: fn(&Task) -> u32| {
            let words = batch.scratch_mut(word);
            for (&index, task) in picks.iter().zip(tasks) {
                if let Some(word) = words.get_mut(usize::from(index)) {
                    *word = value(task);
                }
            }
        };
        put(self.what, |task| {
            u32::from(task.row) | (task.work as u32) << 16 | (task.outcome as u32) << 24
        });
        put(self.low, |task| task.sequence as u32);
        put(self.high, |task| (task.sequence >> 32) as u32);
    }

    /// The task, and the SA's row.
    #[inline(always)]
    pub(super) fn what<B: Deref<Target = Batch>>(&self, packet: &PacketView<B>) -> (Work, u16) {
        let what = packet.scratch(self.what);
        (Work::of(what), what as u16)
    }

    #[inline(always)]
    pub(super) fn get<B: Deref<Target = Batch>>(&self, packet: &PacketView<B>) -> Task {
        let what = packet.scratch(self.what);
        let (low, high) = (packet.scratch(self.low), packet.scratch(self.high));
        Task::of(what, low, high)
    }

    /// Reads the words of the packets from `first` on, as many as `tasks` holds.
    #[inline(always)]
    pub(super) fn get_all(&self, batch: &Batch, first: usize, tasks: &mut [Task]) {
        let of = |word| batch.scratch(word).get(first..).unwrap_or(&[]);
        let words = of(self.what).iter().zip(of(self.low)).zip(of(self.high));
        for (task, ((&what, &low), &high)) in tasks.iter_mut().zip(words) {
            *task = Task::of(what, low, high);
        }
    }

    #[inline(always)]
    pub(super) fn set_outcome(&self, packet: &mut PacketMut<'_>, outcome: StripOutcome) {
        let what = packet.scratch(self.what) & 0x00ff_ffff;
        packet.set_scratch(self.what, what | (outcome as u32) << 24);
    }
}
