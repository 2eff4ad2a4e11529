//! `warpline ctl`: a request to a running process.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use warpline_io_error::plain;
use warpline_nf::{CounterKind, Definition};

use super::default_socket;
use crate::Failure;
use crate::summary::grouped;
use crate::top::{Leave, view};

/// Counters of a function in the text for people.
const COUNTERS_SHOWN: usize = 6;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Request {
    /// State and packets of each chain
    Status,
    /// The summary so far; with --json, the statistics
    Stats,
    /// A view of rates, drops, queues and latency, once a second; q quits
    Top,
    /// Each function: packets, drops and counters
    Functions,
    /// Each port: packets and bytes
    Ports,
    /// Read rules, routes, SAs and policies again
    Reload,
    /// Show the way of packets that match FILTER, as of tcpdump, through the running chain
    Trace,
    /// Move FUNCTION to DEVICE
    Place,
    /// Place functions with device = "auto" by POLICY
    Policy,
    /// Read no more, drain, and end
    Stop,
    /// Read no packets
    Pause,
    /// Read packets again
    Resume,
}

impl Request {
    /// The names of its values.
    fn values(self) -> &'static [&'static str] {
        match self {
            Self::Place => &["function", "device"],
            Self::Policy => &["policy"],
            Self::Trace => &["filter"],
            _ => &[],
        }
    }

    /// The query of a request.
    fn keys(self, asked: &Asked<'_>, is_json: bool) -> Result<String, Failure> {
        let &Asked { values, chain, count, seconds, .. } = asked;
        let names = self.values();
        if names.len() != values.len() {
            let wanted = match names {
                [] => "no value".to_owned(),
                names => names.join(" and ").to_uppercase().replace(" AND ", " and "),
            };
            return Err(Failure::Usage(format!("ctl: this request takes {wanted}")));
        }
        if chain.is_some() && matches!(self, Self::Reload | Self::Policy) {
            let why = "ctl: --chain has no effect here: this request is for all chains";
            return Err(Failure::Usage(why.into()));
        }
        if self != Self::Trace && (count.is_some() || seconds.is_some()) {
            return Err(Failure::Usage("ctl: --count and --seconds are for `trace`".into()));
        }
        let [count, seconds] = [count, seconds].map(|number| number.map(|own| own.to_string()));
        let values = names.iter().copied().zip(values.iter().map(String::as_str));
        let optional = [
            ("chain", chain),
            ("count", count.as_deref()),
            ("seconds", seconds.as_deref()),
            ("form", Some("text").filter(|_| self == Self::Trace && !is_json)),
        ];
        let optional = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let all = values.chain(optional);
        let all: Vec<String> =
            all.map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        Ok(if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) })
    }

    fn path(self, is_json: bool) -> (Method, &'static str) {
        match self {
            Self::Status => (Method::GET, "status"),
            Self::Top => (Method::GET, "stats"),
            Self::Stats if is_json => (Method::GET, "stats"),
            Self::Stats => (Method::GET, "summary"),
            Self::Functions => (Method::GET, "functions"),
            Self::Ports => (Method::GET, "ports"),
            Self::Trace => (Method::GET, "trace"),
            Self::Reload => (Method::POST, "reload"),
            Self::Place => (Method::POST, "place"),
            Self::Policy => (Method::POST, "policy"),
            Self::Stop => (Method::POST, "stop"),
            Self::Pause => (Method::POST, "pause"),
            Self::Resume => (Method::POST, "resume"),
        }
    }
}

/// A request with its values, of one chain or of all.
pub(crate) struct Asked<'a> {
    pub(crate) request: Request,
    pub(crate) values: &'a [String],
    pub(crate) chain: Option<&'a str>,
    /// Packets of a trace.
    pub(crate) count: Option<u64>,
    /// How long it waits for them.
    pub(crate) seconds: Option<u64>,
}

