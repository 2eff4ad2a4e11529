//! The state of an interface's link while it is read.

use core::time::Duration;
use std::io;
use std::time::Instant as Clock;

use crate::sys::Link;

/// How often the state of an interface is read while there are no frames.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The link of an interface, and the events that were reported.
pub(crate) struct LinkEvents {
    pub(crate) link: Link,
    name: String,
    state: State,
    looked: Clock,
    /// Times that the link went down.
    downs: u64,
}

/// The state of the interface, as far as it was reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    Down,
    Gone,
}

impl LinkEvents {
    /// Those of `link`, called `name`, from now on.
    pub(crate) fn new(link: Link, name: &str) -> Self {
        let (name, looked) = (name.into(), Clock::now());
        Self { link, name, state: State::Up, looked, downs: 0 }
    }

    /// Whether it is time to look at the interface.
    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// Reports a change of the state. `bound` is the result of a try to bind to the interface,
    /// which may have been removed and made anew.
    pub(crate) fn look(&mut self, bound: io::Result<()>, tell: &mut dyn FnMut(String)) {
        self.looked = Clock::now();
        let now = match bound.and_then(|()| self.link.is_running()) {
            Ok(true) => State::Up,
            Ok(false) => State::Down,
            Err(_) => State::Gone,
        };
        if now == self.state {
            return;
        }
        let name = &self.name;
        tell(match now {
            State::Up => format!("interface {name} is up"),
            State::Down => format!("interface {name} is down"),
            State::Gone => format!("interface {name} was removed"),
        });
        self.downs += u64::from(self.state == State::Up);
        self.state = now;
    }

    /// How often the link went down, for the operator.
    pub(crate) fn warning(&self) -> Option<String> {
        let name = &self.name;
        match self.downs {
            0 => None,
            1 => Some(format!("interface {name} went down once")),
            2 => Some(format!("interface {name} went down twice")),
            downs => Some(format!("interface {name} went down {downs} times")),
        }
    }
}
