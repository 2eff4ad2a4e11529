//! Real time: when the packet that is due at a given time of the traffic may leave.

use core::time::Duration;
use std::time::Instant;

/// A clock that starts when it is first asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    started: Option<Instant>,
    /// The time since the start when the clock was last read: what is due by then needs no reading.
    seen: Duration,
}

impl Pace {
    /// How long to wait for what is due `due` after the start; `None` when it is due. Reads the
    /// clock through `now` if it has to.
    #[inline]
    pub(super) fn wait(
        &mut self,
        due: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Option<Duration> {
        if self.started.is_some() && due <= self.seen {
            return None;
        }
        let now = now();
        self.seen = now.saturating_duration_since(*self.started.get_or_insert(now));
        due.checked_sub(self.seen).filter(|wait| !wait.is_zero())
    }

    /// How late a packet is that was due `due` after the start, when the clock was last read.
    #[inline]
    pub(super) fn late(&self, due: Duration) -> Duration {
        self.seen.saturating_sub(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_due_and_then_catches_up() {
        let start = Instant::now();
        let at = |nanos| move || start + Duration::from_nanos(nanos);
        let nanos = Duration::from_nanos;
        let mut pace = Pace::default();
        assert_eq!(pace.wait(nanos(0), at(0)), None);
        assert_eq!(pace.wait(nanos(100), at(30)), Some(nanos(70)));
        assert_eq!(pace.wait(nanos(100), at(100)), None);
        // Held up until 1000: all that is due by then goes without another look at the clock.
        assert_eq!(pace.wait(nanos(200), at(1000)), None);
        assert_eq!(pace.wait(nanos(1000), || unreachable!()), None);
        assert_eq!(pace.wait(nanos(1001), at(1000)), Some(nanos(1)));
    }
}
