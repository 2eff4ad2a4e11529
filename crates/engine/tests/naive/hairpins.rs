//! Packets from inside to inside by an outside address (RFC 4787, REQ-9), at the first of two
//! places, from the translator's manual.

use std::net::IpAddr;

use crate::bindings::{Choice, Endpoint, FlowKind};
use crate::nat::{Done, Given, Nat};
use crate::nat_packets::{
    Content, chosen, content, ends, has_ports, is_request, receiver, shown_by_error,
};
use crate::quote::Quoted;
use crate::rewrite::{Side, rewrite, rewrite_quoted};
use crate::second::Mark;
use crate::wire::{Frame, View};
use warpline_testkit::conntrack::Seen;

/// The parts of a packet by which bindings are looked up.
struct Flow {
    kind: FlowKind,
    protocol: u8,
    own: Endpoint,
    to: Endpoint,
    segment: Option<Seen>,
    opens: bool,
}

/// An endpoint as a remote one.
fn remote(kind: FlowKind, (address, port): Endpoint) -> Endpoint {
    (address, if has_ports(kind) { port } else { 0 })
}

impl Nat {
    /// Whether an error from elsewhere is about a packet from an outside address to an inside host.
    pub(crate) fn quotes_hairpin(&self, frame: &Frame, view: &View) -> bool {
        let holds = |address: IpAddr| self.config.inside.iter().any(|own| own.holds(address));
        match content(frame, view) {
            _ if view.later() => {
                self.first(frame, view).is_some_and(|Given(_, outside)| outside.is_some())
            }
            Ok(Content::Error(quoted)) => holds(quoted.dst),
            _ => false,
        }
    }

    pub(crate) fn hairpin(&mut self, frame: &mut Frame, view: &View, left: Option<&[u8]>) -> Done {
        let (src, dst) = view.addresses(&frame.bytes);
        if view.later() {
            let Given(inside, outside) = self.first(frame, view).ok_or("fragment")?;
            let outside = outside.ok_or("fragment")?;
            rewrite(frame, view, Side::Destination, (inside, None));
            self.at.last(frame, Mark::Hairpin(outside, None, src), None);
            self.hairpins += 1;
            return Ok(());
        }
        let given = match content(frame, view)? {
            Content::Flow { kind: FlowKind::Other(_), .. } => return Err("hairpin"),
            Content::Error(quoted) => {
                let shown = left.and_then(|left| shown_by_error(left, frame, view));
                self.hairpin_error(frame, view, &quoted, shown)?
            }
            Content::Flow { kind, from, to, segment, opens } => {
                let protocol = view.protocol;
                let (own, to) = ((src, from), (dst, to));
                let choice = left.and_then(|left| chosen(left, frame, view));
                let given = left.and_then(|left| receiver(left, frame, view));
                let flow = Flow { kind, protocol, own, to, segment, opens };
                let [inside, outside] = self.hairpin_ends(&flow, [given, choice], frame.now)?;
                rewrite(frame, view, Side::Destination, (inside.0, Some(inside.1)));
                let mark = Mark::Hairpin(outside.0, Some(outside.1), src);
                self.at.last(frame, mark, None);
                Given(inside.0, Some(outside.0))
            }
        };
        self.remember(frame, view, (src, dst), given);
        self.hairpins += 1;
        Ok(())
    }

    /// The inside end that a packet goes to, and the outside one that it comes from.
    fn hairpin_ends(
        &mut self,
        flow: &Flow,
        [given, choice]: [Option<Endpoint>; 2],
        now: u64,
    ) -> Result<[Endpoint; 2], &'static str> {
        let Flow { kind, protocol, own, to, opens, .. } = *flow;
        let (segment, reached) = (flow.segment.as_ref(), remote(kind, to));
        let shard = self.config.shard_of_hairpins(own.0, protocol, to);
        let forwarded = self.config.rules.forward(protocol, to);
        // Without a receiver no binding is made. Only hosts with an address of their own answer
        // echoes.
        let is_request = kind == FlowKind::Echo && opens;
        if forwarded.is_none() && is_request {
            return Err("no-binding");
        }
        if forwarded.is_none() {
            self.bindings.find_unknown(kind, to, given);
            if !self.bindings.has_outside(kind, to) {
                return Err("no-binding");
            }
        }
        let outside = match self.bindings.answer((kind, own, reached), segment, now) {
            Some(answered) => answered?,
            None => {
                let choice = Choice::Hairpin(shard, choice);
                self.bindings.out(kind, own, reached, segment, opens, now, choice)?
            }
        };
        let sender = remote(kind, outside);
        let inside = match forwarded {
            Some(inside) => {
                self.bindings.forward((kind, inside, sender), to, segment, now)?;
                inside
            }
            None => self.bindings.inward(kind, to, sender, (segment, None), now)?,
        };
        Ok([inside, outside])
    }

    /// An error about a hairpin, to its sender: the quote shows the packet as that sent it.
    fn hairpin_error(
        &mut self,
        frame: &mut Frame,
        view: &View,
        quoted: &Quoted,
        shown: Option<Endpoint>,
    ) -> Result<Given, &'static str> {
        let (src, dst) = view.addresses(&frame.bytes);
        let (kind, from, to) = ends(quoted).ok_or("bad-quote")?;
        if quoted.src != dst || kind == FlowKind::Echo && !is_request(quoted) {
            return Err("bad-quote");
        }
        if let FlowKind::Other(_) = kind {
            return Err("no-binding");
        }
        let (receiver, sender) = ((quoted.dst, to), (quoted.src, from));
        let reached_by = remote(kind, sender);
        let shard = self.config.shard_of_hairpins(receiver.0, quoted.protocol, sender);
        self.bindings.learn(Some(shard), (kind, receiver, reached_by), shown);
        let connection = self.bindings.connection(kind, receiver, reached_by);
        let outside = connection
            .or_else(|| self.bindings.find_in(shard, kind, receiver, reached_by))
            .ok_or("no-binding")?
            .outside;
        let seen_as = remote(kind, outside);
        let inside = match self.config.rules.forward(quoted.protocol, sender) {
            Some(inside) => {
                let known = self.bindings.connection(kind, inside, seen_as);
                known.ok_or("no-binding")?.inside
            }
            None => self.bindings.permitted(kind, sender, seen_as, frame.now, None)?.inside,
        };
        rewrite_quoted(frame, view, quoted, Side::Source, (inside.0, Some(inside.1)));
        rewrite(frame, view, Side::Destination, (inside.0, None));
        self.at.last(frame, Mark::ErrorOut(outside.0, outside.1, src), None);
        Ok(Given(inside.0, Some(outside.0)))
    }
}
