//! The summary of a run, for people: rates, packets by outcome, drops by reason, alerts, and the
//! functions' shares of the time. Counters and tables come with `--verbose`.

use core::cmp::Reverse;

use warpline_engine::stats::{EndedBy, PortStats, ThreadStats, Transfers};
use warpline_engine::{Chain, Deployment, NO_CHAIN_ROUTE_NAME, Report};
use warpline_nf::{About, Cell, Table};
use warpline_packet::{Malformed, Seed};

use crate::{routes_shown, stages_shown};

/// Rows of a table that are printed, unless it is a ranking; `--stats` has all of them.
const ROWS_MAX: usize = 20;

/// The summary of a run of `chain`, which the signal of this number perhaps ended.
pub(crate) fn summary(
    deployment: &Deployment,
    report: &Report,
    signal: Option<u8>,
    is_verbose: bool,
) -> String {
    let (chain, part) = (deployment.chain(), &report.part);
    let mut text = headline(chain, report);
    text += &match (part.ended_by, signal) {
        (EndedBy::Stop, Some(signal)) => format!("  ended by {}\n", signal_name(signal)),
        (EndedBy::Error, _) => "  ended by an error\n".into(),
        _ => String::new(),
    };
    text += &packets(deployment, report);
    text += &ports(chain, part);
    text += &paths(chain, part);
    text += &times(part);
    if !chain.instances.is_empty() {
        text += &functions(chain, part, is_verbose);
    }
    if let Some(line) = stages_shown::bottleneck_line(deployment, report) {
        text += &format!("\n  bottleneck  {line}\n");
    }
    if part.packets.sent > 0 && !part.latency.is_empty() {
        let at = |quantile| micros(part.latency.value_at_quantile(quantile));
        text += &format!(
            "\n  latency (us)  p50 {}  p95 {}  p99 {}  max {}\n",
            at(0.50),
            at(0.95),
            at(0.99),
            micros(part.latency.max())
        );
    }
    if chain.seed() != Seed::default() {
        text += &format!("  seed {}\n", chain.seed().number());
    }
    if let Some([first, second]) = &chain.disagreement {
        text += &format!("  one lane: [{first}] and [{second}] divide their state differently\n");
    }
    part.warnings.iter().for_each(|warning| text += &format!("  warning: {warning}\n"));
    text
}

/// The name of a signal that ended a run.
fn signal_name(number: u8) -> String {
    let name = signal_hook::low_level::signal_name(number.into());
    name.map_or_else(|| format!("signal {number}"), str::to_owned)
}

fn headline(chain: &Chain, report: &Report) -> String {
    let part = &report.part;
    let seconds = duration(part);
    let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let lanes = if report.lanes == 1 { "lane" } else { "lanes" };
    format!(
        "{}: {} packets, {:.3} Mpps, {:.2} Gb/s\n  {} in {seconds:.3} s, {} {lanes}\n",
        chain.name,
        grouped(part.packets.read),
        rate(part.packets.read as f64) / 1e6,
        rate(part.bytes_read as f64 * 8.0) / 1e9,
        bytes(part.bytes_read),
        report.lanes,
    )
}

/// Columns of a line, and those of names and numbers of packets.
const LINE: usize = 80;
const LABEL: usize = 12;
const NUMBER: usize = 12;

/// A number of packets under its name, and after it what it is made of, in as many lines as that
/// takes.
fn counted(name: &str, count: u64, parts: &[String]) -> String {
    let mut text = format!("  {name:<LABEL$}{:>NUMBER$}", grouped(count));
    if !parts.is_empty() {
        text += "  ";
        add_parts(&mut text, parts);
    }
    text + "\n"
}

/// Adds `parts` to a line, in as many lines as that takes.
fn add_parts(text: &mut String, parts: &[String]) {
    let mut column = text.chars().count();
    let indent = " ".repeat(column);
    for (at, part) in parts.iter().enumerate() {
        if at > 0 && column + part.len() + 2 > LINE {
            *text += &format!(",\n{indent}");
            column = indent.len();
        } else if at > 0 {
            *text += ", ";
            column += 2;
        }
        *text += part;
        column += part.len();
    }
}

