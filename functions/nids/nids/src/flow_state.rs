//! The state of each flow besides that of `flows`: variables of rules, rules that wait for more of
//! a stream, and decisions about the flow as a whole.

use super::apps::PackedApps;
use super::detect::FlowVars;
use super::waiting::{Pool, Waiting};
use warpline_streams::flows::Direction;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowState {
    pub(super) vars: FlowVars,
    pub(super) fate: Fate,
    /// Its application protocol.
    pub(super) apps: PackedApps,
    /// By direction.
    pub(super) waiting: [Waiting; 2],
    /// By direction, the rule set that `waiting` is about: the lower half of
    /// [`super::report::Generation::number`].
    pub(super) generations: [u16; 2],
    /// By direction, the rule set whose rules on addresses were asked, in the same way.
    pub(super) asked_once: [u16; 2],
    /// By direction, whether that rule set has none to ask for its ports and addresses alone, as
    /// far as is known.
    pub(super) is_bare: Sides,
}

/// A set of directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides(u8);

impl Sides {
    pub(super) fn has(self, direction: Direction) -> bool {
        self.0 & 1 << direction as u8 != 0
    }

    pub(super) fn insert(&mut self, direction: Direction) {
        self.0 |= 1 << direction as u8;
    }

    pub(super) fn remove(&mut self, direction: Direction) {
        self.0 &= !(1 << direction as u8);
    }
}

impl FlowState {
    /// Whether it has memory that [`FlowState::release`] gives back.
    pub(super) fn has_shared(&self) -> bool {
        self.waiting.iter().any(Waiting::has_shared)
    }

    /// Forgets which rules wait.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        self.waiting.iter_mut().for_each(|waiting| waiting.clear(pool));
    }
}

/// The decision on a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing: its packets are looked into.
    #[default]
    Open,
    /// A rule let it pass: nothing more is asked of it.
    Passed,
    /// A rule dropped it.
    Dropped,
}

/// With what `flows` keeps itself, a flow takes 512 bytes at most, beside its streams.
const _: () = assert!(size_of::<FlowState>() <= 232);
