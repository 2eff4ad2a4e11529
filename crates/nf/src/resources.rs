//! Resources that a chain hands out to its functions.

use warpline_config::{Diagnostic, Diagnostics};
use warpline_packet::Seed;

use crate::{HopPorts, Ports};

/// Numbers of rules and lines that functions skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Invalid ones.
    pub invalid: usize,
    /// Valid ones that need an unsupported feature.
    pub unsupported: usize,
}

/// Scratch words, the seed, the chain's ports, and room for notices.
#[derive(Debug, Default)]
pub struct Resources {
    seed: Seed,
    scratch_words: usize,
    notices: Diagnostics,
    skipped: Skipped,
    remarks: Diagnostics,
    ports: Ports,
    hop_ports: Option<HopPorts>,
    asked_hop_ports: bool,
    presumes_crossing: bool,
}

impl Resources {
    /// Of a chain with this seed.
    pub fn with_seed(seed: Seed) -> Self {
        Self { seed, ..Self::default() }
    }

    /// The same for a chain with these ports.
    #[must_use]
    pub fn with_ports(self, ports: Ports) -> Self {
        Self { ports, ..self }
    }

    /// The chain's ports.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Tells functions after this one the ports of its next hops, whose numbers are no others'.
    pub fn set_hop_ports(&mut self, ports: HopPorts) {
        let known = self.hop_ports.as_ref().and_then(|known| known.with(&ports));
        self.hop_ports = Some(known.unwrap_or(ports));
    }

    /// How many next hops functions before this one set, with those that are none.
    pub fn next_hops(&self) -> usize {
        self.hop_ports.as_ref().map_or(0, |hops| hops.all().len())
    }

    /// The ports of the next hops that a function before this one sets.
    pub fn hop_ports(&mut self) -> Option<HopPorts> {
        self.asked_hop_ports = true;
        self.hop_ports.clone()
    }

    /// The ports of next hops, if [`Self::hop_ports`] was called since the last call of this: a
    /// function that asked for them is built of them.
    pub fn take_asked_hop_ports(&mut self) -> Option<&HopPorts> {
        let asked = std::mem::take(&mut self.asked_hop_ports);
        self.hop_ports.as_ref().filter(|_| asked)
    }

    /// A function decides as if each packet left by another port than it came by. The chain drops
    /// those that a later function routes back.
    pub fn presume_crossing(&mut self) {
        self.presumes_crossing = true;
    }

    /// Whether a function called [`Self::presume_crossing`].
    pub fn presumes_crossing(&self) -> bool {
        self.presumes_crossing
    }

    /// The key of hashes that results depend on: which entry makes room, which port is
    /// taken.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Hands out `N` scratch words; `None` when the chain has no more.
    pub fn scratch<const N: usize>(&mut self) -> Option<[warpline_packet::ScratchWord; N]> {
        let first = self.scratch_words;
        if first + N > warpline_packet::SCRATCH_WORDS {
            return None;
        }
        self.scratch_words += N;
        let mut words = (first..first + N).filter_map(warpline_packet::ScratchWord::new);
        let words: [Option<_>; N] = std::array::from_fn(|_| words.next());
        let words: Vec<_> = words.into_iter().flatten().collect();
        words.try_into().ok()
    }

    /// Tells what a function was asked to leave out, and left out, of a file that it read.
    pub fn notice(&mut self, left_out: Diagnostic) {
        self.notice_many(left_out, 1);
    }

    /// The same for `rules` rules or lines in one message.
    pub fn notice_many(&mut self, left_out: Diagnostic, rules: usize) {
        self.skipped.unsupported += rules;
        self.notices.push(left_out);
    }

    /// Reports invalid rules that a function skipped, of which some may only be counted.
    pub fn skip_invalid(&mut self, rules: &Diagnostics) {
        self.skipped.invalid += rules.count();
        self.notices.extend(rules);
    }

    /// Counts unsupported rules that a function skipped, and that its own messages name.
    pub fn skip_unsupported(&mut self, rules: usize) {
        self.skipped.unsupported += rules;
    }

    /// Rules and lines left out so far, with messages.
    pub fn notices(&self) -> &Diagnostics {
        &self.notices
    }

    /// The number of rules and lines left out so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Tells what is worth knowing of files of which nothing was left out for it.
    pub fn remarks_of(&mut self, remarks: &Diagnostics) {
        self.remarks.extend(remarks);
    }

    /// Remarks so far.
    pub fn remarks(&self) -> &Diagnostics {
        &self.remarks
    }

    /// Scratch words handed out so far.
    pub fn scratch_words(&self) -> usize {
        self.scratch_words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_words_run_out() {
        let mut resources = Resources::default();
        assert!(resources.scratch::<26>().is_some());
        assert!(resources.scratch::<7>().is_none());
        assert_eq!(resources.scratch::<6>().unwrap()[5].field().name(), "scratch-31");
    }
}
