//! Numbers in the paper's text about its figures 9 to 16, next to the numbers measured here. The
//! figures show more than the text gives in numbers; no value is read off a figure.

use warpline_sched::Mode;

use super::sizes::Size;
use super::speed::{Latency, Point};
use super::{ByLen, Points, table};

/// Prints the table.
pub fn print(all: &[Points], latencies: &[Latency], sizes: &[Size]) {
    let mut rows = Rows(Vec::new());
    for points in all {
        match points.chain.name {
            "C1" => c1(&mut rows, points),
            "C2" => c2(&mut rows, points),
            "C3" => c3(&mut rows, points),
            "C4" => c4(&mut rows, points),
            _ => c5(&mut rows, points),
        }
    }
    units(&mut rows, sizes);
    for (chain, paper) in [("C1", ["30 %", "39 %"]), ("C4", ["49 %", "52 %"])] {
        latency(&mut rows, latencies, chain, paper);
    }
    let columns = ["figure", "what", "paper", "here"];
    table("The paper's numbers beside ours", &columns, &rows.0);
}

/// Prints the rows of the table that are about bytes.
pub fn print_bytes(all: &[Points]) {
    let rows = all.iter().flat_map(|points| {
        let of = |own: &ByLen| {
            let saved = |mode| format!("{:.1} %", 100.0 * saved_by(own, mode, BASELINE));
            vec![
                points.chain.name.into(),
                own.load.len.to_string(),
                saved(Mode::ShareAll),
                saved(Mode::Local),
                saved(ADAPTIVE),
            ]
        };
        points.by_len.iter().map(of).collect::<Vec<Vec<String>>>()
    });
    let columns = ["chain", "frame B", "share_all", "local", "adaptive"];
    table("Bytes to the device saved of per_nf", &columns, &rows.collect::<Vec<_>>());
}

struct Rows(Vec<Vec<String>>);

impl Rows {
    fn add(&mut self, figure: &str, what: &str, paper: &str, here: String) {
        self.0.push(vec![figure.into(), what.into(), paper.into(), here]);
    }
}

const ADAPTIVE: Mode = Mode::Adaptive;
const BASELINE: Mode = Mode::PerNf;

fn c1(rows: &mut Rows, points: &Points) {
    rows.add("9a", "C1 throughput, adaptive / baseline, at most", "3.2", span(points, faster));
    rows.add("9b", "C1 bytes to the device saved, 64 B", "13.9 %", first(points, saved));
    rows.add("9b", "the same, 1518 B", "49.1 %", last(points, saved));
    let computed = |own: &ByLen| own.ratio(BASELINE, ADAPTIVE, planned);
    let what = "C1 bytes both ways as planned, baseline / adaptive, 1518 B, beside the throughput";
    rows.add("9", what, "3.2", format!("{:.2}", last_of(points, computed)));
    let counted = |own: &ByLen| own.ratio(BASELINE, ADAPTIVE, moved);
    rows.add("9", "the same as moved", "-", format!("{:.2}", last_of(points, counted)));
}

fn c2(rows: &mut Rows, points: &Points) {
    rows.add("10a", "C2 throughput, adaptive / baseline", "1.141 to 2.8", span(points, faster));
    rows.add("10b", "C2 bytes to the device saved", "5.6 to 48.9 %", percents(points, saved));
    let of_gateway =
        |own: &ByLen| 1.0 - own.ratio(ADAPTIVE, BASELINE, |point| point.bytes.by_function[2]);
    rows.add(
        "10b",
        "the same of its gateway alone",
        "72.0 to 99.1 %",
        percents(points, of_gateway),
    );
}

fn c3(rows: &mut Rows, points: &Points) {
    rows.add("11a", "C3 throughput, adaptive / baseline", "1.10 to 2.3", span(points, faster));
    let less = |own: &ByLen| 1.0 - own.ratio(ADAPTIVE, BASELINE, |point| point.lane_ns);
    let what = "C3 time of a packet saved (paper: in all stages; here: the lane's CPU time)";
    rows.add("11b", what, "13.6 to 63.7 %", percents(points, less));
    rows.add("12a", "C3 bytes to the device saved", "13.9 to 49.1 %", percents(points, saved));
    let more = |own: &ByLen| own.ratio(ADAPTIVE, BASELINE, |point| point.bytes.all()[1]);
    rows.add(
        "12b",
        "C3 bytes to the host, adaptive / baseline",
        "slightly more than 1",
        span(points, more),
    );
}

fn c4(rows: &mut Rows, points: &Points) {
    let local_saved = |own: &ByLen| saved_by(own, Mode::Local, BASELINE);
    let local_faster = |own: &ByLen| own.ratio(Mode::Local, BASELINE, rate);
    let faster_still = |own: &ByLen| own.ratio(ADAPTIVE, Mode::Local, rate);
    rows.add(
        "13b",
        "C4 bytes to the device saved, local",
        "11.8 to 48.9 %",
        percents(points, local_saved),
    );
    rows.add("13a", "C4 throughput, local / baseline", "1.031 to 3.0", span(points, local_faster));
    rows.add(
        "13a",
        "C4 throughput, adaptive / local",
        "1.018 to 1.584",
        span(points, faster_still),
    );
    rows.add("13b", "C4 bytes saved besides by adaptive, 64 B", "6.3 %", first(points, further));
}

