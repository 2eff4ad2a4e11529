//! Follows jumps between chains of rules, as in iptables and nftables.
//!
//! A rule of a chain is about packets that match it and every jump on the way. A return or a goto
//! takes its packets out of the rest of its chain.

use warpline_rule_files::RULES_MAX;

use super::ports::RulePorts;
use super::scope::Scope;

/// Addresses and ports that all rules of other chains may take over from jumps and returns.
const LISTED_MAX: usize = 1 << 21;
/// Chains that a packet may be in at once.
const DEPTH_MAX: usize = 64;

/// Why a return is left out.
pub(super) const RETURNS: &str =
    "a return on other than an interface, destinations or an IP version";
/// Why a rule that a widened jump leads to is left out.
pub(super) const WIDENED_JUMP: &str =
    "the jump to this chain has a condition that is not supported";

/// Where a rule leads.
pub(super) enum Lead {
    /// To another chain.
    To {
        chain: usize,
        /// The packets that the rule alone asks for.
        asked: Scope,
        /// Whether packets return to where this chain was jumped to from.
        is_goto: bool,
    },
    /// To where this chain was jumped to from. The packets are those that the rule alone asks for.
    Return(Scope),
}

/// Why a rule is not followed.
pub(super) enum Unfollowed {
    /// The packets that it takes out of its chain can't be distinguished from the others.
    Return,
    /// It is a mistake.
    Wrong(String),
}

/// Chains by number.
pub(super) trait RuleChains {
    type Rule: Copy;

    fn rules(&self, chain: usize) -> Vec<Self::Rule>;

    /// How messages name a chain.
    fn name(&self, chain: usize) -> String;

    fn ports(&self) -> &RulePorts;

    /// Whether rules may be about more packets than asked, where that is reported. Otherwise they
    /// are left out.
    fn widens(&self) -> bool;

    /// Whether all packets are of one IP version.
    fn has_one_version(&self) -> bool;

    /// Adds a rule that packets of `outer` meet, or returns where it leads.
    fn read(&mut self, rule: Self::Rule, outer: &Scope, is_base: bool) -> Option<Lead>;

    /// Reports a rule about packets of `scope`.
    fn refuse(&mut self, rule: Self::Rule, scope: &Scope, why: Unfollowed);
}

/// Reads a base chain, and those that it leads to.
pub(super) fn walk<C: RuleChains>(chains: &mut C, base: usize) {
    let mut walk = Walk { chains, path: Vec::new(), read: 0, listed: 0 };
    walk.chain(base, Scope::default());
}

struct Walk<'a, C> {
    chains: &'a mut C,
    /// The chains that packets are in.
    path: Vec<usize>,
    /// Rules so far.
    read: usize,
    /// Addresses and ports in the scopes of all rules of other chains.
    listed: usize,
}

impl<C: RuleChains> Walk<'_, C> {
    fn chain(&mut self, number: usize, mut outer: Scope) {
        self.path.push(number);
        for rule in self.chains.rules(number) {
            if outer.is_void || self.is_over() {
                break;
            }
            (self.read, self.listed) = (self.read + 1, self.listed + outer.len());
            if self.is_over() {
                let why = match self.read > RULES_MAX {
                    true => format!("the chains make more than {RULES_MAX} rules"),
                    false => format!("the conditions of jumps list more than {LISTED_MAX} values"),
                };
                self.chains.refuse(rule, &Scope::default(), Unfollowed::Wrong(why));
                break;
            }
            match self.chains.read(rule, &outer, self.path.len() == 1) {
                None => {}
                Some(Lead::Return(asked)) => _ = self.take_out(rule, &mut outer, &asked),
                Some(Lead::To { chain, asked, is_goto }) => {
                    let scope = asked.clone().within(&outer);
                    let is_exact = !is_goto || self.take_out(rule, &mut outer, &asked);
                    match self.refusal(chain) {
                        Some(why) => self.chains.refuse(rule, &scope, Unfollowed::Wrong(why)),
                        None if is_exact || self.chains.widens() => self.chain(chain, scope),
                        None => {}
                    }
                }
            }
        }
        self.path.pop();
    }

    /// Takes packets that a rule asks for out of those that go on in its chain. Returns false if
    /// they can't be distinguished from the others; then they go on, too.
    fn take_out(&mut self, rule: C::Rule, outer: &mut Scope, asked: &Scope) -> bool {
        let one_version = self.chains.has_one_version();
        if let Some(left) = outer.without(asked, self.chains.ports(), one_version) {
            *outer = left;
            return true;
        }
        self.chains.refuse(rule, &asked.clone().within(outer), Unfollowed::Return);
        outer.is_widened = true;
        false
    }

    fn is_over(&self) -> bool {
        self.read > RULES_MAX || self.listed > LISTED_MAX
    }

    /// Why a chain can't be entered.
    fn refusal(&self, chain: usize) -> Option<String> {
        if self.path.contains(&chain) {
            return Some(format!("chain {} leads to itself", self.chains.name(chain)));
        }
        let is_deep = self.path.len() == DEPTH_MAX;
        is_deep.then(|| format!("chains nest deeper than {DEPTH_MAX}"))
    }
}
