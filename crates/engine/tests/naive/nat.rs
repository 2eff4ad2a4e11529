//! The translator, from its manual. Which port a binding gets is the engine's choice, and checked.

use std::net::IpAddr;

use crate::binding::Binding;
use crate::bindings::{Bindings, Choice, Config, FlowKind, OUTSIDE};
use crate::function::{Counters, Fate, Function};
use crate::nat_packets::{
    Content, Whole, chosen, content, ends, fragment_key, has_ports, is_error, is_request, receiver,
    shown_by_error, stays_on_link,
};
use crate::prefix::Prefix;
use crate::quote::{Quoted, quoted, quoted_ends};
use crate::rewrite::{Side, rewrite, rewrite_quoted};
use crate::second::{At, Mark};
use crate::wire::{Frame, ICMP, ICMPV6, View, view};

pub(crate) const FRAGMENTS_NANOS: u64 = 60_000_000_000;

/// The function.
pub(crate) struct Nat {
    pub(crate) at: At,
    pub(crate) config: Config,
    pub(crate) bindings: Bindings,
    /// The address that first fragments got, and when.
    fragments: Vec<(Whole, Given, u64)>,
    outbound: u64,
    inbound: u64,
    errors: u64,
    untranslated: u64,
    pub(crate) hairpins: u64,
    out_of_window: u64,
}

/// New address of a packet; of a hairpin the new destination and source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given(pub(crate) IpAddr, pub(crate) Option<IpAddr>);

pub(crate) type Done = Result<(), &'static str>;

impl Nat {
    pub(crate) fn new(config: Config, at: At) -> Self {
        let bindings = Bindings::new(config.clone());
        Self {
            at,
            config,
            bindings,
            fragments: Vec::new(),
            outbound: 0,
            inbound: 0,
            errors: 0,
            untranslated: 0,
            hairpins: 0,
            out_of_window: 0,
        }
    }

    fn handle(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        if view.version == 0 {
            self.untranslated += u64::from(!view.cut);
            return if view.cut { Err("snapped") } else { Ok(()) };
        }
        let (src, dst) = view.addresses(&frame.bytes);
        let within = |all: &[Prefix], address| all.iter().any(|prefix| prefix.holds(address));
        let (inside, outside) = (&self.config.inside, &self.config.outside);
        let has_two = matches!(self.at, At::First(_));
        match (within(inside, src), within(outside, dst)) {
            (false, true) if has_two && self.quotes_hairpin(frame, view) => {
                return self.hairpin(frame, view, left);
            }
            (false, true) => return self.inward(frame, view, left),
            (true, _) if within(inside, dst) || stays_on_link(dst) => {}
            (true, true) if self.is_about_remote(frame, view, dst) => {
                return self.inward(frame, view, left);
            }
            (true, true) if has_two => return self.hairpin(frame, view, left),
            (true, true) => return Err("hairpin"),
            (true, false) if dst.is_multicast() => return Err("multicast"),
            (true, false) if !self.is_translated(frame, view) => {}
            (true, false) => return self.outward(frame, view, left),
            (false, false) if self.is_about_binding(frame, view, dst) => {
                return self.outward(frame, view, left);
            }
            (false, false) if view.later() && self.first(frame, view).is_some() => {
                return self.outward(frame, view, left);
            }
            (false, false) => {}
        }
        // Later fragments follow the last first one.
        if view.fragment && !view.later() {
            self.forget(frame, view);
        }
        self.untranslated += 1;
        Ok(())
    }

    /// Whether it is an error about a packet from an outside address to a remote one.
    fn is_about_remote(&self, frame: &Frame, view: &View, dst: IpAddr) -> bool {
        let Config { inside, outside, .. } = &self.config;
        let is_ours = |address| inside.iter().chain(outside).any(|own| own.holds(address));
        if view.later() && [ICMP, ICMPV6].contains(&view.protocol) {
            return self.first(frame, view).is_some_and(|Given(_, outside)| outside.is_none());
        }
        match content(frame, view) {
            Ok(Content::Error(_)) => {
                quoted_ends(frame, view).is_some_and(|(from, to, _)| from == dst && !is_ours(to))
            }
            _ => false,
        }
    }

