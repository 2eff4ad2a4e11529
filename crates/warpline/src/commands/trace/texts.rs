//! The ways of packets as text and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use warpline_engine::{Chain, NO_CHAIN_ROUTE, NO_CHAIN_ROUTE_NAME};
use warpline_nf::HopPorts;
use warpline_packet::{Malformed, Reason, Verdict};

use super::recorder::{Hop, State, Traced, Way};
use super::snapshot::{Change, Snapshot};

/// All packets of a chain as text.
pub(super) fn chain_to_text(chain: &Chain, packets: &[Traced], alerts: &[Value]) -> String {
    let mut text = String::new();
    for traced in packets {
        let port = chain.ports().iter().nth(traced.port.into());
        let port = port.map_or_else(String::new, |port| format!(", port {}", port.name));
        let _ = writeln!(text, "packet {}, {}{port}", traced.number, traced.captured);
        for way in &traced.ways {
            write_way(&mut text, chain, way);
        }
        for alert in alerts_of(alerts, traced) {
            let about = &alert["alert"];
            let signature = about["signature"].as_str().unwrap_or_default();
            let _ = writeln!(
                text,
                "  alert {}:{}:{} {signature:?}",
                about["gid"], about["signature_id"], about["rev"]
            );
        }
    }
    text
}

fn write_way(text: &mut String, chain: &Chain, way: &Way) {
    match way.maker {
        None => _ = writeln!(text, "  {}", way.start.headline()),
        Some(maker) => {
            let name = &chain.instances[maker].name;
            let _ = writeln!(text, "  made by {name}: {}", way.start.headline());
        }
    }
    let width = way.hops.iter().map(|hop| chain.instances[hop.position].name.len()).max();
    let width = width.unwrap_or(0);
    let mut next_hop = 0;
    for hop in &way.hops {
        let name = &chain.instances[hop.position].name;
        let _ = writeln!(text, "    {name:width$}  {}", in_words(chain, &hop.state));
        for Change { field, from, to } in changes(hop) {
            let [from, to] = [from, to].map(|value| value.unwrap_or_else(|| "none".into()));
            let _ = writeln!(text, "    {:width$}    {field} {from} -> {to}", "");
        }
        if hop.state.next_hop != next_hop {
            next_hop = hop.state.next_hop;
            let hop = hop_in_words(chain, hop.position, next_hop);
            let _ = writeln!(text, "    {:width$}    next hop {hop}", "");
        }
    }
    let end = match way.hops.last() {
        Some(hop) => &hop.after,
        None => &way.start,
    };
    let _ = match (fate(way), way.exit) {
        (SENT, Some(Ok(port))) => {
            let name = chain.ports().iter().nth(port.into()).map_or("none", |port| &port.name);
            writeln!(text, "  sent by port {name}: {}", end.headline())
        }
        (SENT, _) => writeln!(text, "  sent: {}", end.headline()),
        (fate, Some(Err(why))) => writeln!(text, "  {fate} at the end of the chain: {why}"),
        (_, _) if way.hops.is_empty() => writeln!(text, "  {}", in_words(chain, &way.state)),
        (fate, _) => writeln!(text, "  {fate}"),
    };
}

/// All packets of a chain as JSON.
pub(super) fn chain_to_json(chain: &Chain, packets: &[Traced], alerts: &[Value]) -> Value {
    let packet = |traced: &Traced| {
        let port = chain.ports().iter().nth(traced.port.into());
        let ways: Vec<Value> = traced.ways.iter().map(|way| way_to_json(chain, way)).collect();
        json!({
            "number": traced.number,
            "timestamp": traced.captured.to_string(),
            "port": port.map(|port| &port.name),
            "ways": ways,
            "alerts": alerts_of(alerts, traced).collect::<Vec<_>>(),
        })
    };
    let packets: Vec<Value> = packets.iter().map(packet).collect();
    json!({ "name": chain.name, "packets": packets })
}

