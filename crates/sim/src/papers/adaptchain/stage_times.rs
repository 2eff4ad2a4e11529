//! Figures 1, 3 and 11 (b): where the time of a packet goes.

use warpline_sched::Mode;

use super::chains::{C3, LINK_NS_PER_BYTE};
use super::model::{Case, gather_ns, kernel_ns, pointer_ns, run};
use crate::papers::shape::{Rule, falls, rises, within};
use crate::papers::{ItemResult, Series};
use crate::{Outcome, ScenarioError};

type Result = std::result::Result<ItemResult, ScenarioError>;

const LEN: u32 = 1024;
/// Bytes of headers that NIDS does not read.
const HEADERS: f64 = 42.0;

/// Percent of the time with packets on the host: copies, before and after, and all less, with
/// packets on the GPU.
struct Printed {
    name: &'static str,
    copies: f64,
    host: f64,
    less: f64,
}

const FIGURE_1: [Printed; 2] = [
    Printed { name: "ipsec", copies: 25.8, host: 49.2, less: 77.1 },
    Printed { name: "nids", copies: 16.8, host: 35.6, less: 58.9 },
];

/// Nanoseconds of a packet: copies, before and after, kernel.
fn on_host(name: &str) -> [f64; 3] {
    let frame = f64::from(LEN);
    let kernel = kernel_ns(name, LEN);
    #[cfg(test)]
    let kernel = kernel * crate::papers::mutated::kernel_factor();
    match name {
        "ipsec" => [2.0 * frame * LINK_NS_PER_BYTE, 2.0 * gather_ns(frame), kernel],
        _ => {
            let payload = frame - HEADERS;
            [payload * LINK_NS_PER_BYTE, gather_ns(payload) + gather_ns(0.0), kernel]
        }
    }
}

pub(super) fn figure_1() -> Result {
    let mut found = ItemResult::default();
    for printed in &FIGURE_1 {
        let [copies, host, kernel] = on_host(printed.name);
        let all = copies + host + kernel;
        let mut series = Series::new(printed.name, "packets on the host", "% of the time");
        series.add("copies", Some(printed.copies), 100.0 * copies / all);
        series.add("before and after", Some(printed.host), 100.0 * host / all);
        let kernel_printed = 100.0 - printed.copies - printed.host;
        series.add("kernel", Some(kernel_printed), 100.0 * kernel / all);
        let shared = 2.0 * pointer_ns() + 2.0 * gather_ns(0.0) + kernel;
        let less = 100.0 * (1.0 - shared / all);
        series.add("less, packets on the GPU", Some(printed.less), less);
        let shares = series.ours();
        let off = |at: usize, paper: f64| (shares[at] - paper).abs();
        let most = off(0, printed.copies).max(off(1, printed.host));
        let name = format!("{}: the greatest difference of a share, in percent,", printed.name);
        found.rules.push(within(&name, most, 0.0..=5.0));
        let name = format!("{}: percent less with packets on the GPU", printed.name);
        found.rules.push(within(&name, less, printed.less - 20.0..=printed.less + 5.0));
        found.series.push(series);
    }
    Ok(found)
}

/// Microseconds of a copy of the first chain to the device, with its wait.
fn copy_us(outcome: &Outcome) -> f64 {
    let stage = &outcome.chains[0].measured.stages[0];
    stage.copy_in_ns as f64 / 1e3 / stage.launches.max(1) as f64
}

/// Each function works on its own packets, so their copies meet at any time.
pub(super) fn figure_3() -> Result {
    const FUNCTIONS: [&[&str]; 3] = [&["@firewall"], &["@ipsec"], &["@nids"]];
    const CHAINS: [(&str, Option<f64>); 3] =
        [("F", None), ("F-I", Some(47.5)), ("F-I-N", Some(80.8))];
    let mut time = Series::new("copy of the firewall", "functions", "us");
    let mut more = Series::new("more than alone", "functions", "%");
    for (count, (name, printed)) in CHAINS.into_iter().enumerate() {
        let own = FUNCTIONS[..=count].iter();
        let case = |names: &&'static [&'static str]| Case {
            is_poisson: true,
            lasts_ns: 1_000_000_000,
            ..Case::at_10_gbps(names, Mode::PerNf, LEN)
        };
        let us = copy_us(&run(&own.map(case).collect::<Vec<_>>())?);
        time.add(name, None, us);
        more.add(name, printed, 100.0 * (us / time.ours()[0] - 1.0));
    }
    let percent = more.ours();
    let rules = vec![
        rises("the time of a copy", &time.ours(), 0.0),
        within("F-I, percent more,", percent[1], 20.0..=100.0),
        within("F-I-N, percent more,", percent[2], 40.0..=160.0),
    ];
    Ok(ItemResult { series: vec![time, more], rules })
}

/// Nanoseconds of a packet in all of a chain's stages: host, copies, kernels.
fn times(outcome: &Outcome) -> [f64; 3] {
    let measured = &outcome.chains[0].measured;
    let packets = measured.sent.max(1) as f64;
    let sum = |of: fn(&crate::StageCounts) -> u64| {
        measured.stages.iter().map(of).sum::<u64>() as f64 / packets
    };
    let host = outcome.lane_busy_ns.iter().sum::<u64>() as f64 / packets;
    let copies = sum(|stage| stage.copy_in_ns + stage.copy_out_ns);
    let kernels = outcome.devices[0].busy_ns[0] as f64 / packets;
    [host, copies, kernels]
}

pub(super) fn figure_11b() -> Result {
    let mut less = Series::new("less time of a packet than the baseline", "bytes", "%");
    let mut parts = Vec::new();
    for (mode, name) in [(Mode::PerNf, "baseline"), (Mode::Adaptive, "AdaptChain")] {
        for part in ["host", "copies", "kernels"] {
            parts.push(Series::new(format!("{name}, {part}"), "bytes", "ns a packet"));
        }
        let _ = mode;
    }
    for len in super::chains::LENS {
        let of = |mode| Ok(times(&Case::at_10_gbps(C3, mode, len).run()?));
        let (baseline, adaptive): ([f64; 3], [f64; 3]) = (of(Mode::PerNf)?, of(Mode::Adaptive)?);
        let all = baseline.iter().chain(&adaptive);
        parts.iter_mut().zip(all).for_each(|(series, ns)| series.add(len, None, *ns));
        let sum = |parts: &[f64; 3]| parts.iter().sum::<f64>();
        let printed = match len {
            64 => Some(13.6),
            1518 => Some(63.7),
            _ => None,
        };
        less.add(len, printed, 100.0 * (1.0 - sum(&adaptive) / sum(&baseline)));
    }
    let saved = less.ours();
    let least = saved.iter().copied().fold(f64::MAX, f64::min);
    let most = saved.iter().copied().fold(f64::MIN, f64::max);
    let rules =
        vec![
        within("the least percent saved, where the paper has 13.6,", least, 3.0..=30.0).because(
            "Short packets gain nothing here: the units that copy whole packets have a cost for \
                 each packet, as batching its fields has.",
        ),
        within("the greatest percent saved, where the paper has 63.7,", most, 25.0..=70.0),
        Rule::new("more is saved of long packets", saved[5] > saved[0]),
        falls("the copies of AdaptChain and the baseline at 1518 \
             bytes", &[parts[1].ours()[5], parts[4].ours()[5]], 0.0),
    ];
    parts.insert(0, less);
    Ok(ItemResult { series: parts, rules })
}