    /// Whether it is an error about a packet from outside to an inside host, with a binding.
    fn is_about_binding(&self, frame: &Frame, view: &View, dst: IpAddr) -> bool {
        let holds = |address| self.config.inside.iter().any(|prefix| prefix.holds(address));
        match content(frame, view) {
            Ok(Content::Error(quoted)) => {
                holds(quoted.dst)
                    && !holds(dst)
                    && self.about(&quoted, dst).is_ok()
                    && self.is_quote_translated(&quoted)
            }
            _ => false,
        }
    }

    /// Whether rules translate a packet from inside, or it answers one to a forwarded port. An
    /// error is like the packet that it quotes.
    fn is_translated(&self, frame: &Frame, view: &View) -> bool {
        let (src, dst) = view.addresses(&frame.bytes);
        let by_rule = self.config.rules.translates(src, dst, view.protocol);
        if view.later() {
            return by_rule || self.first(frame, view).is_some();
        }
        let ends = quoted_ends(frame, view).filter(|_| is_error(frame, view));
        let holds = |host: IpAddr| self.config.inside.iter().any(|own| own.holds(host));
        if let Some((remote, host, protocol)) = ends.filter(|(_, host, _)| holds(*host)) {
            return remote != dst
                || self.config.rules.translates(host, remote, protocol)
                || quoted(frame, view).is_some_and(|own| self.is_quote_translated(&own));
        }
        by_rule
            || match content(frame, view) {
                Ok(Content::Flow { kind, from, to, .. }) => {
                    self.bindings.connection(kind, (src, from), (dst, to)).is_some()
                }
                _ => false,
            }
    }

    /// The same of a packet that an error from inside quotes.
    fn is_quote_translated(&self, quoted: &Quoted) -> bool {
        let Quoted { src: remote, dst: host, protocol, .. } = *quoted;
        self.config.rules.translates(host, remote, protocol)
            || ends(quoted).is_some_and(|(kind, from, to)| {
                self.bindings.connection(kind, (host, to), (remote, from)).is_some()
            })
    }

    fn outward(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let (src, dst) = view.addresses(&frame.bytes);
        if view.later() {
            let Given(address, _) = self.first(frame, view).ok_or("fragment")?;
            self.at.last(frame, Mark::Source(address, None, src), None);
            self.outbound += 1;
            return Ok(());
        }
        match content(frame, view)? {
            Content::Error(quoted) => {
                if let Some((kind, from, to)) = ends(&quoted) {
                    let remote = (quoted.src, if has_ports(kind) { from } else { 0 });
                    let shown = left.and_then(|left| shown_by_error(left, frame, view));
                    self.bindings.learn(None, (kind, (quoted.dst, to), remote), shown);
                }
                let binding = self.about(&quoted, dst)?;
                let (address, port) = binding.outside;
                self.remember(frame, view, (src, dst), Given(address, None));
                self.at.last(frame, Mark::ErrorOut(address, port, src), None);
                self.errors += 1;
            }
            Content::Flow { kind, from, to, segment, opens } => {
                let remote = (dst, if has_ports(kind) { to } else { 0 });
                let choice = Choice::Port(left.and_then(|left| chosen(left, frame, view)));
                let answers = (kind, (src, from), (dst, to));
                let outside = match self.bindings.answer(answers, segment.as_ref(), frame.now) {
                    Some(answered) => answered?,
                    None => self.bindings.out(
                        kind,
                        (src, from),
                        remote,
                        segment.as_ref(),
                        opens,
                        frame.now,
                        choice,
                    )?,
                };
                self.remember(frame, view, (src, dst), Given(outside.0, None));
                let port = Some(outside.1).filter(|_| !matches!(kind, FlowKind::Other(_)));
                self.at.last(frame, Mark::Source(outside.0, port, src), None);
                self.outbound += 1;
            }
        }
        Ok(())
    }

    /// The address that the first fragment of a packet got.
    pub(crate) fn first(&self, frame: &Frame, view: &View) -> Option<Given> {
        let known = fragment_key(frame, view);
        let first = self.fragments.iter().rev().find(|(key, _, _)| *key == known)?;
        (frame.now < first.2 + FRAGMENTS_NANOS).then_some(first.1)
    }

    fn forget(&mut self, frame: &Frame, view: &View) {
        let key = fragment_key(frame, view);
        self.fragments.retain(|(known, ..)| *known != key);
    }

    pub(crate) fn remember(
        &mut self,
        frame: &Frame,
        view: &View,
        ends: (IpAddr, IpAddr),
        given: Given,
    ) {
        if view.fragment {
            let (_, _, ident, protocol) = fragment_key(frame, view);
            self.fragments.push(((ends.0, ends.1, ident, protocol), given, frame.now));
        }
    }

