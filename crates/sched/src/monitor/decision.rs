//! Why the monitor changed the placement.

use super::Monitor;
use crate::placement::{Deciding, Placement, PlacementFigures};

/// Why the placement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There was none.
    Start,
    /// The policy changed.
    Policy,
    /// The profile or the limits changed.
    Profile,
    /// The last one did not carry the load.
    Overload,
    /// This one is better.
    Better,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Start, Self::Policy, Self::Profile, Self::Overload, Self::Better];

    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Policy => "policy",
            Self::Profile => "profile",
            Self::Overload => "overload",
            Self::Better => "better",
        }
    }
}

/// A change with the figures that were compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Why the placement changed.
    pub reason: Reason,
    /// How often the same sites were refused before.
    pub refusals: u32,
    /// Packets a second of all chains. Its figures are for a tenth more.
    pub packets_per_s: f64,
    /// The figures of the new placement.
    pub after: PlacementFigures,
    /// Those of the former devices. `None` at the start.
    pub before: Option<PlacementFigures>,
    /// The function that moved whose measurements differ most.
    pub deciding: Option<Deciding>,
}

impl Monitor {
    /// The last change.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Compares a new placement with the present one at `rates`.
    pub(super) fn explain(&self, reason: Reason, new: &Placement, rates: &[f64]) -> Decision {
        let packets_per_s = rates.iter().sum();
        let old = self.placement();
        let before = old.and_then(|old| self.fixed(old, rates).ok());
        Decision {
            reason,
            refusals: self.refusals(new),
            packets_per_s,
            after: new.figures.clone(),
            before: before.map(|before| before.figures),
            deciding: old.and_then(|old| self.deciding(old, new)),
        }
    }

    fn deciding(&self, old: &Placement, new: &Placement) -> Option<Deciding> {
        let mut all = Vec::new();
        for (chain, demand) in self.demand.chains().iter().enumerate() {
            let sites = old.sites[chain].iter().zip(&new.sites[chain]);
            for (position, (old, new)) in sites.enumerate() {
                let function = demand.functions[position];
                let at = |site: &crate::placement::Site| {
                    let pair = (function, site.device);
                    self.effective().alone(pair, site.launch_packets, demand.packet_len)
                };
                if let (true, Some(chosen), Some(other)) =
                    (old.device != new.device, at(new), at(old))
                {
                    let apart_ns =
                        chosen.packet_ns(demand.packet_len) - other.packet_ns(demand.packet_len);
                    all.push((apart_ns.abs(), Deciding { chain, position, chosen, other }));
                }
            }
        }
        let most = all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.map(|(_, deciding)| deciding)
    }
}