fn packets(deployment: &Deployment, report: &Report) -> String {
    let (chain, part) = (deployment.chain(), &report.part);
    let p = &part.packets;
    let stats = || chain.instances.iter().zip(&part.functions);
    let drops = stats().flat_map(|(instance, stats)| {
        let own = instance.named_drops(stats).filter(|(_, count)| *count > 0);
        own.map(|(reason, count)| format!("{}: {reason} {}", instance.name, grouped(count)))
    });
    let at_ingress = (part.unrouted > 0)
        .then(|| format!("ingress: {NO_CHAIN_ROUTE_NAME} {}", grouped(part.unrouted)));
    let at_egress = part.egress_drops.iter();
    let at_egress =
        at_egress.map(|(reason, count)| format!("egress: {reason} {}", grouped(*count)));
    let drops = drops.chain(at_ingress).chain(at_egress);
    let lies = Malformed::ALL.iter().map(|what| {
        let count: u64 = part.functions.iter().map(|own| own.malformed[*what as usize]).sum();
        (what.name(), count)
    });
    let full = stages_shown::drops(deployment, report);
    let queues = part.overload.iter().map(|(queue, count)| (*queue, *count));
    let queues = queues.chain(full.iter().map(|(stage, count)| (stage.as_str(), *count)));
    let output = if part.has_no_output { vec!["there is no output".into()] } else { Vec::new() };
    let mut text = String::from("\n");
    for (name, count, parts) in [
        ("read", p.read, Vec::new()),
        ("generated", p.generated, Vec::new()),
        ("sent", p.sent, Vec::new()),
        ("dropped", p.dropped, drops.collect()),
        ("malformed", p.malformed, named(lies)),
        ("absorbed", p.absorbed, output),
        ("overload", p.overload, named(queues)),
        ("unwritten", p.unwritten, Vec::new()),
    ] {
        if count > 0 || matches!(name, "read" | "sent" | "dropped") {
            text += &counted(name, count, &parts);
        }
    }
    for (instance, stats) in stats().filter(|(instance, _)| instance.function.alerts()) {
        let alerts = stats.counters.iter().find(|(name, _)| **name == "alerts");
        let count = alerts.map_or(0, |(_, count)| *count);
        text += &counted("alerts", count, std::slice::from_ref(&instance.name));
    }
    if !p.balanced() {
        let missing = (p.read + p.generated).abs_diff(p.ended() + p.in_flight);
        text += &format!("  {} packets unaccounted for\n", grouped(missing));
    }
    text
}

/// Packets that left by each path, in a chain with routes.
fn paths(chain: &Chain, part: &ThreadStats) -> String {
    let line = |(functions, packets): (Vec<&str>, u64)| {
        let way = if functions.is_empty() { "no function".into() } else { functions.join(" -> ") };
        counted("path", packets, &[way])
    };
    routes_shown::paths(chain, &part.paths).into_iter().map(line).collect()
}

/// The counts of each port.
fn ports(chain: &Chain, part: &ThreadStats) -> String {
    let width = chain.ports().iter().map(|port| port.name.len()).max().unwrap_or(0).max(8);
    let has_overload = part.ports.iter().any(|port| port.overload > 0);
    let mut text = String::new();
    for (number, port) in chain.ports().iter().enumerate() {
        if number == 0 {
            let titles = ["read", "sent"].map(|title| format!("{title:>13}")).join(" ");
            let lost = if has_overload { format!(" {:>13}", "overload") } else { String::new() };
            text += &format!("\n  {:<width$} {titles}{lost}\n", "port");
        }
        let none = PortStats::default();
        let stats = part.ports.get(number).unwrap_or(&none);
        let counts = [grouped(stats.read), grouped(stats.sent)];
        let lost = match has_overload {
            true => format!(" {:>13}", grouped(stats.overload)),
            false => String::new(),
        };
        text += &format!("  {:<width$} {:>13} {:>13}{lost}\n", port.name, counts[0], counts[1]);
    }
    text
}

