//! The translator, from its manual. Which port a binding gets is the engine's choice, and checked.

use std::net::IpAddr;

use crate::bindings::{Binding, Bindings, Config, Endpoint, FlowKind, OUTSIDE};
use crate::connections::seen;
use crate::function::{Counters, Fate, Function};
use crate::prefix::Prefix;
use crate::quote::{Quoted, quoted};
use crate::rewrite::{Side, rewrite, rewrite_quoted};
use crate::second::{At, Mark};
use crate::wire::{Frame, ICMP, ICMPV6, TCP, UDP, View, be16, view};
use warpline_testkit::conntrack::Seen;

pub(crate) const FRAGMENTS_NANOS: u64 = 60_000_000_000;

/// The function.
pub(crate) struct Nat {
    at: At,
    config: Config,
    bindings: Bindings,
    /// The outside address that first fragments got, and when.
    fragments: Vec<(Whole, IpAddr, u64)>,
    outbound: u64,
    inbound: u64,
    errors: u64,
    untranslated: u64,
    out_of_window: u64,
}

/// Source, destination, identification and, of IPv4, protocol: what fragments of a packet share.
pub(crate) type Whole = (IpAddr, IpAddr, u32, u8);

/// The content of a packet.
enum Content {
    Flow { kind: FlowKind, from: u16, to: u16, segment: Option<Seen>, opens: bool },
    Error(Quoted),
}

type Done = Result<(), &'static str>;

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
        match (within(inside, src), within(outside, dst)) {
            (false, true) => return self.inward(frame, view),
            (true, _) if within(inside, dst) || stays_on_link(dst) => {}
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
        self.untranslated += 1;
        Ok(())
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
        let quoted = quoted(frame, view).filter(|_| is_error(frame, view));
        let is_inside = |own: &Quoted| self.config.inside.iter().any(|p| p.holds(own.dst));
        if let Some(quoted) = quoted.filter(is_inside) {
            return quoted.src != dst || self.is_quote_translated(&quoted);
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
            let address = self.first(frame, view).ok_or("fragment")?;
            self.at.last(frame, Mark::Source(address, None, src), None);
            self.outbound += 1;
            return Ok(());
        }
        match content(frame, view)? {
            Content::Error(quoted) => {
                let binding = self.about(&quoted, dst)?;
                let (address, port) = binding.outside;
                self.remember(frame, view, (src, dst), address);
                self.at.last(frame, Mark::ErrorOut(address, port, src), None);
                self.errors += 1;
            }
            Content::Flow { kind, from, to, segment, opens } => {
                let remote = (dst, if has_ports(kind) { to } else { 0 });
                let choice = left.and_then(|left| chosen(left, frame, view));
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
                self.remember(frame, view, (src, dst), outside.0);
                let port = Some(outside.1).filter(|_| !matches!(kind, FlowKind::Other(_)));
                self.at.last(frame, Mark::Source(outside.0, port, src), None);
                self.outbound += 1;
            }
        }
        Ok(())
    }

    /// The address that the first fragment of a packet got.
    fn first(&self, frame: &Frame, view: &View) -> Option<IpAddr> {
        let known = fragment_key(frame, view);
        let first = self.fragments.iter().rev().find(|(key, _, _)| *key == known)?;
        (frame.now < first.2 + FRAGMENTS_NANOS).then_some(first.1)
    }

    fn remember(&mut self, frame: &Frame, view: &View, ends: (IpAddr, IpAddr), outside: IpAddr) {
        if view.fragment {
            let (_, _, ident, protocol) = fragment_key(frame, view);
            self.fragments.push(((ends.0, ends.1, ident, protocol), outside, frame.now));
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

    fn inward(&mut self, frame: &mut Frame, view: &View) -> Done {
        let (src, dst) = view.addresses(&frame.bytes);
        if view.later() {
            let address = self.first(frame, view).ok_or("fragment")?;
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
                    None => self.bindings.permitted(kind, (dst, from), remote, frame.now)?.inside,
                };
                let to = (inside.0, Some(inside.1));
                self.at.readdresses(frame, view);
                rewrite_quoted(frame, view, &quoted, Side::Source, to);
                self.remember(frame, view, (src, dst), inside.0);
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
                    None => self.bindings.inward(kind, (dst, to), remote, segment, frame.now)?,
                };
                self.remember(frame, view, (src, dst), inside.0);
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
                    let key = fragment_key(frame, &view);
                    self.fragments.retain(|(known, ..)| *known != key);
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
            ("hairpins", 0),
            ("out-of-window", self.out_of_window),
        ];
        all.extend(own.map(|(name, count)| (name, (count, count))));
        all
    }

    fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.bindings.complaints)
    }
}

