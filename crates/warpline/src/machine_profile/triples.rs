//! Functions that were measured beside two others. Placement does not use them: they show how good
//! its model is, which knows pairs.

use serde_json::{Value, json};
use warpline_sched::work_profile::{Beside, WorkPair, WorkProfile};

use super::{MachineProfile, number, size, text};

/// A function beside one instance each of two others on its device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Triple {
    pub(crate) pair: WorkPair,
    pub(crate) launch_packets: u32,
    pub(crate) packet_len: u32,
    pub(crate) beside: [usize; 2],
    /// As measured.
    pub(crate) bits_per_s: f64,
}

impl Triple {
    /// The throughput that pairs of functions lead to. `None` if the function alone is unmeasured.
    pub(crate) fn modelled(&self, work: &WorkProfile) -> Option<f64> {
        let [one, other] = self.beside;
        let kinds = match one == other {
            true => vec![Beside { function: one, count: 2 }],
            false => self.beside.map(|function| Beside { function, count: 1 }).to_vec(),
        };
        let sizes = (self.launch_packets, self.packet_len);
        let alone = work.alone(self.pair, sizes.0, sizes.1)?;
        Some(alone.bits_per_s / work.slow_down(self.pair, sizes, &kinds).factor)
    }

    fn is_of(&self, other: &Self) -> bool {
        (self.pair, self.beside, self.launch_packets, self.packet_len)
            == (other.pair, other.beside, other.launch_packets, other.packet_len)
    }
}

impl MachineProfile {
    /// Adds a measurement in place of an earlier one.
    pub(crate) fn set_triple(&mut self, new: Triple) {
        self.triples.retain(|old| !old.is_of(&new));
        self.triples.push(new);
    }

    /// Adds those of an earlier profile that it lacks.
    pub(super) fn add_triples(&mut self, old: &Self) {
        let function = |at: usize| self.function(&old.work.functions()[at]);
        let device = |at: usize| self.device(&old.work.devices()[at].name);
        let known = |one: &Triple| {
            let pair = (function(one.pair.0)?, device(one.pair.1)?);
            let beside = [function(one.beside[0])?, function(one.beside[1])?];
            Some(Triple { pair, beside, ..*one })
        };
        let known: Vec<Triple> = old.triples.iter().filter_map(known).collect();
        for one in known {
            if !self.triples.iter().any(|own| own.is_of(&one)) {
                self.triples.push(one);
            }
        }
    }

    pub(super) fn read_triple(&mut self, json: &Value) -> Result<(), String> {
        let function = |name: &str| {
            let unknown = || format!("function {name:?} has no measurement");
            self.function(name).ok_or_else(unknown)
        };
        let device = text(json, "device")?;
        let unknown = || format!("device {device:?} is not in `devices`");
        let device = self.device(device).ok_or_else(unknown)?;
        let beside = json["beside"].as_array().map_or(&[][..], Vec::as_slice);
        let [Some(one), Some(other)] = [0, 1].map(|at| beside.get(at).and_then(Value::as_str))
        else {
            return Err("`beside` must be two functions".into());
        };
        let gbps = number(json, "gbps")?;
        if !(1e-9..=1e6).contains(&gbps) {
            return Err(format!("`gbps` must be 10^-9 to 10^6, found {gbps}"));
        }
        let new = Triple {
            pair: (function(text(json, "function")?)?, device),
            launch_packets: size(json, "launch_packets")?,
            packet_len: size(json, "packet_len")?,
            beside: [function(one)?, function(other)?],
            bits_per_s: gbps * 1e9,
        };
        self.set_triple(new);
        Ok(())
    }

    pub(super) fn triple_json(&self, one: &Triple) -> Value {
        let name = |function: usize| self.work.functions()[function].clone();
        json!({
            "function": name(one.pair.0),
            "device": self.work.devices()[one.pair.1].name,
            "launch_packets": one.launch_packets,
            "packet_len": one.packet_len,
            "beside": one.beside.map(name),
            "gbps": one.bits_per_s / 1e9,
            "modelled_gbps": one.modelled(&self.work).map(|bits| bits / 1e9),
        })
    }
}

#[cfg(test)]
mod tests {
    use warpline_sched::work_profile::{Figures, Measurement};

    use super::*;
    use crate::profile_file;

    /// 12 Gb/s alone; beside one router 2, beside two 3 and beside a digest 1.5 times as long.
    fn profile() -> MachineProfile {
        let machine = profile_file::to_value(&[], None);
        let mut profile = MachineProfile::new(machine, &["digest", "nat", "router"]).unwrap();
        let figures =
            |gbps| Figures { bits_per_s: gbps * 1e9, latency_ns: 1e4, share: 0.5, weight: 1.0 };
        let at = |gbps| Measurement::alone((1, 0), 1024, 1024, figures(gbps));
        let beside = [at(6.0).beside(2, 1), at(4.0).beside(2, 3), at(8.0).beside(0, 1)];
        for one in [at(12.0)].into_iter().chain(beside) {
            profile.merge(&one, 0.0).unwrap();
        }
        profile
    }

    fn triple(beside: [usize; 2], gbps: f64) -> Triple {
        let (launch_packets, packet_len, bits_per_s) = (1024, 1024, gbps * 1e9);
        Triple { pair: (1, 0), launch_packets, packet_len, beside, bits_per_s }
    }

    #[test]
    fn a_triple_stands_beside_the_model_of_pairs_and_survives_its_file() {
        let mut profile = profile();
        let modelled = |beside| triple(beside, 1.0).modelled(&profile.work).unwrap() / 1e9;
        assert_eq!((modelled([0, 2]), modelled([2, 2])), (12.0 / 2.5, 12.0 / 2.5));
        profile.set_triple(triple([0, 2], 1.0));
        profile.set_triple(triple([0, 2], 4.0));
        let json = profile.to_value();
        assert_eq!((&json["triples"][0]["gbps"], &json["triples"][1]), (&4.0.into(), &Value::Null));
        assert_eq!(json["triples"][0]["modelled_gbps"], 4.8);
        let read = MachineProfile::parse(&json.to_string(), false).unwrap();
        assert_eq!(read.to_value(), json);
        let machine = profile_file::to_value(&[], None);
        let mut new = MachineProfile::new(machine, &["digest", "nat", "router"]).unwrap();
        new.set_triple(triple([2, 2], 3.0));
        new.set_triple(triple([0, 2], 5.0));
        new.add(&read).unwrap();
        let rates: Vec<f64> = new.triples.iter().map(|one| one.bits_per_s / 1e9).collect();
        assert_eq!(rates, [3.0, 5.0], "a new one counts");
    }

    #[test]
    fn mistakes_in_triples_are_named() {
        let mut profile = profile();
        profile.set_triple(triple([0, 2], 4.0));
        for (key, value, expected) in [
            ("function", json!("no such"), "`triples[0]`: function \"no such\" has no measurement"),
            ("device", json!("no such"), "`triples[0]`: device \"no such\" is not in `devices`"),
            ("beside", json!(["nat"]), "`triples[0]`: `beside` must be two functions"),
            ("gbps", json!(-1), "`triples[0]`: `gbps` must be 10^-9 to 10^6, found -1"),
            ("packet_len", json!("x"), "`triples[0]`: `packet_len` is missing or not a whole"),
        ] {
            let mut json = profile.to_value();
            json["triples"][0][key] = value;
            let why = MachineProfile::parse(&json.to_string(), false).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
