//! The lines of the view, 80 columns wide.

use ratatui::style::Style;
use ratatui::text::Line;
use serde_json::Value;

use crate::summary::grouped;

/// The columns of a function.
fn columns(cells: [&str; 8]) -> String {
    let [name, device, packets_in, out, drops, busy, queue, bytes] = cells;
    let left = format!("  {name:<12} {device:<8} {packets_in:>7} {out:>7} {drops:>7}");
    format!("{left} {busy:>4} {queue:>8} {bytes:>13}").trim_end().to_owned()
}

/// Their heads. A queue is its mean and its peak in launches. Bytes cross in a second.
const HEADS: [&str; 8] =
    ["function", "device", "in/s", "out/s", "drop/s", "busy", "queue", "bytes (plan)"];

/// The lines of two statistics of the same process and the states of its chains.
pub(super) fn lines(before: &Value, now: &Value, status: &Value) -> Vec<Line<'static>> {
    let seconds = number(now, "/seconds") - number(before, "/seconds");
    let chains = list(now, "/chains").iter();
    let all = chains.enumerate().flat_map(|(at, chain)| {
        let name = text(chain, "/name");
        let same = |other: &&Value| text(other, "/name") == name;
        let before = list(before, "/chains").iter().find(same).unwrap_or(&Value::Null);
        let state = list(status, "/chains").iter().find(same);
        let state = state.map_or("", |status| text(status, "/state"));
        let mut lines = Chain { before, now: chain, seconds }.lines(state);
        if at > 0 {
            lines.insert(0, Line::default());
        }
        lines
    });
    decision(&now["placement"]).into_iter().chain(all).collect()
}

/// The last decision of the monitor of placements, if there was one.
fn decision(placement: &Value) -> Option<Line<'static>> {
    let last = list(placement, "/proposals").last()?;
    let load = |pointer| {
        let load = last.pointer(pointer).and_then(Value::as_f64);
        load.map_or("none".to_owned(), |load| format!("{load:.2}"))
    };
    let moves = list(last, "/moves").iter();
    let moves = moves.map(|own| format!("{} to {}", text(own, "/function"), text(own, "/to")));
    let moves = match moves.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "no move".to_owned(),
        moves if last["refused"].is_null() => moves,
        moves => format!("refused: {moves}"),
    };
    let (before, after) = (load("/cost_before/load"), load("/cost/load"));
    let at = format!("{:.0} s", number(last, "/seconds"));
    let reason = text(last, "/reason");
    let line = format!("placement  {at}  {reason}  load {before} to {after}  {moves}");
    Some(cut(&line, 80).into())
}

/// A chain at two times.
struct Chain<'a> {
    before: &'a Value,
    now: &'a Value,
    seconds: f64,
}

