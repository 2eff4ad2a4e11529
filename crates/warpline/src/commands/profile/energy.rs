//! The energy of functions by device, where the power is known.

use std::fmt::Write;

use serde_json::{Value, json};
use warpline_sched::work_profile::{CPU, WorkProfile};

/// The energy of a function on a device, at the launch size that `warpline profile` recommends.
struct Energy<'a> {
    function: &'a str,
    device: &'a str,
    packet_len: u32,
    joules_per_gb: f64,
}

/// The CPU counts with all `cores` busy. A device counts with the share that the function takes.
fn all<'a>(work: &'a WorkProfile, lens: &[u32], cores: usize) -> Vec<Energy<'a>> {
    let mut all = Vec::new();
    for (function, name) in work.functions().iter().enumerate() {
        for (device, about) in work.devices().iter().enumerate() {
            let of = |&packet_len: &u32| {
                let knee = work.launch_knee((function, device), packet_len)?;
                let own = work.alone((function, device), knee, packet_len)?;
                let gbps = own.bits_per_s / 1e9;
                let joules_per_gb = match device {
                    CPU => about.power.busy_w? / (gbps * cores as f64),
                    _ => about.power.at(own.share)? / gbps,
                };
                Some(Energy { function: name, device: &about.name, packet_len, joules_per_gb })
            };
            all.extend(lens.iter().filter_map(of));
        }
    }
    all
}

/// Lines of the report; none if no power is known.
pub(super) fn lines(work: &WorkProfile, lens: &[u32], cores: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for Energy { function, device, packet_len, joules_per_gb } in all(work, lens, cores) {
        if last.replace((function, device)) != Some((function, device)) {
            lines.push(format!("{function} on {device}:"));
        }
        if let Some(line) = lines.last_mut() {
            let _ = write!(line, " {joules_per_gb:.2} J/Gb at {packet_len} B,");
        }
    }
    lines.iter().map(|line| line.trim_end_matches(',').to_owned()).collect()
}

/// The same as JSON.
pub(super) fn in_json(work: &WorkProfile, lens: &[u32], cores: usize) -> Value {
    let energy = |one: Energy<'_>| {
        let Energy { function, device, packet_len, joules_per_gb } = one;
        json!({
            "function": function,
            "device": device,
            "packet_len": packet_len,
            "joules_per_gb": joules_per_gb,
        })
    };
    all(work, lens, cores).into_iter().map(energy).collect()
}

#[cfg(test)]
mod tests {
    use warpline_sched::work_profile::{Figures, Measurement, Power};

    use super::*;

    #[test]
    fn energy_is_power_by_rate_where_both_are_known() {
        let mut work = WorkProfile::new(&["router", "nat"], &["cpu", "cuda:0", "opencl:0"]);
        for (device, launch, len, gbps, share) in [
            (0, 256, 64, 2.0, 1.0),
            (0, 256, 512, 8.0, 1.0),
            (1, 64, 64, 1.0, 0.1),
            (2, 64, 64, 9.0, 1.0),
        ] {
            let figures = Figures { bits_per_s: gbps * 1e9, latency_ns: 1e4, share, weight: 1.0 };
            work.merge(&Measurement::alone((0, device), launch, len, figures)).unwrap();
        }
        assert_eq!(lines(&work, &[64, 512], 4), Vec::<String>::new());
        work.set_power(0, Power { idle_w: None, busy_w: Some(80.0) });
        work.set_power(1, Power { idle_w: Some(50.0), busy_w: Some(250.0) });
        // 80 W for 4 cores of 2 Gb/s; a tenth of the way from 50 to 250 W for 1 Gb/s.
        let expected = [
            "router on cpu: 10.00 J/Gb at 64 B, 2.50 J/Gb at 512 B",
            "router on cuda:0: 70.00 J/Gb at 64 B",
        ];
        let shown: Vec<String> = lines(&work, &[64], 4);
        assert_eq!(shown, ["router on cpu: 10.00 J/Gb at 64 B", expected[1]]);
        assert_eq!(lines(&work, &[64, 512], 4)[0], expected[0]);
        let json = in_json(&work, &[512], 4);
        assert_eq!(
            json[0],
            json!({ "function": "router", "device": "cpu", "packet_len": 512,
            "joules_per_gb": 2.5 })
        );
    }
}