    /// The binding that an error from inside is about.
    fn about(&self, quoted: &Quoted, dst: IpAddr) -> Result<&Binding, &'static str> {
        let (kind, from, to) = ends(quoted).ok_or("bad-quote")?;
        if quoted.src != dst || is_request(quoted) {
            return Err("bad-quote");
        }
        let remote = (quoted.src, if has_ports(kind) { from } else { 0 });
        let connection = self.bindings.connection(kind, (quoted.dst, to), (quoted.src, from));
        connection
            .or_else(|| self.bindings.find(kind, (quoted.dst, to), remote))
            .ok_or("no-binding")
    }

    fn inward(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let (src, dst) = view.addresses(&frame.bytes);
        if view.later() {
            let Given(address, _) = self.first(frame, view).ok_or("fragment")?;
            self.at.readdresses(frame, view);
            rewrite(frame, view, Side::Destination, (address, None));
            self.inbound += 1;
            return Ok(());
        }
        match content(frame, view)? {
            Content::Error(quoted) => {
                let (kind, from, to) = ends(&quoted).ok_or("bad-quote")?;
                if quoted.src != dst || (kind == FlowKind::Echo && !is_request(&quoted)) {
                    return Err("bad-quote");
                }
                let remote = (quoted.dst, if has_ports(kind) { to } else { 0 });
                let inside = match self.config.rules.forward(quoted.protocol, (dst, from)) {
                    Some(inside) => {
                        let known = self.bindings.connection(kind, inside, (quoted.dst, to));
                        known.ok_or("no-binding")?.inside
                    }
                    None => {
                        self.bindings.permitted(kind, (dst, from), remote, frame.now, None)?.inside
                    }
                };
                let to = (inside.0, Some(inside.1));
                self.at.readdresses(frame, view);
                rewrite_quoted(frame, view, &quoted, Side::Source, to);
                self.remember(frame, view, (src, dst), Given(inside.0, None));
                rewrite(frame, view, Side::Destination, (inside.0, None));
                self.errors += 1;
            }
            Content::Flow { kind: FlowKind::Echo, opens: true, .. } => return Err("no-binding"),
            Content::Flow { kind, from, to, segment, .. } => {
                let remote = (src, if has_ports(kind) { from } else { 0 });
                let segment = segment.as_ref();
                let inside = match self.config.rules.forward(view.protocol, (dst, to)) {
                    Some(inside) => {
                        let ends = (kind, inside, (src, from));
                        self.bindings.forward(ends, (dst, to), segment, frame.now)?;
                        inside
                    }
                    None => {
                        let given = (segment, left.and_then(|left| receiver(left, frame, view)));
                        self.bindings.inward(kind, (dst, to), remote, given, frame.now)?
                    }
                };
                self.remember(frame, view, (src, dst), Given(inside.0, None));
                self.at.readdresses(frame, view);
                let port = Some(inside.1).filter(|_| !matches!(kind, FlowKind::Other(_)));
                rewrite(frame, view, Side::Destination, (inside.0, port));
                self.inbound += 1;
            }
        }
        Ok(())
    }
}

impl Function for Nat {
    fn take(&mut self, frame: &mut Frame, left: Option<&[u8]>, _: &mut Vec<Frame>) -> Fate {
        self.bindings.expire(frame.now);
        let view = view(frame);
        if let Some(what) = view.lie {
            return Fate::Malformed(what);
        }
        match self.handle(frame, &view, left) {
            Ok(()) => Fate::Forward,
            Err(why) => {
                if view.fragment && !view.later() {
                    self.forget(frame, &view);
                }
                self.out_of_window += u64::from(why == OUTSIDE);
                Fate::Drop(if why == OUTSIDE { "invalid" } else { why })
            }
        }
    }

    fn follows_first_fragment(&self) -> bool {
        true
    }

    fn counters(&self, now: u64) -> Counters {
        let mut all = self.bindings.counters(now);
        let own = [
            ("outbound", self.outbound),
            ("inbound", self.inbound),
            ("icmp-errors", self.errors),
            ("untranslated", self.untranslated),
            ("hairpins", self.hairpins),
            ("out-of-window", self.out_of_window),
        ];
        all.extend(own.map(|(name, count)| (name, (count, count))));
        all
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.bindings.complaints)
    }

    fn unsure(&self) -> u64 {
        self.bindings.unsure
    }
}