/// Sends the request and prints the answer. `functions` order the counters that it has.
///
/// # Errors
/// No process serves the socket, or the request is refused.
pub(crate) fn ctl(
    asked: &Asked<'_>,
    socket: Option<&Path>,
    is_json: bool,
    functions: &[&Definition],
) -> Result<(), Failure> {
    let socket = socket.map_or_else(default_socket, PathBuf::from);
    let request = asked.request;
    let keys = request.keys(asked, is_json)?;
    let (method, path) = request.path(is_json);
    if request == Request::Top {
        return top(&socket, &keys, is_json);
    }
    let text = ask(&socket, method, &format!("/v1/{path}{keys}")).map_err(Failure::Run)?;
    let shown = match serde_json::from_str::<Value>(&text) {
        Ok(value) if is_json => format!("{value:#}\n"),
        Ok(value) => table(request, &value, functions),
        Err(_) => text,
    };
    // The reader may have left.
    let _ = io::stdout().lock().write_all(crate::shown::shown(&shown).as_bytes());
    Ok(())
}

/// Shows the chains until `q`, or until the process ends.
fn top(socket: &Path, keys: &str, is_json: bool) -> Result<(), Failure> {
    if is_json || !io::stdout().is_terminal() {
        let text = "ctl top needs a terminal, and has no JSON; use `warpline ctl stats --json`";
        return Err(Failure::Usage(text.into()));
    }
    let get = |path: &str| -> Result<Value, String> {
        let text = ask(socket, Method::GET, &format!("/v1/{path}{keys}"))?;
        serde_json::from_str(&text).map_err(|why| why.to_string())
    };
    let has_begun = Cell::new(false);
    let look = || {
        let all = (get("stats")?, get("status")?);
        has_begun.set(true);
        Ok(all)
    };
    let ended_by = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        // A refusal leaves the system's own behaviour.
        let _ = flag::register_usize(signal, Arc::clone(&ended_by), signal as usize);
    }
    let number = || u8::try_from(ended_by.load(Ordering::Relaxed)).unwrap_or(0);
    match view(io::stdout(), false, || number() > 0, look) {
        Ok(Leave::Ended) if number() > 0 => Err(Failure::Signal(number())),
        Ok(_) => Ok(()),
        Err(_) if has_begun.get() && StdStream::connect(socket).is_err() => {
            let _ = writeln!(io::stdout(), "the process has ended");
            Ok(())
        }
        Err(why) => Err(Failure::Run(why)),
    }
}

/// Sends a request and gives the answer, or the reason why there is none.
fn ask(socket: &Path, method: Method, target: &str) -> Result<String, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(|why| plain(&why))?.block_on(async {
        let sent = timeout(PATIENCE, send(socket, method, target)).await;
        sent.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
    });
    let (status, text) = answer.map_err(|why| format!("{}: {why}", socket.display()))?;
    if status != StatusCode::OK {
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let why = value.as_ref().and_then(|value| value["error"].as_str()).unwrap_or(&text);
        return Err(why.to_owned());
    }
    Ok(text)
}

