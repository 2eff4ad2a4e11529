//! The IPsec gateway, from its manual, RFC 4301 and RFC 4303.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::function::{Counters, Fate, Function};
use crate::router_errors::error_with;
use crate::second::Mark;
use crate::wire::{Frame, UDP, View, be16, view};

pub(crate) mod draw;
mod esp;
mod leaving;
mod sa;
mod seal;
mod strip;
pub(crate) mod traffic;
mod window;

use sa::{Action, Policy, Sa, Traffic};
use strip::{Inside, strip};
use window::Window;

const ESP: u8 = 50;
const NAT_T_PORT: usize = 4500;

/// Configuration of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) sas: Vec<Sa>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) bypasses: bool,
    pub(crate) forwards_non_ip: bool,
    /// Whether all packets come from inside ports.
    pub(crate) is_inside: bool,
    /// The addresses that ICMP errors come from.
    pub(crate) icmp: Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)>,
}

impl Config {
    /// Whether an SA may carry packets between any addresses.
    pub(crate) fn carries_any(&self) -> bool {
        self.sas.iter().any(|sa| !sa.is_out && sa.selectors.is_empty())
    }
}

/// Where a gateway opens and seals; the number of the first of two places is that of its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Only,
    First(usize),
    Second(usize),
}

/// The function.
pub(crate) struct Gateway {
    config: Config,
    stand: Stand,
    /// By the place of its SA.
    states: Vec<NaiveSa>,
    bypassed: u64,
    keepalives: u64,
    dummies: u64,
    tries: u64,
    resynchronized: u64,
    reported: u64,
    withheld: u64,
}

/// State of an SA.
struct NaiveSa {
    /// The last number that was used.
    sequence: u64,
    window: Window,
    /// Packets in a row that did not authenticate.
    failures: u64,
    packets: u64,
    bytes: u64,
    first: Option<u64>,
}

/// ESP in a packet.
enum Esp {
    None,
    Keepalive,
    Cut,
    At { at: usize, end: usize, in_udp: bool },
}

impl Gateway {
    pub(crate) fn new(config: Config, stand: Stand) -> Self {
        let state = |sa: &Sa| NaiveSa {
            sequence: sa.sequence,
            window: Window::new(sa),
            failures: 0,
            packets: 0,
            bytes: 0,
            first: None,
        };
        let states = config.sas.iter().map(state).collect();
        Self {
            config,
            stand,
            states,
            bypassed: 0,
            keepalives: 0,
            dummies: 0,
            tries: 0,
            resynchronized: 0,
            reported: 0,
            withheld: 0,
        }
    }

    fn judge(&mut self, frame: &mut Frame, view: &View, back: &mut Vec<Frame>) -> Fate {
        if view.version == 0 {
            return match (view.cut, self.config.forwards_non_ip) {
                (true, _) => Fate::Drop("snapped"),
                (false, true) => Fate::Forward,
                (false, false) => Fate::Drop("non-ip"),
            };
        }
        if let Stand::Second(first) = self.stand {
            return self.leave(frame, view, first, back);
        }
        let inbound = || self.config.sas.iter().filter(|sa| !sa.is_out);
        let (_, dst) = view.addresses(&frame.bytes);
        let is_ours = inbound().any(|sa| sa.dst == dst);
        let takes_udp = inbound().any(|sa| sa.encap.is_some());
        let may_be = view.protocol == ESP || view.protocol == UDP && takes_udp;
        if !may_be || !is_ours {
            return self.clear(frame, view, back);
        }
        if view.fragment {
            return Fate::Drop("fragment");
        }
        match find(frame, view) {
            Esp::None => self.clear(frame, view, back),
            Esp::Keepalive => {
                self.keepalives += 1;
                Fate::Absorb
            }
            Esp::Cut => Fate::Drop(if view.snapped { "snapped" } else { "malformed" }),
            Esp::At { at, end, in_udp } => {
                let word = |at: usize| {
                    u32::from_be_bytes(frame.bytes[at..at + 4].try_into().expect("four"))
                };
                let is_it = |sa: &Sa| {
                    !sa.is_out
                        && sa.spi == word(at)
                        && sa.dst == dst
                        && sa.encap.is_some() == in_udp
                };
                match self.config.sas.iter().position(is_it) {
                    None => Fate::Drop("no-sa"),
                    Some(_) if view.snapped => Fate::Drop("snapped"),
                    Some(row) => self.open(frame, view, row, (at, end, word(at + 4))),
                }
            }
        }
    }

