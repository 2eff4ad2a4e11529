//! Time slices of a device, preemptive: contexts with kernels that are ready take turns.

use std::collections::{BTreeMap, VecDeque};

/// A kernel, or several that run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobId(u64);

struct Job {
    id: JobId,
    ready_ns: u64,
    left_ns: u64,
}

#[derive(Default)]
struct Context {
    /// In order; one starts when that before it ended.
    jobs: VecDeque<Job>,
    busy_ns: u64,
}

impl Context {
    fn is_ready(&self, now_ns: u64) -> bool {
        self.jobs.front().is_some_and(|job| job.ready_ns <= now_ns)
    }
}

/// See the module.
pub(super) struct Slices {
    slice_ns: u64,
    contexts: Vec<Context>,
    /// Whose slice it is, and what is left of it.
    turn: usize,
    left_ns: u64,
    now_ns: u64,
    added: u64,
    ended: BTreeMap<JobId, u64>,
}

impl Slices {
    pub(super) fn new(slice_ns: u64) -> Self {
        let (contexts, ended) = (Vec::new(), BTreeMap::new());
        Self { slice_ns, contexts, turn: 0, left_ns: 0, now_ns: 0, added: 0, ended }
    }

    /// Adds a context and gives its number.
    pub(super) fn add_context(&mut self) -> usize {
        self.contexts.push(Context::default());
        self.contexts.len() - 1
    }

    /// Adds kernels that may start at `ready_ns` and take `takes_ns`.
    pub(super) fn add(
        &mut self,
        context: usize,
        now_ns: u64,
        ready_ns: u64,
        takes_ns: u64,
    ) -> JobId {
        self.advance(now_ns);
        let id = JobId(self.added);
        self.added += 1;
        self.contexts[context].jobs.push_back(Job { id, ready_ns, left_ns: takes_ns });
        id
    }

    /// When it ended, if it did by the last [`Slices::advance`].
    pub(super) fn end_of(&self, job: JobId) -> Option<u64> {
        self.ended.get(&job).copied()
    }

    /// Its end is not asked for any more.
    pub(super) fn forget(&mut self, job: JobId) {
        self.ended.remove(&job);
    }

    /// Nanoseconds of kernels, by context.
    pub(super) fn busy_ns(&self) -> Vec<u64> {
        self.contexts.iter().map(|context| context.busy_ns).collect()
    }

    /// Lets time pass until `until_ns`.
    pub(super) fn advance(&mut self, until_ns: u64) {
        while self.now_ns < until_ns {
            let has_slice = self.left_ns > 0 && self.contexts[self.turn].is_ready(self.now_ns);
            if !has_slice && !self.give_next() {
                let heads = self.contexts.iter().filter_map(|context| context.jobs.front());
                let next_ns = heads.map(|job| job.ready_ns).min().unwrap_or(until_ns);
                self.now_ns = next_ns.clamp(self.now_ns, until_ns);
                if next_ns >= until_ns {
                    return;
                }
                continue;
            }
            self.run(until_ns);
        }
    }

    /// Gives a slice to the next context that is ready.
    fn give_next(&mut self) -> bool {
        let count = self.contexts.len();
        let mut others = (1..=count).map(|step| (self.turn + step) % count);
        let next = others.find(|&number| self.contexts[number].is_ready(self.now_ns));
        next.inspect(|&next| (self.turn, self.left_ns) = (next, self.slice_ns)).is_some()
    }

    /// Runs the oldest kernels of the context that has the slice.
    fn run(&mut self, until_ns: u64) {
        let context = &mut self.contexts[self.turn];
        let Some(job) = context.jobs.front_mut() else { return };
        let takes_ns = job.left_ns.min(self.left_ns).min(until_ns - self.now_ns);
        job.left_ns -= takes_ns;
        self.left_ns -= takes_ns;
        self.now_ns += takes_ns;
        context.busy_ns += takes_ns;
        if job.left_ns == 0 {
            self.ended.insert(job.id, self.now_ns);
            context.jobs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_take_turns_and_long_kernels_are_preempted() {
        let mut slices = Slices::new(10);
        let [one, other] = [slices.add_context(), slices.add_context()];
        let long = slices.add(one, 0, 0, 25);
        let short = slices.add(other, 0, 5, 3);
        let next = slices.add(other, 0, 5, 20);
        slices.advance(100);
        // 0-10 one, 10-20 the other with both of its jobs, 20-30 one, 30-40, 40-45 one, 45-48.
        assert_eq!(slices.end_of(short), Some(13));
        assert_eq!(slices.end_of(long), Some(45));
        assert_eq!(slices.end_of(next), Some(48));
        assert_eq!(slices.busy_ns(), [25, 23]);
    }

    #[test]
    fn an_idle_context_takes_no_slice_and_time_passes_without_work() {
        let mut slices = Slices::new(10);
        let [one, _] = [slices.add_context(), slices.add_context()];
        slices.advance(7);
        let job = slices.add(one, 7, 20, 35);
        slices.advance(19);
        assert_eq!(slices.end_of(job), None);
        slices.advance(55);
        assert_eq!(slices.end_of(job), Some(55));
        slices.forget(job);
        assert_eq!(slices.end_of(job), None);
    }

    #[test]
    fn kernels_without_time_end_when_they_are_ready() {
        let mut slices = Slices::new(10);
        let one = slices.add_context();
        let job = slices.add(one, 0, 4, 0);
        slices.advance(5);
        assert_eq!(slices.end_of(job), Some(4));
    }
}