async fn send(socket: &Path, method: Method, target: &str) -> Result<(StatusCode, String), String> {
    let stream = UnixStream::connect(socket).await.map_err(|why| {
        format!("{}; a process serves it with `warpline run --socket PATH`", plain(&why))
    })?;
    let failed = |why: hyper::Error| why.to_string();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = async {
        // Its errors are those of the request, too.
        let _ = connection.await;
    };
    let request = hyper::Request::builder()
        .method(method)
        .uri(target)
        .header("host", "warpline")
        .body(Empty::<Bytes>::new())
        .map_err(|why| why.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(failed)?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::pin!(connection);
    tokio::select! {
        answer = answer => answer,
        () = &mut connection => Err("the connection was closed".into()),
    }
}

/// A name in a query (RFC 3986, section 2.1).
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// An answer for people.
fn table(request: Request, value: &Value, functions: &[&Definition]) -> String {
    match request {
        Request::Status => {
            let chains: String = list(&value["chains"]).map(status_line).collect();
            chains + &policy_line(value) + &placement_lines(value)
        }
        Request::Functions => {
            lines_of(value, "functions", |own| function_line(own) + &counters(own, functions))
        }
        Request::Ports => match lines_of(value, "ports", port_line) {
            none if none.is_empty() => "no chain has ports\n".into(),
            lines => lines,
        },
        Request::Stats
        | Request::Top
        | Request::Trace
        | Request::Reload
        | Request::Place
        | Request::Policy
        | Request::Stop
        | Request::Pause
        | Request::Resume => text(&value["result"]).to_owned() + "\n",
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn count(value: &Value) -> String {
    grouped(value.as_u64().unwrap_or_default())
}

/// A number of `what`, which takes an `s` if it is not 1.
fn of(what: &str, value: &Value) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(value))
}

/// A line for each entry of list `key` of each chain, after the chain's name.
fn lines_of(value: &Value, key: &str, line: impl Fn(&Value) -> String) -> String {
    let of_chain = |chain: &Value| {
        let name = text(&chain["name"]);
        list(&chain[key]).map(|one| format!("{name:<16} {}\n", line(one))).collect::<String>()
    };
    list(&value["chains"]).map(of_chain).collect()
}

fn status_line(chain: &Value) -> String {
    let packets = &chain["packets"];
    let peers: String = list(&chain["peers"]).map(peer_line).collect();
    format!(
        "{:<16} {:<9} {}, read {}, sent {}, dropped {}, overload {}, in flight {}\n{}{peers}",
        text(&chain["name"]),
        text(&chain["state"]),
        of("lane", &chain["lanes"]),
        count(&packets["read"]),
        count(&packets["sent"]),
        count(&packets["dropped"]),
        count(&packets["overload"]),
        count(&packets["in_flight"]),
        list(&chain["devices"]).map(|own| device_line(own, &chain["lanes"])).collect::<String>(),
    )
}

/// A function on a device.
fn device_line(own: &Value, lanes: &Value) -> String {
    let [function, device] = ["function", "device"].map(|key| text(&own[key]));
    let of = count(lanes);
    format!("  {function:<14} on {device} in {} of {of} lanes\n", count(&own["lanes"]))
}

/// How functions with `device = "auto"` are placed.
fn policy_line(status: &Value) -> String {
    let policy = text(&status["policy"]);
    let stays = match status["by_hand"] == true && is_monitored(policy) {
        true => ", but functions stay where `ctl place` put them",
        false => "",
    };
    if policy.is_empty() { String::new() } else { format!("{:<16} {policy}{stays}\n", "policy") }
}

/// Whether the monitor follows a policy. The others place functions once.
fn is_monitored(policy: &str) -> bool {
    ["throughput", "latency", "energy"].contains(&policy)
}

/// The last decision of the monitor of placements, if it decides.
fn placement_lines(status: &Value) -> String {
    let placement = &status["placement"];
    if placement.is_null() || !is_monitored(text(&status["policy"])) {
        return String::new();
    }
    let head = format!("{:<16} by {}", "placement", text(&placement["policy"]));
    let Some(last) = list(&placement["proposals"]).last() else {
        return format!("{head}, no move\n");
    };
    let seconds = last["seconds"].as_f64().unwrap_or_default();
    let moves: String = list(&last["moves"]).map(move_line).collect();
    let at = match last["refused"].as_str() {
        Some(why) => {
            let retry = seconds + last["retry_seconds"].as_f64().unwrap_or_default();
            format!("{head}, refused after {seconds:.0} s, {why}; next attempt after {retry:.0} s")
        }
        None if moves.is_empty() => format!("{head}, no move after {seconds:.0} s"),
        None => format!("{head}, moved after {seconds:.0} s"),
    };
    let load =
        |cost: &Value| cost["load"].as_f64().map_or("unknown".into(), |load| format!("{load:.3}"));
    let (after, before) = (load(&last["cost"]), load(&last["cost_before"]));
    let reason = text(&last["reason"]);
    format!("{at} ({reason}): load {after}, before {before}\n{moves}")
}

fn move_line(one: &Value) -> String {
    let [chain, function] = ["chain", "function"].map(|key| text(&one[key]));
    let [from, to] = ["from", "to"].map(|key| text(&one[key]));
    format!("  {function} of {chain:?} from {from} to {to}\n")
}

/// An instance that is linked to a chain.
fn peer_line(peer: &Value) -> String {
    let refused = list_values(&peer["refused"]);
    format!(
        "  {:<14} {:<10} {:<8} sent {}, received {}, refused {}, paused {:.1} s\n",
        text(&peer["name"]),
        text(&peer["side"]),
        if peer["paused"] == true { "paused" } else { "" },
        count(&peer["sent"]),
        count(&peer["received"]),
        grouped(refused),
        peer["paused_seconds"].as_f64().unwrap_or_default(),
    )
}

/// The sum of the counts of a table.
fn list_values(value: &Value) -> u64 {
    value.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

fn function_line(function: &Value) -> String {
    let drops = function["drops"].as_object().into_iter().flatten();
    let drops = drops.filter(|(_, n)| n.as_u64() > Some(0));
    let drops = drops.map(|(reason, n)| format!("{reason} {}", count(n)));
    format!(
        "{:<16} {:<12} in {}, out {}  {}",
        text(&function["name"]),
        text(&function["device"]),
        count(&function["packets_in"]),
        count(&function["packets_out"]),
        drops.collect::<Vec<_>>().join(", "),
    )
}

/// A line with the first counters of a function that have counted, in the order of its manual.
fn counters(function: &Value, functions: &[&Definition]) -> String {
    let definition = functions.iter().find(|own| own.name == text(&function["function"]));
    let known = definition.into_iter().flat_map(|own| own.counters);
    let known = known.filter(|own| own.kind != CounterKind::Peak).map(|own| own.name);
    let counted = known.filter(|name| function["counters"][*name].as_u64() > Some(0));
    let shown = counted.take(COUNTERS_SHOWN);
    let shown: Vec<String> =
        shown.map(|name| format!("{name} {}", count(&function["counters"][name]))).collect();
    if shown.is_empty() { String::new() } else { format!("\n{:19}{}", "", shown.join(", ")) }
}

fn port_line(port: &Value) -> String {
    format!(
        "{:<16} {:<8} read {}, sent {}",
        text(&port["name"]),
        text(&port["side"]),
        count(&port["packets"]["read"]),
        count(&port["packets"]["sent"]),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_show_their_first_counters() {
        let definition = warpline_functions::definition("nat").expect("a function");
        let names: Vec<&str> = definition.counters.iter().map(|own| own.name).collect();
        let mut own: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!(1_000))).collect();
        own["created"] = json!(0);
        let function = json!({ "function": "nat", "counters": own });
        let line = counters(&function, &[definition]);
        assert!(line.starts_with("\n                   bindings 1,000, expired 1,000, "), "{line}");
        assert_eq!(line.matches(", ").count(), 5);
        assert_eq!(counters(&json!({ "function": "none" }), &[definition]), "");
    }

    #[test]
    fn a_decision_moves_functions_or_none() {
        let one = json!({ "chain": "edge", "function": "nat", "from": "cpu", "to": "cuda:0" });
        let by = |policy: &str, moves: &[&Value], refused: Value| {
            let proposal = json!({
                "seconds": 7.2,
                "reason": "better",
                "moves": moves,
                "refused": refused,
                "retry_seconds": 20.0,
                "cost": { "load": 0.25 },
                "cost_before": { "load": 0.5 },
            });
            let placement = json!({ "policy": "energy", "proposals": [proposal] });
            placement_lines(&json!({ "policy": policy, "placement": placement }))
        };
        let lines = |moves: &[&Value], refused: Value| by("energy", moves, refused);
        assert_eq!(by("device_only", &[&one], Value::Null), "", "the monitor decides nothing");
        let head = "placement        by energy,";
        let rest = "(better): load 0.250, before 0.500\n";
        let moved = "  nat of \"edge\" from cpu to cuda:0\n";
        assert_eq!(lines(&[&one], Value::Null), format!("{head} moved after 7 s {rest}{moved}"));
        assert_eq!(lines(&[], Value::Null), format!("{head} no move after 7 s {rest}"));
        let refused = "refused after 7 s, no memory; next attempt after 27 s";
        let refused = format!("{head} {refused} {rest}{moved}");
        assert_eq!(lines(&[&one], json!("no memory")), refused);
    }
}