    fn clear(&mut self, frame: &mut Frame, view: &View, back: &mut Vec<Frame>) -> Fate {
        let traffic = Traffic::of(frame, view);
        let found = self.config.policies.iter().find(|own| own.selector.may_match(&traffic));
        let Some(Policy { selector, action }) = found else {
            let wants = |sa: &Sa| {
                !sa.is_out && sa.selectors.iter().any(|selector| selector.may_match(&traffic))
            };
            let wants = !self.config.is_inside && self.config.sas.iter().any(wants);
            if self.is_first() && !wants {
                return Fate::Forward;
            }
            if self.config.bypasses && !wants {
                self.bypassed += 1;
                return Fate::Forward;
            }
            return Fate::Drop("no-policy");
        };
        if self.is_first() {
            let is_seen = !selector.asks_hidden(&traffic);
            return match action {
                Action::Discard if is_seen => Fate::Drop("discard"),
                _ => Fate::Forward,
            };
        }
        match *action {
            _ if selector.asks_hidden(&traffic) => Fate::Drop("fragment"),
            Action::Bypass => {
                self.bypassed += 1;
                Fate::Forward
            }
            Action::Discard => Fate::Drop("discard"),
            Action::Protect(_) if view.snapped => Fate::Drop("snapped"),
            Action::Protect(row) => self.send(frame, view, row, back),
        }
    }

    fn is_first(&self) -> bool {
        matches!(self.stand, Stand::First(_))
    }

    fn send(&mut self, frame: &mut Frame, view: &View, row: usize, back: &mut Vec<Frame>) -> Fate {
        match self.seal(frame, view, row) {
            Ok(()) => Fate::Forward,
            Err(why) => {
                self.answer(why, row, frame, view, back);
                Fate::Drop(why)
            }
        }
    }

    fn seal(&mut self, frame: &mut Frame, view: &View, row: usize) -> Result<(), &'static str> {
        let (sa, state) = (&self.config.sas[row], &mut self.states[row]);
        if let Some(why) = seal::obstacle(sa, frame, view) {
            return Err(why);
        }
        let len = view.end - view.l3;
        state.admit(sa, len, frame.now)?;
        let last = if sa.esn { u64::MAX - 1 } else { u32::MAX.into() };
        if state.sequence >= last {
            return Err("sequence-overflow");
        }
        state.sequence += 1;
        state.count(len);
        frame.bytes = seal::seal(sa, state.sequence, frame, view);
        frame.is_sealed = true;
        frame.wire_len = frame.bytes.len();
        frame.closed = true;
        frame.wrapped |= sa.is_tunnel;
        Ok(())
    }

    fn open(
        &mut self,
        frame: &mut Frame,
        view: &View,
        row: usize,
        (at, end, low): (usize, usize, u32),
    ) -> Fate {
        let (sa, state) = (&self.config.sas[row], &mut self.states[row]);
        let Some(number) = state.window.number(low) else { return Fate::Drop("replay") };
        let sealed = &frame.bytes[at..end];
        let mut found = esp::opened(sa, number, sealed).map(|text| (number, text));
        if found.is_none() {
            state.failures += 1;
            for later in state.later(sa, number) {
                self.tries += 1;
                found = esp::opened(sa, later, sealed).map(|text| (later, text));
                if found.is_some() {
                    self.resynchronized += 1;
                    break;
                }
            }
        }
        let Some((number, text)) = found else { return Fate::Drop("bad-icv") };
        state.failures = 0;
        state.window.accept(number);
        let inner = match strip(sa, frame, view, &text) {
            Inside::Packet(inner) => inner,
            Inside::Dummy => {
                self.dummies += 1;
                return Fate::Absorb;
            }
            Inside::Wrong(why) => return Fate::Drop(why),
        };
        let found = crate::wire::view(&inner);
        let traffic = Traffic::of(&inner, &found);
        if !sa.selectors.is_empty() && !sa.selectors.iter().any(|own| own.matches(&traffic)) {
            return Fate::Drop("selector-mismatch");
        }
        let len = found.end - found.l3;
        if let Err(why) = state.admit(sa, len, frame.now) {
            return Fate::Drop(why);
        }
        state.count(len);
        let wrapped = inner.wrapped && !sa.is_tunnel;
        let secret = inner.bytes[found.l3..found.end].to_vec();
        *frame = Frame { wrapped, secret, is_sealed: false, ..inner };
        match self.stand {
            Stand::First(place) => _ = frame.marks.insert(place, Mark::Opened),
            // An answer would show in the clear what came sealed.
            _ => frame.closed = true,
        }
        Fate::Forward
    }

    /// Sends the size that would fit to the sender of a packet that is too big. No sender of IPv6
    /// goes below 1280 (RFC 8201, 4).
    fn answer(&mut self, why: &str, row: usize, frame: &Frame, view: &View, back: &mut Vec<Frame>) {
        let Some((v4, v6)) = self.config.icmp.filter(|_| why == "too-big") else { return };
        if view.version == 6 && view.end - view.l3 <= 1280 {
            return;
        }
        let mtu = seal::longest(&self.config.sas[row], frame, view) as u32;
        let (src, message, mtu) = match view.version {
            // RFC 1191, 4: the lower half.
            4 => (v4.map(Into::into), (3, 4), mtu & 0xffff),
            _ => (v6.map(Into::into), (2, 0), mtu.max(1280)),
        };
        // An answer would show what a function hides.
        let src = src.filter(|_| !frame.closed);
        match src.and_then(|src| error_with(frame, view, src, message, mtu.to_be_bytes())) {
            Some(error) => {
                self.reported += 1;
                back.push(error);
            }
            None => self.withheld += 1,
        }
    }
}

