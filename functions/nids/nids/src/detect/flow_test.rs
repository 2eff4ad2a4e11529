//! Tests of a packet's flow, and changes of it by a match: manual, "Flow Keywords" and "Xbits
//! Keyword".

use core::time::Duration;

use warpline_packet::Instant;
use warpline_packet::wire::ip_protocol;

use super::{FlowFacts, FlowVars, Subject, XBits};
use warpline_nids_rules::{Change, Effect, FlowTest, FlowTests, IntChange, Span, StreamSides};

/// The state of a packet's flow and hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) facts: &'a FlowFacts,
    pub(super) vars: &'a FlowVars,
    pub(super) xbits: &'a XBits,
    pub(super) now: Instant,
}

/// Whether the flow satisfies `tests`.
pub(super) fn holds(tests: &FlowTests, known: &Known<'_>) -> bool {
    has_direction(tests.to_server, known.facts)
        && has_state(tests, known.facts)
        && tests.tests.iter().all(|test| holds_one(test, known))
}

/// A packet without a flow passes as one to a server, as with Suricata.
fn has_direction(to_server: Option<bool>, facts: &FlowFacts) -> bool {
    to_server.is_none_or(|to_server| facts.to_server.unwrap_or(true) == to_server)
}

/// Whether the conditions other than the direction hold. They require a flow.
fn has_state(tests: &FlowTests, facts: &FlowFacts) -> bool {
    let is_asked = tests.established.is_some() || tests.is_stateless || tests.fragments.is_some();
    if is_asked && !facts.has_flow() {
        return false;
    }
    tests.established.is_none_or(|is| is == facts.is_established)
        && tests.fragments.is_none_or(|is| is == facts.is_reassembled)
}

fn holds_one(test: &FlowTest, known: &Known<'_>) -> bool {
    let has_flow = known.facts.has_flow();
    match test {
        FlowTest::Bits { names, is_set } => {
            has_flow && names.iter().any(|name| known.vars.has(*name) == *is_set)
        }
        FlowTest::Int { name, span, is_set } => {
            has_flow && holds_int(known.vars.int(*name), span.as_ref(), *is_set)
        }
        FlowTest::XBits { name, track, is_set } => {
            known.xbits.has(*name, *track, known.subject, known.now) == *is_set
        }
        FlowTest::StreamSize { side, bytes } => {
            let is_tcp = known.subject.protocol == ip_protocol::TCP;
            let is_followed = known.facts.client_bytes > 0 || known.facts.server_bytes > 0;
            has_flow && is_tcp && is_followed && has_size(*side, bytes, known.facts)
        }
    }
}

fn holds_int(value: Option<u32>, span: Option<&Span<u32>>, is_set: bool) -> bool {
    match span {
        None => value.is_some() == is_set,
        Some(span) => value.is_some_and(|value| span.contains(value)),
    }
}

fn has_size(side: StreamSides, span: &Span<u32>, facts: &FlowFacts) -> bool {
    let fits = |bytes: u64| span.contains(u32::try_from(bytes).unwrap_or(u32::MAX));
    let (client, server) = (fits(facts.client_bytes), fits(facts.server_bytes));
    match side {
        StreamSides::Client => client,
        StreamSides::Server => server,
        StreamSides::Both => client && server,
        StreamSides::Either => client || server,
    }
}

/// Does what a match does. `vars` is `None` where the packet has no flow.
pub(super) fn apply(
    effects: &[Effect],
    subject: &Subject<'_>,
    mut vars: Option<&mut FlowVars>,
    xbits: &mut XBits,
    now: Instant,
) {
    for effect in effects {
        match (effect, vars.as_deref_mut()) {
            (Effect::Bit(name, change), Some(vars)) => match change {
                Change::Unset => vars.unset(*name),
                Change::Toggle if vars.has(*name) => vars.unset(*name),
                Change::Set | Change::Toggle => vars.set(*name),
            },
            (Effect::Int(name, change), Some(vars)) => {
                if let Some(value) = changed(vars.int(*name), *change) {
                    vars.set_int(*name, value);
                }
            }
            (Effect::Bit(..) | Effect::Int(..), None) => {}
            (Effect::XBit { name, track, change, expire_s }, _) => {
                let expires = now.after(Duration::from_secs(u64::from(*expire_s)));
                match change {
                    Change::Unset => xbits.unset(*name, *track, subject),
                    Change::Toggle if xbits.has(*name, *track, subject, now) => {
                        xbits.unset(*name, *track, subject);
                    }
                    Change::Set | Change::Toggle => {
                        xbits.set(*name, *track, subject, now, expires);
                    }
                }
            }
        }
    }
}

/// The new value of a number. As in Suricata, adding to an unset number sets it; subtracting leaves
/// it unset.
fn changed(value: Option<u32>, change: IntChange) -> Option<u32> {
    match (change, value) {
        (IntChange::Set(to), _) => Some(to),
        (IntChange::Add(by), value) => Some(value.unwrap_or(0).saturating_add(by)),
        (IntChange::Sub(by), Some(value)) => Some(value.saturating_sub(by)),
        (IntChange::Sub(_), None) => None,
    }
}
