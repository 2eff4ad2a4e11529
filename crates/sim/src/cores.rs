//! Cores that threads share. While more threads have work than there are cores, each gets the same
//! part of them. A thread does its work in order, on one core at most.

use std::collections::VecDeque;

/// Parts of a nanosecond in which work is counted.
const PARTS: u64 = 1 << 10;

/// See the module. `T` names a piece of work.
pub(crate) struct Cores<T> {
    count: u64,
    /// By thread, the work left in parts of a nanosecond.
    threads: Vec<VecDeque<(u64, T)>>,
    /// By thread, when it had work for the last time.
    worked_ns: Vec<u64>,
    busy: u64,
    /// Work until `updated_ns`, of all cores together.
    sum_ns: u64,
    updated_ns: u64,
    /// Grows with each change, so that older looks are known.
    pub(crate) generation: u64,
}

impl<T> Cores<T> {
    pub(crate) fn new(count: u64, threads: usize) -> Self {
        let worked_ns = vec![0; threads];
        let threads = (0..threads).map(|_| VecDeque::new()).collect();
        Self { count, threads, worked_ns, busy: 0, sum_ns: 0, updated_ns: 0, generation: 0 }
    }

    /// Gives `work` of `lasts_ns` to a thread.
    pub(crate) fn add(&mut self, thread: usize, (lasts_ns, work): (u64, T), now_ns: u64) {
        self.progress(now_ns);
        let own = &mut self.threads[thread];
        self.busy += u64::from(own.is_empty());
        own.push_back((lasts_ns.max(1).saturating_mul(PARTS), work));
        self.generation += 1;
    }

    /// Whether a thread rested before `now_ns`.
    pub(crate) fn rests(&self, thread: usize, now_ns: u64) -> bool {
        self.threads[thread].is_empty() && self.worked_ns[thread] < now_ns
    }

    /// Works until `now_ns`. Adds to `done` in the order of completion.
    pub(crate) fn poll(&mut self, now_ns: u64, done: &mut Vec<T>) {
        while let Some(next_ns) = self.next_ns().filter(|next_ns| *next_ns <= now_ns) {
            self.progress(next_ns);
            for (thread, worked_ns) in self.threads.iter_mut().zip(&mut self.worked_ns) {
                if thread.front().is_some_and(|(left, _)| *left == 0) {
                    done.extend(thread.pop_front().map(|(_, work)| work));
                    self.busy -= u64::from(thread.is_empty());
                    *worked_ns = next_ns;
                    self.generation += 1;
                }
            }
        }
        self.progress(now_ns);
    }

    /// Work of a thread that is not done by `now_ns`, of the kinds that `is_counted` names.
    pub(crate) fn left_ns(
        &mut self,
        thread: usize,
        is_counted: impl Fn(&T) -> bool,
        now_ns: u64,
    ) -> u64 {
        self.progress(now_ns);
        let counted = self.threads[thread].iter().filter(|(_, work)| is_counted(work));
        counted.map(|(left, _)| left.div_ceil(PARTS)).sum()
    }

    /// Nanoseconds in which cores worked, all of them together, if nothing is done before `now_ns`.
    pub(crate) fn sum_ns(&self, now_ns: u64) -> u64 {
        self.sum_ns + self.running() * (now_ns - self.updated_ns)
    }

    fn progress(&mut self, now_ns: u64) {
        self.sum_ns = self.sum_ns(now_ns);
        let passed_ns = now_ns - self.updated_ns;
        self.updated_ns = now_ns;
        if passed_ns == 0 || self.busy == 0 {
            return;
        }
        let parts = u128::from(passed_ns) * u128::from(PARTS) * u128::from(self.running());
        let each = u64::try_from(parts / u128::from(self.busy)).unwrap_or(u64::MAX);
        for (left, _) in self.threads.iter_mut().filter_map(VecDeque::front_mut) {
            *left = left.saturating_sub(each);
        }
    }

    /// Cores with work.
    fn running(&self) -> u64 {
        self.busy.min(self.count)
    }

    /// When the next piece of work is done, if nothing is added.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let least = self.threads.iter().filter_map(VecDeque::front).map(|(left, _)| *left).min()?;
        let parts = u128::from(PARTS) * u128::from(self.running());
        let lasts_ns = (u128::from(least) * u128::from(self.busy)).div_ceil(parts);
        Some(self.updated_ns.saturating_add(u64::try_from(lasts_ns).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs works of (begin, thread, length). Returns when each was done.
    fn run(cores: u64, works: &[(u64, usize, u64)]) -> Vec<u64> {
        let mut own = Cores::new(cores, 8);
        let (mut ended, mut done) = (vec![0; works.len()], Vec::new());
        let mut at = 0;
        loop {
            let begins = works.get(at).map(|work| work.0);
            let Some(now_ns) = begins.into_iter().chain(own.next_ns()).min() else { return ended };
            own.poll(now_ns, &mut done);
            done.drain(..).for_each(|work: usize| ended[work] = now_ns);
            if begins == Some(now_ns) {
                own.add(works[at].1, (works[at].2, at), now_ns);
                at += 1;
            }
        }
    }

    #[test]
    fn threads_share_cores_evenly() {
        // Alone, in order on one thread, and two threads on one core.
        assert_eq!(run(1, &[(5, 0, 10), (6, 0, 10)]), [15, 25]);
        assert_eq!(run(2, &[(0, 0, 10), (0, 1, 20)]), [10, 20]);
        assert_eq!(run(1, &[(0, 0, 10), (0, 1, 20)]), [20, 30]);
        // Three on two: each gets two thirds until the first is done.
        assert_eq!(run(2, &[(0, 0, 20), (0, 1, 40), (0, 2, 40)]), [30, 50, 50]);
        // One that comes later shares what is left.
        assert_eq!(run(1, &[(0, 0, 30), (10, 1, 10)]), [40, 30]);
    }

    #[test]
    fn the_sum_is_of_cores_that_work() {
        let mut own = Cores::new(2, 3);
        own.add(0, (40, 0), 10);
        assert_eq!([10, 20].map(|now_ns| own.sum_ns(now_ns)), [0, 10]);
        own.add(1, (40, 1), 20);
        own.add(2, (40, 2), 20);
        // 30 + 40 + 40 are left for two cores.
        own.poll(200, &mut Vec::new());
        assert_eq!(own.sum_ns(200), 120);
    }

    #[test]
    fn no_time_is_lost_or_gained() {
        let works: Vec<_> = (0..500).map(|at| (at * 7, (at % 5) as usize, 30 + at % 13)).collect();
        let sum: u64 = works.iter().map(|work| work.2).sum();
        for cores in 1..=3 {
            let last = run(cores, &works).into_iter().max().unwrap_or_default();
            let least = sum / cores;
            assert!((least..least + 200).contains(&last), "{cores}: {last}, {least}");
        }
    }
}
