//! Reload: a new set of SAs replaces another while packets flow. An SA in both sets keeps its
//! state. Old and new SAs of a tunnel coexist as long as the files have both.
//!
//! The thread that builds the new function makes the state of new SAs, so lanes hand over without
//! making or freeing any.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use warpline_packet::{SHARDS, Shard};

use super::opener::InState;
use super::sa::{Direction, Sa};
use super::sealer::OutState;
use super::tables::Tables;

/// State of an SA of one direction.
pub(super) trait SaState: Sized {
    const DIRECTION: Direction;
    /// Where state for new SAs waits.
    fn fresh(successor: &Successor) -> &Fresh<Self>;
}

impl SaState for OutState {
    const DIRECTION: Direction = Direction::Out;
    fn fresh(successor: &Successor) -> &Fresh<Self> {
        &successor.out
    }
}

impl SaState for InState {
    const DIRECTION: Direction = Direction::In;
    fn fresh(successor: &Successor) -> &Fresh<Self> {
        &successor.inward
    }
}

/// By shard, or for the whole, the state of its SAs: before a reload that of the new set,
/// afterwards the rest of the old one.
pub(super) struct Fresh<T>(OnceLock<Vec<Mutex<Handover<T>>>>);

struct Handover<T> {
    states: Box<[T]>,
    /// Whether these are the old ones.
    is_over: bool,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Fresh<T> {
    /// Makes the state; does nothing a second time.
    pub(super) fn make(&self, whole: bool, state: impl Fn(Shard) -> Box<[T]>) {
        let state = |shard| Mutex::new(Handover { states: state(shard), is_over: false });
        self.0.get_or_init(|| match whole {
            true => vec![state(Shard::WHOLE)],
            false => (0..SHARDS).map(Shard::new).map(state).collect(),
        });
    }

    /// Frees the rest of the old state, and with it the right to its keys' numbers.
    pub(super) fn free_old(&self) {
        for handover in self.0.get().into_iter().flatten() {
            let mut handover = handover.lock().unwrap_or_else(PoisonError::into_inner);
            if handover.is_over {
                handover.states = Box::default();
            }
        }
    }
}

/// Which SAs go on.
struct Pairs {
    /// By row, the row of the same SA in the old tables.
    old_rows: Vec<Option<u32>>,
    /// By row of the old tables.
    goes_on: Vec<bool>,
}

/// The prepared data of a new set for the state of the one before it.
#[derive(Default)]
pub(super) struct Successor {
    pairs: OnceLock<Pairs>,
    pub(super) out: Fresh<OutState>,
    pub(super) inward: Fresh<InState>,
}

impl Successor {
    /// Finds the SAs of `new` that are in `old`, too, and gives the rows of those.
    pub(super) fn pair(&self, new: &Tables, old: &Tables) -> &[Option<u32>] {
        let pairs = self.pairs.get_or_init(|| {
            let id = |sa: &Sa| (sa.direction, sa.spi, sa.src, sa.dst);
            let rows: HashMap<_, u32> = old.sas.iter().map(id).zip(0..).collect();
            let same = |sa: &Sa| {
                let row = *rows.get(&id(sa))?;
                is_same(sa, &old.sas[row as usize]).then_some(row)
            };
            let old_rows: Vec<_> = new.sas.iter().map(same).collect();
            let mut goes_on = vec![false; old.sas.len()];
            old_rows.iter().flatten().for_each(|&row| goes_on[row as usize] = true);
            Pairs { old_rows, goes_on }
        });
        &pairs.old_rows
    }

    /// Replaces `states` by the state of one shard of `new`, with the SAs that continue, and calls
    /// `retire` for the others.
    pub(super) fn take_over<T: SaState>(
        &self,
        new: &Tables,
        old: &Tables,
        shard: Shard,
        states: &mut Box<[T]>,
        mut retire: impl FnMut(&T),
    ) {
        let (Some(pairs), Some(fresh)) = (self.pairs.get(), T::fresh(self).0.get()) else {
            return;
        };
        let Some(fresh) = fresh.get(shard.index()) else { return };
        let mut handover = fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let Handover { states: fresh, is_over } = &mut *handover;
        for (row, state) in new.rows(shard, T::DIRECTION).zip(fresh.iter_mut()) {
            let old_row = pairs.old_rows[row];
            if let Some(slot) = old_row.and_then(|row| old.slot(row as u16, shard)) {
                core::mem::swap(state, &mut states[slot]);
            }
        }
        core::mem::swap(states, fresh);
        *is_over = true;
        let left = old.rows(shard, T::DIRECTION).zip(fresh.iter());
        left.filter(|(row, _)| !pairs.goes_on[*row]).for_each(|(_, state)| retire(state));
    }
}

/// An SA of `new` with SPI and keys of one in `old` that it does not continue, by `old_rows`. Its
/// numbers would begin anew, and its window would accept old packets.
pub(super) fn starts_over<'a>(
    new: &'a Tables,
    old: &Tables,
    old_rows: &[Option<u32>],
) -> Option<&'a Sa> {
    fn keys(sa: &Sa) -> (Direction, u32, &[u8], &[u8]) {
        (sa.direction, sa.spi, &sa.enc_key.0, &sa.auth_key.0)
    }
    let used: HashSet<_> = old.sas.iter().map(keys).collect();
    let mut others = new.sas.iter().zip(old_rows).filter(|(_, row)| row.is_none());
    others.find(|(sa, _)| used.contains(&keys(sa))).map(|(sa, _)| sa)
}

/// Whether two SAs are the same: everything that the cipher and the window depend on. Their
/// selectors and lifetimes may differ.
fn is_same(a: &Sa, b: &Sa) -> bool {
    let of = |sa: &Sa| (sa.mode, sa.cipher, sa.auth, sa.esn, sa.replay_window, sa.encap);
    of(a) == of(b) && a.enc_key == b.enc_key && a.auth_key == b.auth_key
}