impl Chain<'_> {
    fn rate(&self, pointer: &str) -> f64 {
        rate(self.before, self.now, pointer, self.seconds)
    }

    fn lines(&self, state: &str) -> Vec<Line<'static>> {
        let now = self.now;
        let head = format!(
            "{}  {state}  {:.1} s  {}  bottleneck {}",
            text(now, "/name"),
            number(now, "/duration"),
            match number(now, "/lanes") as u64 {
                1 => "1 lane".into(),
                lanes => format!("{lanes} lanes"),
            },
            now["bottleneck"].as_str().unwrap_or("none"),
        );
        let bits = |pointer| short(self.rate(pointer) * 8.0);
        let packets = format!(
            "  read {:>7}pps {:>7}b/s   sent {:>7}pps {:>7}b/s   in flight {}",
            short(self.rate("/packets/read")),
            bits("/bytes/read"),
            short(self.rate("/packets/sent")),
            bits("/bytes/sent"),
            grouped(number(now, "/packets/in_flight") as u64),
        );
        let micros = |key: &str| format!("{:.1}", number(now, &format!("/latency_us/{key}")));
        let [p50, p95, p99, max] = ["p50", "p95", "p99", "max"].map(micros);
        let latency = format!("  latency us   p50 {p50}   p95 {p95}   p99 {p99}   max {max}");
        let mut lines =
            vec![Line::styled(head, Style::new().bold()), packets.into(), latency.into()];
        lines.extend(self.losses());
        lines.push(Line::styled(columns(HEADS), Style::new().underlined()));
        let functions = list(now, "/functions").iter();
        lines.extend(functions.flat_map(|function| self.function(function)));
        lines
    }

    /// Packets lost outside functions.
    fn losses(&self) -> Option<Line<'static>> {
        let lost = ["malformed", "overload", "unwritten"].into_iter().filter_map(|key| {
            let pointer = format!("/packets/{key}");
            let total = number(self.now, &pointer) as u64;
            let rate = short(self.rate(&pointer));
            (total > 0).then(|| format!("   {key} {rate}/s ({})", grouped(total)))
        });
        let lost: String = lost.collect();
        (!lost.is_empty()).then(|| Line::styled(format!("  lost{lost}"), Style::new().yellow()))
    }

    fn function(&self, now: &Value) -> Vec<Line<'static>> {
        let name = text(now, "/name");
        let functions = list(self.before, "/functions").iter();
        let before = functions.into_iter().find(|other| text(other, "/name") == name);
        let before = before.unwrap_or(&Value::Null);
        let rate = |pointer: &str| rate(before, now, pointer, self.seconds);
        let drops = drops(before, now, self.seconds);
        let dropped = drops.iter().fold(0.0, |sum, (_, rate)| sum + rate);
        let busy = rate("/busy_seconds") / number(self.now, "/lanes").max(1.0) * 100.0;
        let line = columns([
            &cut(name, 12),
            &cut(text(now, "/device"), 8),
            &short(rate("/packets_in")),
            &short(rate("/packets_out")),
            &short(dropped),
            &format!("{busy:.0}%"),
            &self.queue(name),
            &transfers(&rate),
        ]);
        let mut lines = vec![line.into()];
        let shown: Vec<String> =
            drops.iter().map(|(reason, rate)| format!("{reason} {}/s", short(*rate))).collect();
        let style = Style::new().yellow();
        // Four of them fit into a line.
        lines.extend(
            shown.chunks(4).map(|some| Line::styled(format!("    {}", some.join("  ")), style)),
        );
        lines
    }

    /// The mean and the peak of the queue before function `name`, in launches, if it has one.
    fn queue(&self, name: &str) -> String {
        let first = |stage: &&Value| text(stage, "/functions/0") == name;
        let stage = list(self.now, "/stages").iter().find(first);
        let queue = |stage: &Value| {
            let [mean, peak] = ["/queue/mean", "/queue/peak"].map(|at| number(stage, at));
            format!("{mean:.1}/{peak:.1}")
        };
        stage.map_or_else(String::new, queue)
    }
}

/// The bytes that cross for a function in a second, beside those of the plan.
fn transfers(rate: &impl Fn(&str) -> f64) -> String {
    let sum = |keys: [&str; 2]| -> f64 {
        keys.map(|key| rate(&format!("/transfers/{key}"))).iter().sum()
    };
    let moved = sum(["to_device_bytes", "to_host_bytes"]);
    let predicted = sum(["predicted_to_device_bytes", "predicted_to_host_bytes"]);
    match moved + predicted > 0.0 {
        true => format!("{} ({})", short(moved), short(predicted)),
        false => String::new(),
    }
}

/// The drops of a function by reason, in a second. Reasons without drops are left out.
fn drops(before: &Value, now: &Value, seconds: f64) -> Vec<(String, f64)> {
    let reasons = now["drops"].as_object().into_iter().flatten();
    let used = reasons.filter(|(_, count)| count.as_u64() > Some(0));
    let all = used.map(|(reason, _)| {
        let key = format!("/drops/{reason}");
        (reason.clone(), rate(before, now, &key, seconds))
    });
    all.collect()
}