/// Counts that are not zero, each after its name.
fn named<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<String> {
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.map(|(name, count)| format!("{name} {}", grouped(count))).collect()
}

/// Packets whose times lie far from the others'; empty if there are none.
fn times(part: &ThreadStats) -> String {
    let mut text = String::new();
    for (name, count, meaning) in [
        ("time-stray", part.time.strays, "timestamps that the clock ignored"),
        ("time-back", part.time.steps_back, "steps back in time"),
    ] {
        if count > 0 {
            text += &counted(name, count, &[meaning.into()]);
        }
    }
    text
}

fn functions(chain: &Chain, part: &ThreadStats, is_verbose: bool) -> String {
    let width = chain.instances.iter().map(|i| i.name.len()).max().unwrap_or(0).max(8);
    let busy: u64 = part.functions.iter().map(|f| f.busy_ns).sum();
    let mut text = format!(
        "\n  {:<width$} {:>13} {:>13} {:>7} {:>10}\n",
        "function", "in", "out", "time", "ns/packet"
    );
    for (instance, stats) in chain.instances.iter().zip(&part.functions) {
        let share = 100.0 * stats.busy_ns as f64 / busy.max(1) as f64;
        let each = match stats.packets_in {
            0 => "-".into(),
            packets => format!("{:.1}", stats.busy_ns as f64 / packets as f64),
        };
        text += &format!(
            "  {:<width$} {:>13} {:>13} {share:>5.1} % {each:>10}\n",
            instance.name,
            grouped(stats.packets_in),
            grouped(stats.packets_out),
        );
        if !is_verbose {
            continue;
        }
        text += &about(&instance.function.about());
        text += &moved(&stats.transfers);
        text += &listed("dropped", instance.named_drops(stats));
        let lies = Malformed::ALL.iter().map(|what| (what.name(), stats.malformed[*what as usize]));
        text += &listed("malformed", lies);
        let made = [("packets", stats.generated)];
        text += &listed("made", made);
        text += &listed("counted", stats.counters.iter().map(|(name, n)| (*name, *n)));
        stats.tables.iter().for_each(|table| text += &table_of(table));
    }
    text
}

/// The bytes copied for the launches that begin with a function.
fn moved(transfers: &Transfers) -> String {
    let Transfers { to_device_bytes, to_host_bytes, .. } = *transfers;
    if to_device_bytes + to_host_bytes == 0 {
        return String::new();
    }
    let planned = [transfers.predicted_to_device_bytes, transfers.predicted_to_host_bytes];
    format!(
        "    {:<10} {} to the device, {} to the host; planned {} and {}\n",
        "copied",
        bytes(to_device_bytes),
        bytes(to_host_bytes),
        bytes(planned[0]),
        bytes(planned[1])
    )
}

/// The configuration of a function.
fn about(about: &About) -> String {
    about.lines.iter().map(|(what, text)| format!("    {what:<10} {text}\n")).collect()
}

/// A report's table; nothing where it has no rows.
fn table_of(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let head: Vec<(String, bool)> =
        table.columns.iter().map(|name| ((*name).to_owned(), false)).collect();
    let cell = |(cell, name): (&Cell, &&str)| match cell {
        // A port is a name and no amount.
        Cell::Number(number) if name.ends_with("port") => (number.to_string(), true),
        Cell::Number(number) => (grouped(*number), true),
        Cell::Text(text) => (text.clone(), false),
    };
    let row = |row: &&Vec<Cell>| row.iter().zip(&table.columns).map(cell).collect();
    let reported = busiest(table);
    let rows: Vec<Vec<(String, bool)>> = reported.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = format!("    {}\n", table.name);
    for row in [&head].into_iter().chain(&rows) {
        let mut line = String::from("     ");
        for (place, ((cell, _), width)) in row.iter().zip(&widths).enumerate() {
            // A column of numbers stands to the right, with its name.
            let is_number = rows[0].get(place).is_some_and(|(_, number)| *number);
            line +=
                &if is_number { format!(" {cell:>width$}") } else { format!(" {cell:<width$}") };
        }
        text += line.trim_end();
        text += "\n";
    }
    let more = table.rows.len() - reported.len();
    if more > 0 {
        text += &format!("      and {} more\n", grouped(more as u64));
    }
    text
}

