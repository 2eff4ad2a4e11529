//! The lengths of lists that a thread reuses while rule sets change: [`Fit`].

/// The length of a list that is made anew when it is too short, and when it was too long for a
/// whole round of uses: so the rule sets of several functions may share it, and what a reload made
/// needless is given back.
#[derive(Debug)]
pub(super) struct Fit {
    len: usize,
    /// The most that was needed in this round.
    most: usize,
    uses: u32,
    round: u32,
}

impl Fit {
    /// Of a list without memory; a round has this many uses.
    pub(super) const fn new(round: u32) -> Self {
        Self { len: 0, most: 0, uses: 0, round }
    }

    /// A use for which the list must be `need` long: the length that it is to be made anew with, if
    /// it is.
    #[inline]
    pub(super) fn again(&mut self, need: usize) -> Option<usize> {
        self.most = self.most.max(need);
        self.uses += 1;
        let mut len = self.len.max(need);
        if self.uses >= self.round {
            len = core::mem::take(&mut self.most);
            self.uses = 0;
        }
        (core::mem::replace(&mut self.len, len) != len).then_some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_at_once_and_shrinks_after_a_round() {
        let mut fit = Fit::new(4);
        let lens = [5, 3, 9, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2].map(|need| fit.again(need));
        let shrunk = [None, None, None, Some(2), None, Some(3), None, None, None];
        assert_eq!(lens[..4], [Some(5), None, Some(9), None]);
        assert_eq!(lens[4..], shrunk);
    }
}
