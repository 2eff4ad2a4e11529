//! The rates of chains.

use std::collections::VecDeque;

use super::{HeldSource, RATE_MOVED};
use crate::placement::ChainDemand;

/// The state of a chain during a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It had input and room all the time.
    Running,
    /// It was paused, so more may have been waiting.
    Paused,
    /// It waited for input.
    Starved,
}

/// A chain during a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainObserved {
    /// Packets that arrived a second.
    pub packets_per_s: f64,
    /// Its state.
    pub observed: Observed,
    /// Whether the chain had no room for packets of its source.
    pub held: Option<HeldSource>,
}

impl ChainObserved {
    /// So many packets a second, and no pause.
    pub fn of(packets_per_s: f64, observed: Observed) -> Self {
        Self { packets_per_s, observed, held: None }
    }

    /// Packets a second that would have arrived if there were room.
    fn wanted_per_s(&self) -> f64 {
        self.held.map_or(self.packets_per_s, |held| held.wanted_per_s().max(self.packets_per_s))
    }
}

#[derive(Debug)]
pub(super) struct Demand {
    chains: Vec<ChainDemand>,
    /// Rates by tick, then by chain.
    recent: VecDeque<Vec<f64>>,
    window: usize,
}

impl Demand {
    pub(super) fn new(chains: Vec<ChainDemand>, window: usize) -> Self {
        let recent = VecDeque::from([chains.iter().map(|one| one.packets_per_s).collect()]);
        Self { chains, recent, window }
    }

    /// The same chains, described anew. Their rates stay.
    pub(super) fn replace(&mut self, chains: Vec<ChainDemand>) {
        self.chains = chains;
    }

    pub(super) fn chains(&self) -> &[ChainDemand] {
        &self.chains
    }

    /// The mean length of a chain's frames. Returns whether it moved by a twentieth.
    pub(super) fn observe_len(&mut self, chain: usize, bytes: u32) -> bool {
        let Some(own) = self.chains.get_mut(chain).map(|chain| &mut chain.packet_len) else {
            return false;
        };
        let has_moved = f64::from(bytes.abs_diff(*own)) > RATE_MOVED * f64::from(*own);
        if has_moved {
            *own = bytes;
        }
        has_moved
    }

    /// A paused chain needs at least as much as before. A missing one keeps its rate.
    pub(super) fn observe(&mut self, chains: &[ChainObserved]) {
        let mut rates = self.latest();
        for (rate, chain) in rates.iter_mut().zip(chains) {
            let wanted = chain.wanted_per_s();
            let is_sound = wanted.is_finite() && wanted >= 0.0;
            if is_sound && (chain.observed != Observed::Paused || wanted > *rate) {
                *rate = wanted;
            }
        }
        if self.recent.len() >= self.window {
            self.recent.pop_front();
        }
        self.recent.push_back(rates);
    }

    pub(super) fn latest(&self) -> Vec<f64> {
        self.recent.back().cloned().unwrap_or_default()
    }

    /// The highest rate of each chain in the window.
    pub(super) fn peak(&self) -> Vec<f64> {
        let mut peak = self.latest();
        for rates in &self.recent {
            for (peak, &rate) in peak.iter_mut().zip(rates) {
                *peak = peak.max(rate);
            }
        }
        peak
    }

    /// The chains at `rates`, each times `factor`. A chain without packets counts as one packet a
    /// second, so its functions have a place.
    pub(super) fn at(&self, rates: &[f64], factor: f64) -> Vec<ChainDemand> {
        let with = |(chain, &rate): (&ChainDemand, &f64)| ChainDemand {
            packets_per_s: (rate * factor).max(1.0),
            ..chain.clone()
        };
        self.chains.iter().zip(rates).map(with).collect()
    }
}