fn way_to_json(chain: &Chain, way: &Way) -> Value {
    let hop = |hop: &Hop| {
        let change =
            |change: Change| json!({ "field": change.field, "from": change.from, "to": change.to });
        let changes: Vec<Value> = changes(hop).into_iter().map(change).collect();
        let hop_ports = chain.instances[hop.position].function.hop_ports();
        let gateway = hop_ports.and_then(|hops| hops.gateway(hop.state.next_hop));
        json!({
            "function": chain.instances[hop.position].name,
            "verdict": verdict(hop.state.verdict),
            "reason": reason(chain, &hop.state),
            "changes": changes,
            "next_hop": hop.state.next_hop,
            "gateway": gateway.map(|gateway| gateway.to_string()),
        })
    };
    let end = way.hops.last().map_or(&way.start, |hop| &hop.after);
    let is_sent = fate(way) == SENT;
    let exit = way.exit.and_then(Result::ok);
    let exit = exit.and_then(|port| chain.ports().iter().nth(port.into()));
    let at_end = way.exit.and_then(Result::err);
    json!({
        "made_by": way.maker.map(|maker| &chain.instances[maker].name),
        "packet": frame_to_json(&way.start),
        "hops": way.hops.iter().map(hop).collect::<Vec<_>>(),
        "end": fate(way),
        "reason": at_end.or_else(|| reason(chain, &way.state)),
        "sent": is_sent.then(|| frame_to_json(end)),
        "port": exit.map(|port| &port.name),
    })
}

fn frame_to_json(frame: &Snapshot) -> Value {
    let mut fields: Map<String, Value> =
        frame.values().map(|(name, value)| (name.to_owned(), value.into())).collect();
    fields.insert("len".into(), frame.wire_len().into());
    fields.into()
}

/// The alerts about a packet.
fn alerts_of<'a>(alerts: &'a [Value], traced: &Traced) -> impl Iterator<Item = &'a Value> {
    let number = traced.number;
    alerts.iter().filter(move |alert| alert["pcap_cnt"].as_u64() == Some(number))
}

/// The fields that a function changed, unless the packet ended there.
fn changes(hop: &Hop) -> Vec<Change> {
    match is_gone(hop.state.verdict) {
        true => Vec::new(),
        false => hop.before.changes(&hop.after),
    }
}

fn is_gone(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Forward | Verdict::Return | Verdict::Bypass => false,
        Verdict::Dropped | Verdict::Absorbed | Verdict::Malformed | Verdict::Overload => true,
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Forward | Verdict::Bypass => "forwarded",
        Verdict::Return => "answered",
        Verdict::Dropped => "dropped",
        Verdict::Absorbed => "absorbed",
        Verdict::Malformed => "malformed",
        Verdict::Overload => "overload",
    }
}

const SENT: &str = "sent";

/// How a packet ended.
fn fate(way: &Way) -> &'static str {
    match way.exit {
        Some(Err(_)) => verdict(Verdict::Dropped),
        _ if is_gone(way.state.verdict) => verdict(way.state.verdict),
        _ => SENT,
    }
}

fn in_words(chain: &Chain, state: &State) -> String {
    let word = verdict(state.verdict);
    reason(chain, state).map_or_else(|| word.into(), |reason| format!("{word}: {reason}"))
}

/// Why a packet was dropped or rejected.
fn reason(chain: &Chain, state: &State) -> Option<&'static str> {
    match state.verdict {
        Verdict::Dropped if Reason(state.reason) == NO_CHAIN_ROUTE => Some(NO_CHAIN_ROUTE_NAME),
        Verdict::Dropped => {
            let function = chain.instances.get(usize::from(state.by))?;
            function.definition.drops.get(usize::from(state.reason)).copied()
        }
        Verdict::Malformed => {
            Some(Malformed::from_u8(state.reason).map_or("header", Malformed::name))
        }
        _ => None,
    }
}

/// A next hop by its gateway and port, or by its number.
fn hop_in_words(chain: &Chain, position: usize, hop: u16) -> String {
    let hops = chain.instances[position].function.hop_ports();
    let found = |hops: &HopPorts| (hops.gateway(hop), hops.port(hop));
    let (gateway, port) = hops.as_ref().map_or((None, None), found);
    let name = port.and_then(|port| chain.ports().iter().nth(port.into()));
    let gateway = gateway.map_or_else(|| hop.to_string(), |gateway| gateway.to_string());
    match name {
        Some(port) => format!("{gateway}, port {}", port.name),
        None => gateway,
    }
}
