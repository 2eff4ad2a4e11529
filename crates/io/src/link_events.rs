//! The state of an interface's link while it is read.

use core::mem;
use core::time::Duration;
use std::io;
use std::time::Instant as Clock;

use warpline_io_error::plain;

use crate::sys::Link;

/// How often the state of an interface is read while there are no frames.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The link of an interface, and the events that were reported.
pub(crate) struct LinkEvents {
    pub(crate) link: Link,
    name: String,
    state: LinkState,
    /// The state at the last look.
    seen: LinkState,
    looked: Clock,
    /// Times that the link went down.
    downs: u64,
}

/// The state of the interface, as far as it was reported.
#[derive(Clone, PartialEq, Eq)]
enum LinkState {
    Up,
    Down,
    Gone,
    /// It is there and can't be opened, for this reason.
    Refused(String),
}

impl LinkEvents {
    /// Those of `link`, called `name`, from now on.
    pub(crate) fn new(link: Link, name: &str) -> Self {
        let (name, looked) = (name.into(), Clock::now());
        Self { link, name, state: LinkState::Up, seen: LinkState::Up, looked, downs: 0 }
    }

    /// Whether it is time to look at the interface.
    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// Reports a change of the state. `bound` is the result of a try to bind to the interface,
    /// which may have been removed and made anew.
    pub(crate) fn look(&mut self, bound: io::Result<()>, report: &mut dyn FnMut(String)) {
        self.looked = Clock::now();
        let now = match bound.and_then(|()| self.link.is_running()) {
            Ok(true) => LinkState::Up,
            Ok(false) => LinkState::Down,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENODEV | libc::ENXIO) => LinkState::Gone,
                _ => LinkState::Refused(plain(&error)),
            },
        };
        let is_new = mem::replace(&mut self.seen, now.clone()) != now;
        // The system frees a queue a moment after its socket was closed.
        let may_pass = is_new && matches!(now, LinkState::Refused(_));
        if now == self.state || may_pass {
            return;
        }
        let name = &self.name;
        report(match &now {
            LinkState::Up => format!("interface {name} is up"),
            LinkState::Down => format!("interface {name} is down"),
            LinkState::Gone => format!("interface {name} was removed"),
            LinkState::Refused(why) => format!("interface {name} cannot be opened again: {why}"),
        });
        self.downs += u64::from(self.state == LinkState::Up);
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
