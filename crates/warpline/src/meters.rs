//! Meters of energy and power.

use std::collections::BTreeMap;
use std::time::Instant;

use warpline_device::power::{Rapl, of_device};
use warpline_device::{Description, Missing};

use crate::device_keys;
use crate::machine_profile::CPU_NAME;

/// Where the energy of a device is counted.
pub(crate) enum Meter {
    Rapl(Rapl),
    /// NVML, for a GPU.
    Gpu(&'static Description),
    None(Missing),
}

/// The energy counted so far, or else the present power.
pub(crate) struct Mark {
    at: Instant,
    joules: Result<f64, Missing>,
    watts: Result<f64, Missing>,
    /// Joules of the domains of the CPU's packages.
    domains: BTreeMap<String, f64>,
}

/// The power of a device, and of domains of the CPU's packages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Watts {
    pub(crate) all: f64,
    pub(crate) domains: BTreeMap<String, f64>,
}

impl Meter {
    /// The meter of a profile's device.
    pub(crate) fn of(id: &str) -> Self {
        if id == CPU_NAME {
            return Rapl::open().map_or_else(Self::None, Self::Rapl);
        }
        let about = device_keys::description(id);
        match about {
            Some(about) if about.runs_on_cpu => {
                Self::None(Missing("it runs on the CPU, whose power includes it".into()))
            }
            Some(about) => Self::Gpu(about),
            None => Self::None(Missing("the device is not here".into())),
        }
    }

    pub(crate) fn mark(&mut self) -> Mark {
        let (joules, watts) = match self {
            Self::Rapl(rapl) => {
                (rapl.joules(), Err(Missing("RAPL counts energy, not power".into())))
            }
            Self::Gpu(about) => {
                let reading = of_device(about);
                (reading.energy_j, reading.power_w)
            }
            Self::None(why) => (Err(why.clone()), Err(why.clone())),
        };
        let domains = match self {
            Self::Rapl(rapl) => rapl.domains(),
            _ => BTreeMap::new(),
        };
        Mark { at: Instant::now(), joules, watts, domains }
    }
}

impl Mark {
    /// The mean power since `before`, or else the present one.
    pub(crate) fn watts_since(&self, before: &Self) -> Result<Watts, Missing> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
        let domains = self.domains.iter().filter_map(|(name, now)| {
            Some((name.clone(), (now - before.domains.get(name)?) / seconds))
        });
        let domains = domains.collect();
        let all = match (&self.joules, &before.joules) {
            (Ok(now), Ok(before)) if seconds > 0.0 => Ok((now - before) / seconds),
            (Err(_), _) | (_, Err(_)) if self.watts.is_ok() => self.watts.clone(),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            _ => Err(Missing("no time passed".into())),
        };
        Ok(Watts { all: all?, domains })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_mean_counts_before_the_present_power() {
        let at = Instant::now();
        let none = || Err(Missing("none".into()));
        let domains = |joules| BTreeMap::from([("core".to_owned(), joules)]);
        let mark = |joules, watts| {
            let at = at + Duration::from_secs(2);
            Mark { at, joules, watts, domains: domains(7.0) }
        };
        let before = Mark { at, joules: Ok(3.0), watts: none(), domains: domains(4.0) };
        let own = mark(Ok(13.0), Ok(99.0)).watts_since(&before);
        assert_eq!(own, Ok(Watts { all: 5.0, domains: domains(1.5) }));
        assert_eq!(mark(none(), Ok(99.0)).watts_since(&before).unwrap().all, 99.0);
        assert_eq!(mark(none(), none()).watts_since(&before), Err(Missing("none".into())));
    }
}
