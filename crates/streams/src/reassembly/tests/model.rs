//! The requirements of RFC 791, RFC 8200, RFC 5722 and RFC 3168, with every fragment kept and every
//! byte in a map.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::Why;
use super::Reported;
use super::fragments::Fragment;

const SECOND: u64 = 1_000_000_000;

pub(super) struct Model {
    room: usize,
    len_max: usize,
    /// In the order in which they began.
    datagrams: Vec<Datagram>,
    /// By source: the logarithm of how many it has, and in which step it came to that.
    shares: BTreeMap<u64, (u32, u64)>,
    steps: u64,
}

struct Datagram {
    began: u64,
    source: u64,
    fragments: Vec<Fragment>,
    dead: Option<Why>,
}

impl Model {
    pub(super) fn new(room: usize, len_max: usize) -> Self {
        Self { room, len_max, datagrams: Vec::new(), shares: BTreeMap::new(), steps: 0 }
    }

    pub(super) fn take(&mut self, fragment: &Fragment, now: u64) -> Reported {
        let lives = |d: &Datagram| {
            let limit = if d.fragments[0].version == 4 { 30 } else { 60 };
            now - d.began < limit * SECOND
        };
        // Those of IPv4 leave first: the order affects which source has had its number for how
        // long.
        for version in [4, 6] {
            let is_over = |d: &Datagram| !lives(d) && d.fragments[0].version == version;
            while let Some(at) = self.datagrams.iter().position(is_over) {
                self.remove(at);
            }
        }
        let bad_len = fragment.more && !fragment.data.len().is_multiple_of(8);
        if bad_len || fragment.data.is_empty() {
            return Err(Why::Malformed);
        }
        let key = fragment.key();
        let found = self.datagrams.iter().position(|d| d.fragments[0].key() == key);
        let at = found.unwrap_or_else(|| self.begin(fragment.source(), now));
        let reported = self.datagrams[at].take(fragment, self.len_max);
        if let Ok(Some(_)) = reported {
            self.remove(at);
        }
        reported
    }

    fn begin(&mut self, source: u64, now: u64) -> usize {
        if self.datagrams.len() == self.room {
            // Of sources with the same number, the one that has had it for longest.
            let most = self.shares.iter().max_by_key(|(_, (log, since))| (*log, Reverse(*since)));
            let (&source, _) = most.unwrap();
            let at = self.datagrams.iter().position(|d| d.source == source).unwrap();
            self.remove(at);
        }
        self.datagrams.push(Datagram { began: now, source, fragments: Vec::new(), dead: None });
        self.count(source);
        self.datagrams.len() - 1
    }

    fn remove(&mut self, at: usize) {
        let source = self.datagrams.remove(at).source;
        self.count(source);
    }

    fn count(&mut self, source: u64) {
        self.steps += 1;
        let count = self.datagrams.iter().filter(|d| d.source == source).count();
        let Some(log) = count.checked_ilog2() else {
            self.shares.remove(&source);
            return;
        };
        if self.shares.get(&source).is_none_or(|own| own.0 != log) {
            self.shares.insert(source, (log, self.steps));
        }
    }
}

impl Datagram {
    fn take(&mut self, fragment: &Fragment, len_max: usize) -> Reported {
        if let Some(why) = self.dead {
            // It is of the key for as long as it is remembered.
            return Err(why);
        }
        let same = |known: &Fragment| {
            (known.offset, known.more, &known.data)
                == (fragment.offset, fragment.more, &fragment.data)
        };
        let is_duplicate = self.fragments.iter().any(same);
        let others = self.fragments.clone();
        self.fragments.push(fragment.clone());
        let why = self.wrong(&others, fragment, is_duplicate, len_max);
        self.dead = why;
        if is_duplicate && why.is_none() {
            self.fragments.pop();
        }
        why.map_or_else(|| Ok(self.whole()), Err)
    }

    fn first(&self) -> Option<&Fragment> {
        self.fragments.iter().find(|fragment| fragment.offset == 0)
    }

    fn wrong(
        &self,
        others: &[Fragment],
        new: &Fragment,
        twice: bool,
        len_max: usize,
    ) -> Option<Why> {
        let farthest = self.fragments.iter().map(Fragment::end).max().unwrap();
        let head_len = self.first().map_or(0, Fragment::head_len);
        // The head of a first fragment that comes a second time.
        let head_len = if new.offset == 0 { new.head_len() } else { head_len };
        if head_len + farthest > len_max {
            return Some(Why::TooLong);
        }
        if twice {
            return None;
        }
        let came: BTreeSet<usize> = others.iter().flat_map(|f| f.offset..f.end()).collect();
        let ends: BTreeSet<usize> =
            self.fragments.iter().filter(|f| !f.more).map(Fragment::end).collect();
        // A fragment with more to follow ends before the end.
        let beyond = ends.first().is_some_and(|&end| {
            self.fragments.iter().any(|f| f.end() > end || (f.more && f.end() == end))
        });
        if ends.len() > 1 || beyond || (new.offset..new.end()).any(|at| came.contains(&at)) {
            return Some(Why::Overlap);
        }
        let ecn = |wanted: u8| self.fragments.iter().any(|f| f.ecn == wanted);
        (ecn(0) && ecn(3)).then_some(Why::Ecn)
    }

    fn whole(&self) -> Option<Vec<u8>> {
        let total = self.fragments.iter().find(|f| !f.more)?.end();
        let bytes: BTreeMap<usize, u8> =
            self.fragments.iter().flat_map(|f| (f.offset..).zip(f.data.iter().copied())).collect();
        let data: Option<Vec<u8>> = (0..total).map(|at| bytes.get(&at).copied()).collect();
        let first = self.first()?;
        let is_congested = self.fragments.iter().any(|f| f.ecn == 3);
        Some(first.whole(&data?, if is_congested { 3 } else { first.ecn }))
    }
}