fn rate(before: &Value, now: &Value, pointer: &str, seconds: f64) -> f64 {
    (number(now, pointer) - number(before, pointer)).max(0.0) / seconds.max(1e-3)
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// At most `len` letters.
fn cut(name: &str, len: usize) -> String {
    match name.chars().count() > len {
        true => name.chars().take(len - 1).chain(['~']).collect(),
        false => name.to_owned(),
    }
}

/// A number in at most six letters: 999, 1.23k, 45.6M.
fn short(number: f64) -> String {
    let scaled = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let scale = scaled.into_iter().find(|(size, _)| number >= *size);
    match scale.map(|(size, unit)| (number / size, unit)) {
        None => format!("{number:.0}"),
        Some((number, unit)) if number < 10.0 => format!("{number:.2}{unit}"),
        Some((number, unit)) if number < 100.0 => format!("{number:.1}{unit}"),
        Some((number, unit)) => format!("{number:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats(seconds: f64, packets: u64) -> Value {
        let dropped = packets / 10;
        json!({ "seconds": seconds, "chains": [{
            "name": "edge", "duration": seconds, "lanes": 2, "bottleneck": "nat",
            "packets": { "read": packets, "sent": packets - dropped, "in_flight": 1024,
                "malformed": 0, "overload": 500, "unwritten": 0 },
            "bytes": { "read": packets * 500, "sent": (packets - dropped) * 500 },
            "latency_us": { "p50": 12.34, "p95": 40.0, "p99": 88.8, "max": 1234.5 },
            "functions": [
                { "name": "firewall", "device": "cpu", "packets_in": packets,
                  "packets_out": packets - dropped, "drops": { "rule": dropped, "default": 0 },
                  "busy_seconds": seconds },
                { "name": "a-name-that-is-too-long", "device": "cuda:0",
                  "packets_in": packets - dropped, "packets_out": packets - dropped, "drops": {},
                  "busy_seconds": 0.0, "transfers": { "to_device_bytes": packets * 40,
                  "to_host_bytes": packets * 2, "predicted_to_device_bytes": packets * 40,
                  "predicted_to_host_bytes": 0 } } ],
            "stages": [{ "functions": ["firewall"], "queue": { "mean": 0.25, "peak": 2.5 } }],
        }] })
    }

    fn shown(before: &Value, now: &Value) -> Vec<String> {
        let status = json!({ "chains": [{ "name": "edge", "state": "paused" }] });
        lines(before, now, &status).iter().map(Line::to_string).collect()
    }

    #[test]
    fn a_chain_fits_into_80_columns() {
        let shown = shown(&stats(10.0, 1_000_000), &stats(12.0, 3_000_000));
        let expected = [
            "edge  paused  12.0 s  2 lanes  bottleneck nat",
            "  read   1.00Mpps   4.00Gb/s   sent    900kpps   3.60Gb/s   in flight 1,024",
            "  latency us   p50 12.3   p95 40.0   p99 88.8   max 1234.5",
            "  lost   overload 0/s (500)",
            "  function     device      in/s   out/s  drop/s busy    queue  bytes (plan)",
            "  firewall     cpu        1.00M    900k    100k  50%  0.2/2.5",
            "    rule 100k/s",
            "  a-name-that~ cuda:0      900k    900k       0   0%          42.0M (40.0M)",
        ];
        assert_eq!(shown, expected);
        assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:?}");
    }

    #[test]
    fn the_last_decision_of_the_monitor_comes_first() {
        let shown = |moves: &[(&str, &str)], before: Value, refused: Value| {
            let moves =
                moves.iter().map(|(function, to)| json!({ "function": function, "to": to }));
            let last = json!({ "seconds": 7.4, "reason": "overload", "refused": refused,
                "moves": moves.collect::<Vec<_>>(), "cost": { "load": 0.8254 },
                "cost_before": { "load": before } });
            let mut now = stats(2.0, 10);
            now["placement"] = json!({ "proposals": [{ "seconds": 1 }, last] });
            let shown = shown(&stats(1.0, 0), &now);
            assert!(shown[1].starts_with("edge"), "{shown:?}");
            shown[0].clone()
        };
        let head = "placement  7 s  overload  load 3.30 to 0.83";
        let one = [("nat", "cuda:0"), ("router", "cpu")];
        let line = shown(&one, json!(3.3), Value::Null);
        assert_eq!(line, format!("{head}  nat to cuda:0, router to cpu"));
        let line = shown(&one[..1], json!(3.3), json!("no memory"));
        assert_eq!(line, format!("{head}  refused: nat to cuda:0"));
        let line = shown(&[], Value::Null, Value::Null);
        assert_eq!(line, "placement  7 s  overload  load none to 0.83  no move");
        let line = shown(&[one[0]; 9], json!(3.3), Value::Null);
        assert!(line.chars().count() == 80 && line.ends_with('~'), "{line}");
        assert!(shown(&[], json!(1.0), Value::Null).starts_with("placement"));
        let now = stats(2.0, 10);
        let without = lines(&now, &now, &Value::Null)[0].to_string();
        assert!(without.starts_with("edge"), "{without}");
    }

    #[test]
    fn the_first_look_has_no_rates() {
        let now = stats(10.0, 1_000_000);
        let shown = shown(&now, &now);
        assert!(shown[1].starts_with("  read       0pps       0b/s"), "{shown:?}");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 999.4, 1_234.0, 45_600.0, 999_000.0, 1e7, 2.5e9, 1e12];
        let all: Vec<String> = all.into_iter().map(short).collect();
        assert_eq!(all, ["0", "999", "1.23k", "45.6k", "999k", "10.0M", "2.50G", "1.00T"]);
    }
}
