//! The ways of packets as text and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use warpline_engine::{Chain, NO_CHAIN_ROUTE, NO_CHAIN_ROUTE_NAME};
use warpline_nf::HopPorts;
use warpline_packet::{Malformed, Reason, Verdict};

use super::recorder::{Hop, State, Traced, Way};
use super::snapshot::{Change, Snapshot};

/// All packets of a chain as text.
pub(crate) fn chain_to_text(chain: &Chain, packets: &[Traced], alerts: &[Value]) -> String {
    let mut text = String::new();
    for traced in packets {
        let port = port_name(chain, traced.port);
        let port = port.map_or_else(String::new, |port| format!(", port {port}"));
        let _ = writeln!(text, "packet {}, {}{port}", traced.number, traced.captured);
        for way in &traced.ways {
            write_way(&mut text, chain, (traced, way));
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

fn write_way(text: &mut String, chain: &Chain, (traced, way): (&Traced, &Way)) {
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
    let end = way.end().headline();
    let _ = match (fate(traced, way), way.exit) {
        (SENT, Some(Ok(port))) => {
            let port = port_name(chain, port).unwrap_or("none");
            writeln!(text, "  sent by port {port}: {end}")
        }
        (SENT, _) => writeln!(text, "  sent: {end}"),
        (ON_WAY, _) => writeln!(text, "  {ON_WAY}: {end}"),
        (fate, Some(Err(why))) => writeln!(text, "  {fate} at the end of the chain: {why}"),
        (_, _) if way.hops.is_empty() => writeln!(text, "  {}", in_words(chain, &way.state)),
        (fate, _) => writeln!(text, "  {fate}"),
    };
}

/// All packets of a chain as JSON, with their alerts if these are known.
pub(crate) fn chain_to_json(chain: &Chain, packets: &[Traced], alerts: Option<&[Value]>) -> Value {
    let packet = |traced: &Traced| {
        let way = |way: &Way| way_to_json(chain, (traced, way));
        let mut packet = json!({
            "number": traced.number,
            "timestamp": traced.captured.to_string(),
            "port": port_name(chain, traced.port),
            "ways": traced.ways.iter().map(way).collect::<Vec<_>>(),
        });
        if let Some(alerts) = alerts {
            packet["alerts"] = alerts_of(alerts, traced).cloned().collect();
        }
        packet
    };
    let packets: Vec<Value> = packets.iter().map(packet).collect();
    json!({ "name": chain.name, "packets": packets })
}

fn way_to_json(chain: &Chain, (traced, way): (&Traced, &Way)) -> Value {
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
    let end = fate(traced, way);
    let is_sent = end == SENT;
    let port = way.exit.and_then(Result::ok).and_then(|port| port_name(chain, port));
    let at_end = way.exit.and_then(Result::err);
    json!({
        "made_by": way.maker.map(|maker| &chain.instances[maker].name),
        "packet": frame_to_json(&way.start),
        "hops": way.hops.iter().map(hop).collect::<Vec<_>>(),
        "end": end,
        "reason": at_end.or_else(|| reason(chain, &way.state)),
        "sent": is_sent.then(|| frame_to_json(way.end())),
        "port": port,
    })
}

fn frame_to_json(frame: &Snapshot) -> Value {
    let mut fields: Map<String, Value> =
        frame.values().map(|(name, value)| (name.to_owned(), value.into())).collect();
    fields.insert("len".into(), frame.wire_len().into());
    fields.into()
}

/// The name of a port of a chain that has ports.
fn port_name(chain: &Chain, number: u16) -> Option<&str> {
    chain.ports().iter().nth(number.into()).map(|port| port.name.as_str())
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
const ON_WAY: &str = "on its way";

/// How a packet ended.
fn fate(traced: &Traced, way: &Way) -> &'static str {
    match way.exit {
        Some(Err(_)) => verdict(Verdict::Dropped),
        _ if is_gone(way.state.verdict) => verdict(way.state.verdict),
        _ if !traced.is_over => ON_WAY,
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
    let gateway = gateway.map_or_else(|| hop.to_string(), |gateway| gateway.to_string());
    match port.and_then(|port| port_name(chain, port)) {
        Some(port) => format!("{gateway}, port {port}"),
        None => gateway,
    }
}