/// The rows printed for people, in the table's own order. A long table is cut to the rows with most
/// in its column of packets. A ranking is printed whole, since the user chose its length.
fn busiest(table: &Table) -> Vec<&Vec<Cell>> {
    let packets = table.columns.iter().position(|name| *name == "packets");
    let count = |row: &[Cell]| match packets.and_then(|column| row.get(column)) {
        Some(Cell::Number(number)) => *number,
        _ => 0,
    };
    let mut places: Vec<usize> = (0..table.rows.len()).collect();
    // A stable sort: without such a column, the first rows.
    places.sort_by_key(|&place| Reverse(count(&table.rows[place])));
    if !table.name.starts_with("top_") {
        places.truncate(ROWS_MAX);
    }
    places.sort_unstable();
    places.into_iter().map(|place| &table.rows[place]).collect()
}

/// Counts that are not zero; nothing where all are.
fn listed<'a>(what: &str, counts: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let parts = named(counts.into_iter());
    if parts.is_empty() {
        return String::new();
    }
    let mut text = format!("    {what:<10} ");
    add_parts(&mut text, &parts);
    text + "\n"
}

/// Seconds from the first packet in to the last out.
pub(crate) fn duration(part: &ThreadStats) -> f64 {
    part.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
}

fn micros(nanos: u64) -> String {
    format!("{:.1}", nanos as f64 / 1e3)
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let row = |name: &str, n| vec![Cell::Text(name.into()), Cell::Number(n)];
        let rows = vec![row("10.0.0.1", 1234), row("10.0.0.20", 5)];
        let table = Table { name: "top_hosts", columns: vec!["host", "bytes"], rows };
        let reported =
            "    top_hosts\n      host      bytes\n      10.0.0.1  1,234\n      10.0.0.20     5\n";
        assert_eq!(table_of(&table), reported);
        let rows = vec![vec![Cell::Number(8080), Cell::Number(8080)]];
        let table = Table { name: "ports", columns: vec!["src_port", "bytes"], rows };
        assert_eq!(table_of(&table), "    ports\n      src_port bytes\n          8080 8,080\n");
    }

    #[test]
    fn the_busiest_rows_of_a_long_table_are_shown() {
        let row = |n: u64| vec![Cell::Text(format!("sa{n}")), Cell::Number(n * 7 % 1000)];
        let rows: Vec<Vec<Cell>> = (0..1000).map(row).collect();
        let busy = rows.iter().filter(|row| matches!(row[1], Cell::Number(980..)));
        let expected: Vec<Vec<Cell>> = busy.cloned().collect();
        let mut table = Table { name: "sas", columns: vec!["sa", "packets"], rows };
        assert!(busiest(&table).into_iter().eq(&expected));
        let text = table_of(&table);
        assert!(text.ends_with("\n      and 980 more\n"), "{text}");
        assert_eq!(text.lines().count(), 23);
        table.columns[1] = "bytes";
        assert!(busiest(&table).into_iter().eq(&table.rows[..20]));
        table.name = "top_sas";
        assert_eq!(busiest(&table).len(), 1000);
        table.rows.truncate(20);
        table.name = "sas";
        assert!(!table_of(&table).contains("more"));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(bytes(1500), "1500 B");
        assert_eq!(bytes(4_200_000), "4200.0 kB");
    }
}
