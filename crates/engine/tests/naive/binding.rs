//! A binding of the naive translator, and the remotes that it has sent to.

use crate::bindings::{Config, Dependence, Endpoint, FlowKind, OUTSIDE};
use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked};

/// A remote that a binding has sent to.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// Without the port where filtering doesn't ask for it, but for TCP.
    pub(crate) at: Endpoint,
    pub(crate) expires: u64,
    /// Of TCP, with whether the inside host opened it.
    tracked: Option<(Tracked, bool)>,
    /// Whether segments of it went out and came in.
    went: [bool; 2],
    established: bool,
}

/// An outside port that stands for an inside one.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) inside: Endpoint,
    pub(crate) outside: Endpoint,
    pub(crate) expires: u64,
    pub(crate) remotes: Vec<Remote>,
    /// Whether a packet came in by it.
    pub(crate) answered: bool,
    /// Whether it sent to no port but well-known ones, without 443 and 500.
    pub(crate) short: bool,
    /// Whether it is a connection to a forwarded port.
    pub(crate) forwarded: bool,
}

impl Binding {
    pub(crate) fn new(inside: Endpoint, outside: Endpoint) -> Self {
        let (remotes, short) = (Vec::new(), true);
        Self { inside, outside, expires: 0, remotes, answered: false, short, forwarded: false }
    }

    /// Keeps the binding for a packet to or from `remote`.
    pub(crate) fn used(
        &mut self,
        config: &Config,
        (kind, remote): (FlowKind, Endpoint),
        segment: Option<&Seen>,
        out: bool,
        now: u64,
    ) -> Result<(), &'static str> {
        if let Some(seen) = segment {
            return self.segment(config, remote, seen, out, now);
        }
        let [udp, _, _, echo, unanswered, short, other] = ends(config, now);
        self.short &= remote.1 < 1024 && remote.1 != 443 && remote.1 != 500;
        self.expires = match (kind, self.short, self.answered) {
            (FlowKind::Udp, true, _) => short,
            (FlowKind::Udp, false, true) => udp,
            (FlowKind::Udp, false, false) => unanswered,
            (FlowKind::Other(_), ..) => other,
            _ => echo,
        };
        let port = if config.filtering == Dependence::AddressAndPort { remote.1 } else { 0 };
        let expires = self.expires;
        if let Some(own) = self.remote((remote.0, port), true, now) {
            own.expires = expires;
        }
        Ok(())
    }

    /// A TCP segment to or from `remote`.
    fn segment(
        &mut self,
        config: &Config,
        remote: Endpoint,
        seen: &Seen,
        out: bool,
        now: u64,
    ) -> Result<(), &'static str> {
        let [_, established, transitory, ..] = ends(config, now);
        let known = self.remote(remote, false, now).map(|own| own.clone());
        let is_tracked = known.as_ref().is_some_and(|own| own.tracked.is_some());
        let loose = self.forwarded && !out;
        let mode = Mode { one_sided: out, loose, ..Mode::default() };
        let opened = || Remote::opened(remote, seen, mode, out);
        let mut counts = true;
        let new = if is_tracked {
            let mut own = known.expect("it is tracked");
            let (tracked, by_inside) = own.tracked.as_mut().expect("it is tracked");
            let old = tracked.stage();
            match tracked.see(seen, *by_inside == out, Mode::default()) {
                Answer::Invalid => return Err("invalid"),
                Answer::Outside => return Err(OUTSIDE),
                Answer::Followed if old == "closed" && tracked.stage() == "closed" => {
                    counts = false
                }
                Answer::Followed => own.count(out),
                Answer::Ignored => counts = false,
                Answer::Forgotten => own = Remote::at(remote),
                Answer::Anew => own = opened().expect("a SYN opens"),
            }
            own
        } else {
            // Only the inside host begins a conversation, except to a forwarded port.
            match opened().filter(|_| out || self.forwarded) {
                Some(own) => own,
                None => return Ok(()),
            }
        };
        let own = self.remote(remote, true, now).expect("it is made");
        let expires = if new.established { established } else { transitory };
        *own = Remote { expires: if counts { expires } else { own.expires }, ..new };
        if counts {
            let any = self.remotes.iter().any(|own| own.expires > now && own.established);
            self.expires = if any { established } else { transitory };
        }
        Ok(())
    }

    /// The remote; an unknown one is added if `makes`.
    fn remote(&mut self, at: Endpoint, makes: bool, now: u64) -> Option<&mut Remote> {
        self.remotes.retain(|own| own.expires > now);
        let known = self.remotes.iter().position(|own| own.at == at);
        if known.is_none() && makes {
            self.remotes.push(Remote::at(at));
        }
        let last = self.remotes.len().checked_sub(1).filter(|_| makes);
        self.remotes.get_mut(known.or(last)?)
    }
}

impl Remote {
    fn at(at: Endpoint) -> Self {
        Self { at, expires: 0, tracked: None, went: [false; 2], established: false }
    }

    /// One whose conversation a segment opens.
    fn opened(at: Endpoint, seen: &Seen, mode: Mode, out: bool) -> Option<Self> {
        let (tracked, by_sender) = Tracked::new(seen, mode)?;
        let mut own = Self { tracked: Some((tracked, by_sender == out)), ..Self::at(at) };
        own.count(out);
        Some(own)
    }

    /// A segment counts that goes out or comes in.
    fn count(&mut self, out: bool) {
        self.went[usize::from(!out)] = true;
        let stage = self.tracked.as_ref().map_or("", |(tracked, _)| tracked.stage());
        self.established = self.went == [true; 2] && ["established", "finishing"].contains(&stage);
    }
}

/// When what is used now expires, by timeout.
fn ends(config: &Config, now: u64) -> [u64; 7] {
    config.timeouts.map(|s| (now / 1_000_000_000 + 1 + s) * 1_000_000_000)
}
