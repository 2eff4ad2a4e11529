//! Flattens chains of rules with jumps and returns, as in iptables and nftables, into one list in
//! which the first match decides.
//!
//! A rule of a chain reached by a jump applies to packets that match both the rule and the jump. A
//! return takes its packets out of the rest of its chain. So every rule of the list is a region
//! with an action. The policy of the base chain decides the remaining packets.

use crate::region::{Region, RegionRule};
use crate::rules::{Action, RULES_MAX};

/// Chains that a packet may be in at once.
pub(crate) const DEPTH_MAX: usize = 64;
/// The most ranges of numbers examined.
const WORK_MAX: usize = 1 << 24;
/// The most ranges in all rules together.
const RANGES_MAX: usize = 1 << 21;
/// The most regions that the undecided packets of a chain may consist of.
const PIECES_MAX: usize = 512;

/// Chains, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    pub(crate) list: Vec<Chain>,
}

/// A chain of rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(crate) name: String,
    pub(crate) steps: Vec<ChainRule>,
}

/// A rule of a chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainRule {
    /// The packets of each IP version, 4 and 6, that it is about.
    pub(crate) when: [Option<Region>; 2],
    pub(crate) then: Then,
    /// Its line or handle.
    pub(crate) place: u32,
}

/// The fate of a packet that matches a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Decide(Action),
    /// It goes through another chain, then continues after this rule if that chain does not decide.
    Jump(usize),
    /// It goes through another chain, then continues where this chain was jumped to from.
    Goto(usize),
    /// It continues where this chain was jumped to from.
    Return,
}

/// Why chains can't be made into a list, and the rule where that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    pub(crate) place: u32,
    pub(crate) why: String,
}

impl Chains {
    /// The rules for packets of `version` that enter chain `base`, which does `policy` at its end.
    pub(crate) fn flatten(
        &self,
        base: usize,
        policy: Action,
        version: u8,
    ) -> Result<Vec<RegionRule>, Unfit> {
        let mut walk = Walk::new(self, version);
        let all = Region::all(version);
        walk.chain(base, vec![all.clone()], 0)?;
        // The rules before decide first, so this is for what returned from the chain or reached its
        // end.
        if policy == Action::Accept {
            walk.rules.push(RegionRule { region: all, action: policy, place: 0 });
        }
        Ok(walk.rules)
    }
}

struct Walk<'a> {
    chains: &'a Chains,
    version: u8,
    /// The chains that the walk is in.
    path: Vec<usize>,
    rules: Vec<RegionRule>,
    /// Ranges looked at.
    work: usize,
    /// Ranges of the rules made.
    made: usize,
}

impl<'a> Walk<'a> {
    fn new(chains: &'a Chains, version: u8) -> Self {
        Self { chains, version, path: Vec::new(), rules: Vec::new(), work: 0, made: 0 }
    }

    /// Goes through a chain with the packets of `pieces`.
    fn chain(&mut self, number: usize, mut pieces: Vec<Region>, place: u32) -> Result<(), Unfit> {
        let Some(chain) = self.chains.list.get(number) else { return Ok(()) };
        if self.path.contains(&number) {
            return Err(Unfit { place, why: format!("chain `{}` leads to itself", chain.name) });
        }
        if self.path.len() == DEPTH_MAX {
            return Err(Unfit { place, why: format!("chains nest deeper than {DEPTH_MAX}") });
        }
        self.path.push(number);
        for step in &chain.steps {
            let Some(when) = &step.when[usize::from(self.version == 6)] else { continue };
            let met = self.met(&pieces, when, step.place)?;
            if met.is_empty() {
                continue;
            }
            match step.then {
                Then::Decide(action) => self.decide(met, action, step.place)?,
                Then::Jump(to) => self.chain(to, met, step.place)?,
                Then::Goto(to) => {
                    self.chain(to, met, step.place)?;
                    pieces = self.without(&pieces, when, step.place)?;
                }
                Then::Return => pieces = self.without(&pieces, when, step.place)?,
            }
            if pieces.is_empty() {
                break;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn met(&mut self, pieces: &[Region], when: &Region, place: u32) -> Result<Vec<Region>, Unfit> {
        let mut met = Vec::new();
        for piece in pieces {
            self.count(piece.ranges() + when.ranges(), place)?;
            let both = piece.and(when);
            if !both.is_empty() {
                met.push(both);
            }
        }
        Ok(met)
    }

    fn without(
        &mut self,
        pieces: &[Region],
        when: &Region,
        place: u32,
    ) -> Result<Vec<Region>, Unfit> {
        let mut left = Vec::new();
        for piece in pieces {
            self.count(5 * (piece.ranges() + when.ranges()), place)?;
            left.extend(piece.minus(when));
            if left.len() > PIECES_MAX {
                return Err(Unfit { place, why: "too many returns in one chain".into() });
            }
        }
        Ok(left)
    }

    fn decide(&mut self, met: Vec<Region>, action: Action, place: u32) -> Result<(), Unfit> {
        for region in met {
            if self.rules.len() == RULES_MAX {
                let why = format!("the chains make more than {RULES_MAX} rules");
                return Err(Unfit { place, why });
            }
            self.made += region.ranges();
            if self.made > RANGES_MAX {
                let why = format!("the rules' conditions are more than {RANGES_MAX} ranges");
                return Err(Unfit { place, why });
            }
            self.rules.push(RegionRule { region, action, place });
        }
        Ok(())
    }

    fn count(&mut self, ranges: usize, place: u32) -> Result<(), Unfit> {
        self.work += ranges;
        if self.work > WORK_MAX {
            let why = "the chains jump so often that their rules are too many";
            return Err(Unfit { place, why: why.into() });
        }
        Ok(())
    }
}
