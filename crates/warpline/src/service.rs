//! Messages to the service manager of systemd: start, reload, end and watchdog (sd_notify(3)).

use std::mem;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use warpline_engine::Machine;

/// Sends the messages that depend on time. Without a service manager it sends nothing.
pub(crate) struct Service {
    /// The time from one beat to the next, if there is a watchdog.
    every: Option<Duration>,
    beaten: Instant,
    is_ready: bool,
    is_stopping: bool,
}

impl Service {
    pub(crate) fn new() -> Self {
        // Some beats may be late.
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 4);
        Self { every, beaten: Instant::now(), is_ready: false, is_stopping: false }
    }

    /// Sends what is due. The watchdog gets a beat only if each thread of each chain has completed
    /// a round of its work since the last one.
    pub(crate) fn look(&mut self, machine: &Machine) {
        if !self.is_ready && machine.has_started() {
            self.is_ready = true;
            send(&[NotifyState::Ready]);
        }
        if machine.is_stopping() && !mem::replace(&mut self.is_stopping, true) {
            send(&[NotifyState::Stopping]);
        }
        if self.every.is_some_and(|every| self.beaten.elapsed() >= every) && machine.take_beat() {
            self.beaten = Instant::now();
            send(&[NotifyState::Watchdog]);
        }
    }
}

/// A reload begins.
pub(crate) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        send(&[NotifyState::Reloading, now]);
    }
}

/// It is over.
pub(crate) fn reloaded() {
    send(&[NotifyState::Ready]);
}

fn send(messages: &[NotifyState<'_>]) {
    // A service manager that takes no messages uses its own timeouts.
    let _ = sd_notify::notify(messages);
}