fn c5(rows: &mut Rows, points: &Points) {
    rows.add(
        "14b",
        "C5 bytes to the device saved besides by adaptive",
        "0.3 to 6.0 %",
        percents(points, further),
    );
    let faster_still = |own: &ByLen| own.ratio(ADAPTIVE, Mode::Local, rate);
    rows.add(
        "14a",
        "C5 throughput, adaptive / local",
        "1.007 to 1.583",
        span(points, faster_still),
    );
    rows.add("14b", "C5 bytes to the device saved, at most", "49.0 %", percents(points, saved));
    rows.add("14a", "C5 throughput, adaptive / baseline, at most", "2.8", span(points, faster));
}

/// The paper's units hold 4 to 1024 packets.
fn units(rows: &mut Rows, sizes: &[Size]) {
    let mut lens: Vec<usize> = sizes.iter().map(|size| size.len).collect();
    lens.dedup();
    for len in lens {
        let of = |batch| sizes.iter().find(|size| size.len == len && size.batch == batch);
        let rate = |batch| of(batch).map_or(f64::NAN, |size| size.mpps);
        let least = rate(4) / rate(64);
        let what = format!("C4 throughput, 4 packets together / 64, {len} B");
        rows.add("15a", &what, "0.6 at least", format!("{least:.2}"));
        let all = [16, 64, 256, 1024].map(rate);
        let [low, high] = ends(all.into_iter());
        let what = format!("C4 throughput, 16 to 1024, least / most, {len} B");
        rows.add("15a", &what, "stable", format!("{:.2}", low / high));
        let latency = |batch| {
            of(batch)
                .map_or(String::new(), |size| format!("{:.0}, {:.0} us", size.p50_us, size.p95_us))
        };
        for (batch, paper) in [(4, "9.9, 11.1 ms"), (16, "3.8, 5.5 ms"), (1024, "4.6, 8.0 ms")] {
            rows.add(
                "15b",
                &format!("C4 p50, p95, {batch} together, {len} B"),
                paper,
                latency(batch),
            );
        }
    }
}

fn latency(rows: &mut Rows, all: &[Latency], chain: &str, paper: [&str; 2]) {
    let of = |mode| all.iter().find(|own| own.chain == chain && own.mode == mode);
    let (Some(base), Some(own)) = (of(BASELINE), of(ADAPTIVE)) else { return };
    let [p50, p95] = [1.0 - own.p50_us / base.p50_us, 1.0 - own.p95_us / base.p95_us];
    rows.add("16", &format!("{chain} p50 less than the baseline's"), paper[0], percent(p50));
    rows.add("16", &format!("{chain} p95 less than the baseline's"), paper[1], percent(p95));
}

fn rate(point: &Point) -> f64 {
    point.mpps
}

fn planned(point: &Point) -> f64 {
    let plan = point.bytes.plan;
    [plan.frames, plan.tables].iter().flatten().sum()
}

fn moved(point: &Point) -> f64 {
    point.bytes.all().iter().sum()
}

fn faster(own: &ByLen) -> f64 {
    own.ratio(ADAPTIVE, BASELINE, rate)
}

/// The share of the baseline's bytes to the device that the cheapest plan saves: frames and tables.
fn saved(own: &ByLen) -> f64 {
    saved_by(own, ADAPTIVE, BASELINE)
}

fn saved_by(own: &ByLen, mode: Mode, to: Mode) -> f64 {
    1.0 - own.ratio(mode, to, |point| point.bytes.all()[0])
}

/// Savings of the cheapest plan beyond the local one, as a share of the baseline's.
fn further(own: &ByLen) -> f64 {
    saved(own) - saved_by(own, Mode::Local, BASELINE)
}

fn first(points: &Points, figure: impl Fn(&ByLen) -> f64) -> String {
    let own = points.by_len.first();
    own.map_or(String::new(), |own| format!("{} ({} B)", percent(figure(own)), own.load.len))
}

fn last(points: &Points, figure: impl Fn(&ByLen) -> f64) -> String {
    percent(last_of(points, figure))
}

fn last_of(points: &Points, figure: impl Fn(&ByLen) -> f64) -> f64 {
    points.by_len.last().map_or(f64::NAN, figure)
}

fn ends(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], one| [low.min(one), high.max(one)])
}

/// The least and the most over the lengths.
fn span(points: &Points, figure: impl Fn(&ByLen) -> f64) -> String {
    let [low, high] = ends(points.by_len.iter().map(figure));
    format!("{low:.2} to {high:.2}")
}

fn percents(points: &Points, figure: impl Fn(&ByLen) -> f64) -> String {
    let [low, high] = ends(points.by_len.iter().map(figure));
    format!("{:.1} to {}", (1000.0 * low).round() / 10.0 + 0.0, percent(high))
}

fn percent(share: f64) -> String {
    // Adding 0.0 turns -0.0 into 0.0.
    format!("{:.1} %", (1000.0 * share).round() / 10.0 + 0.0)
}
