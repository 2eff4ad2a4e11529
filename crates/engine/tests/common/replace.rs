//! A function that gives every packet a longer frame in another place, as one does that puts
//! fragments together.

use warpline_nf::{Before, Emit, Emits, Function, State, StateHalf};
use warpline_packet::{Access, Batch, FieldSet, ReadWrite, Shard};

/// Bytes of the replacement of every frame that is not longer; many slabs' worth in a few batches.
pub(crate) const LEN: usize = 3000;

/// Fills frames up to [`LEN`] bytes.
pub(crate) struct Replace {
    access: Access,
}

impl Replace {
    pub(crate) fn new() -> Self {
        let all = ReadWrite::new(FieldSet::ALL, FieldSet::EMPTY);
        Self { access: Access { before: all, ..Access::run_only(ReadWrite::NONE) } }
    }
}

impl Function for Replace {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, _: &mut Batch) {}

    fn state(&self, _: Shard) -> State {
        State::before(Filler { bytes: [0; LEN], replaced: 0, refused: 0 })
    }

    fn emits(&self) -> Emits {
        Emits { replace_len_max: LEN, ..Emits::NONE }
    }
}

struct Filler {
    bytes: [u8; LEN],
    replaced: u64,
    refused: u64,
}

impl Before for Filler {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            let index = usize::from(index);
            let Some((own, filler)) = self.bytes.split_at_mut_checked(batch.packet(index).len())
            else {
                continue;
            };
            own.copy_from_slice(batch.packet(index).frame());
            filler.fill(0x77);
            let is_placed = emit.replace(batch, index, &self.bytes);
            self.replaced += u64::from(is_placed);
            self.refused += u64::from(!is_placed);
        }
    }
}

impl StateHalf for Filler {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("replaced", self.replaced);
        visit("refused", self.refused);
    }
}