impl NaiveSa {
    /// The numbers that a packet is tried as after many that did not authenticate (RFC 4303, A3):
    /// of every 16 in a row the last one, with the next two upper halves, 64 in turn.
    fn later(&self, sa: &Sa, number: u64) -> Vec<u64> {
        if !sa.esn || self.failures == 0 || !self.failures.is_multiple_of(16) {
            return Vec::new();
        }
        let round = self.failures / 16 - 1;
        let halves = [1, 2].map(|nth| 2 * (round % 32) + nth);
        halves.iter().filter_map(|half| number.checked_add(half << 32)).collect()
    }

    /// Whether no limit is against one more packet.
    fn admit(&mut self, sa: &Sa, len: usize, now: u64) -> Result<(), &'static str> {
        // Time may go back.
        let age = now.saturating_sub(*self.first.get_or_insert(now));
        let over = sa.hard.packets.is_some_and(|most| self.packets + 1 > most)
            || sa.hard.bytes.is_some_and(|most| self.bytes + len as u64 > most)
            || sa.hard.seconds.is_some_and(|most| age >= most * 1_000_000_000);
        if over { Err("lifetime") } else { Ok(()) }
    }

    fn count(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// ESP in a packet that is no fragment (RFC 4303, 2; RFC 3948, 2).
fn find(frame: &Frame, view: &View) -> Esp {
    if view.protocol == ESP {
        return place(view.l4, view.end, false);
    }
    let word = |at: usize| be16(&frame.bytes[..view.end], view.l4 + at);
    if word(2) != Some(NAT_T_PORT) {
        return Esp::None;
    }
    // RFC 768: the datagram may end before its packet does.
    let end = view.end.min(view.l4 + word(4).unwrap_or(0));
    match frame.bytes.get(view.l4 + 8..end) {
        Some([0xff]) => Esp::Keepalive,
        // RFC 3948, 2.2: IKE.
        Some([0, 0, 0, 0, ..]) => Esp::None,
        _ => place(view.l4 + 8, end, true),
    }
}

fn place(at: usize, end: usize, in_udp: bool) -> Esp {
    if at + 8 <= end { Esp::At { at, end, in_udp } } else { Esp::Cut }
}

impl Function for Gateway {
    fn take(&mut self, frame: &mut Frame, _: Option<&[u8]>, back: &mut Vec<Frame>) -> Fate {
        let view = view(frame);
        match view.lie {
            Some(what) => Fate::Malformed(what),
            None => self.judge(frame, &view, back),
        }
    }

    fn takes_answers(&self) -> bool {
        matches!(self.stand, Stand::Second(_))
    }

    fn counters(&self, _: u64) -> Counters {
        let sum = |is_out: bool, of: fn(&NaiveSa) -> u64| -> u64 {
            let all = self.config.sas.iter().zip(&self.states);
            all.filter(|(sa, _)| sa.is_out == is_out).map(|(_, state)| of(state)).sum()
        };
        let sealing = [
            ("sealed", sum(true, |state| state.packets)),
            ("sealed-bytes", sum(true, |state| state.bytes)),
            ("bypassed", self.bypassed),
        ];
        let opening = [
            ("opened", sum(false, |state| state.packets)),
            ("opened-bytes", sum(false, |state| state.bytes)),
            ("keepalives", self.keepalives),
            ("dummies", self.dummies),
            ("resync-tries", self.tries),
            ("resynchronized", self.resynchronized),
        ];
        let icmp = [
            ("icmp-sent", self.reported),
            ("icmp-withheld", self.withheld),
            ("icmp-rate-limited", 0),
        ];
        let icmp = icmp.into_iter().filter(|_| self.config.icmp.is_some());
        let seals = !self.is_first();
        let opens = !matches!(self.stand, Stand::Second(_));
        let sealing = sealing.into_iter().chain(icmp).filter(|_| seals);
        let opening = opening.into_iter().filter(|_| opens);
        let exact = sealing.chain(opening).map(|(name, count)| (name, (count, count)));
        // How often a number was guessed wrong is the function's own.
        exact.chain(opens.then_some(("reopened", (0, u64::MAX)))).collect()
    }
}