/// The content of an IP packet that is no later fragment, or why it can't be translated.
fn content(frame: &Frame, view: &View) -> Result<Content, &'static str> {
    let own = |protocol| protocol == if view.version == 4 { ICMP } else { ICMPV6 };
    let hidden = view.version == 6 && [0, 43, 44, 51, 60].contains(&view.protocol) && view.snapped;
    if portless(view.version, view.protocol) {
        let kind = FlowKind::Other(view.protocol);
        return Ok(Content::Flow { kind, from: 0, to: 0, segment: None, opens: true });
    }
    let known = [TCP, UDP].contains(&view.protocol) || own(view.protocol) || hidden;
    if !known {
        return Err("unsupported-protocol");
    }
    if !view.transport {
        return Err("snapped");
    }
    if own(view.protocol) {
        return message(frame, view);
    }
    let (from, to) = view.ports(&frame.bytes).expect("TCP and UDP have ports");
    let kind = if view.protocol == TCP { FlowKind::Tcp } else { FlowKind::Udp };
    let segment = (kind == FlowKind::Tcp).then(|| seen(frame, view));
    let has_flags = |seen: &Seen| {
        [0x02, 0x22, 0x12, 0x11, 0x31, 0x10, 0x30, 0x04, 0x14].contains(&(seen.flags & 0x37))
    };
    if segment.as_ref().is_some_and(|seen| !has_flags(seen)) {
        return Err("invalid");
    }
    let opens = segment.as_ref().is_none_or(|seen| seen.flags & 4 == 0);
    Ok(Content::Flow { kind, from, to, segment, opens })
}

/// RFC 792 and RFC 4443; a redirect stays on its link.
fn message(frame: &Frame, view: &View) -> Result<Content, &'static str> {
    let ident = be16(&frame.bytes, view.l4 + 4).unwrap_or(0) as u16;
    let kind = frame.bytes[view.l4];
    match (view.version, kind) {
        (4, 8 | 0) | (6, 128 | 129) => {
            let opens = kind == 8 || kind == 128;
            Ok(Content::Flow { kind: FlowKind::Echo, from: ident, to: ident, segment: None, opens })
        }
        (4, 3 | 4 | 11 | 12) | (6, 0..128) => {
            let without = if view.snapped { "snapped" } else { "bad-quote" };
            let quoted = quoted(frame, view).filter(|quoted| ends(quoted).is_some());
            Ok(Content::Error(quoted.ok_or(without)?))
        }
        _ => Err("unsupported-protocol"),
    }
}

/// Whether a packet is an ICMP error, however much of it there is.
fn is_error(frame: &Frame, view: &View) -> bool {
    match (view.version, view.message(&frame.bytes)) {
        (4, Some((kind, _))) => view.protocol == ICMP && [3, 4, 11, 12].contains(&kind),
        (6, Some((kind, _))) => view.protocol == ICMPV6 && kind < 128,
        _ => false,
    }
}

/// The ports of a quoted packet, and what has them.
pub(crate) fn ends(quoted: &Quoted) -> Option<(FlowKind, u16, u16)> {
    let version = if quoted.src.is_ipv4() { 4 } else { 6 };
    if portless(version, quoted.protocol) && !quoted.later && !quoted.extended {
        return Some((FlowKind::Other(quoted.protocol), 0, 0));
    }
    let (from, to) = quoted.ends()?;
    let kind = match quoted.protocol {
        TCP => FlowKind::Tcp,
        UDP => FlowKind::Udp,
        _ => FlowKind::Echo,
    };
    Some((kind, from, to))
}

/// Protocols without ports whose checksums cover no addresses. IPComp is not translated.
pub(crate) fn portless(version: u8, protocol: u8) -> bool {
    let known = [TCP, UDP, ICMP, ICMPV6, 33, 108, 136].contains(&protocol);
    let covered = version == 6 && [0, 43, 44, 51, 60, 89, 103, 112, 135, 139].contains(&protocol);
    !(known || covered || version == 4 && protocol == 0)
}

fn has_ports(kind: FlowKind) -> bool {
    matches!(kind, FlowKind::Tcp | FlowKind::Udp)
}

fn is_request(quoted: &Quoted) -> bool {
    let is_echo = quoted.protocol == ICMP || quoted.protocol == ICMPV6;
    is_echo && quoted.message.is_some_and(|(kind, _)| kind == 8 || kind == 128)
}

pub(crate) fn fragment_key(frame: &Frame, view: &View) -> Whole {
    let (src, dst) = view.addresses(&frame.bytes);
    let word = |at| be16(&frame.bytes, at).unwrap_or(0) as u32;
    match view.version {
        4 => (src, dst, word(view.l3 + 4), view.protocol),
        _ => (src, dst, word(view.fragment_at + 4) << 16 | word(view.fragment_at + 6), 0),
    }
}

/// Destinations that stay on the link: link-local addresses, all of the link, its groups.
fn stays_on_link(dst: IpAddr) -> bool {
    match dst {
        IpAddr::V4(a) => a.is_broadcast() || a.octets()[..3] == [224, 0, 0],
        IpAddr::V6(a) => {
            let first = a.segments()[0];
            first & 0xffc0 == 0xfe80 || (first >> 8 == 0xff && first & 15 <= 2)
        }
    }
}

/// The source that the engine gave a packet.
fn chosen(left: &[u8], frame: &Frame, view: &View) -> Option<Endpoint> {
    let given = Frame { bytes: left.to_vec(), ..frame.clone() };
    let at = view.l4 + if matches!(view.protocol, TCP | UDP) { 0 } else { 4 };
    (left.len() == frame.bytes.len()).then_some(())?;
    if portless(view.version, view.protocol) {
        return Some((view.addresses(&given.bytes).0, 0));
    }
    Some((view.addresses(&given.bytes).0, be16(left, at)? as u16))
}
