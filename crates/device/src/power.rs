//! Power, energy and utilisation: NVML for NVIDIA's GPUs, RAPL for the CPU if the system lets it be
//! read. Values without a meter are [`Missing`], with the reason.
//!
//! NVML finds a GPU by its place on the bus, which a MIG instance shares with the GPU's other
//! instances. Its values are then those of the whole GPU. For the UUID of an instance it reports
//! the memory alone; the rest is missing.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::sys::nvml::Gpu;
use crate::{Description, Missing};

/// A meter's values for a device at this moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Watts, as the meter averages them.
    pub power_w: Result<f64, Missing>,
    /// Joules counted since some moment in the past: differences mean something.
    pub energy_j: Result<f64, Missing>,
    /// Bytes of its memory that are in use, by anyone.
    pub memory_used: Result<u64, Missing>,
    /// Share of the last moments, up to a second, in which a kernel ran, 0 to 1.
    pub busy: Result<f64, Missing>,
}

impl Reading {
    fn missing(why: &Missing) -> Self {
        Self {
            power_w: Err(why.clone()),
            energy_j: Err(why.clone()),
            memory_used: Err(why.clone()),
            busy: Err(why.clone()),
        }
    }
}

/// Reads the meter of a device.
pub fn of_device(device: &Description) -> Reading {
    let Some(bus) = &device.bus else {
        return Reading::missing(&Missing("no meter is known for this kind of device".into()));
    };
    match Gpu::at(bus) {
        Ok(gpu) if gpu.is_divided() => of_instance(device.uuid.as_deref()),
        Ok(gpu) => Reading {
            power_w: gpu.watts(),
            energy_j: gpu.joules(),
            memory_used: gpu.memory_used(),
            busy: gpu.busy(),
        },
        Err(why) => Reading::missing(&why),
    }
}

/// The readings available for the MIG instance with this UUID.
fn of_instance(uuid: Option<&str>) -> Reading {
    let none = || Missing("the driver does not name the instance (MIG)".into());
    let memory_used =
        uuid.ok_or_else(none).and_then(Gpu::instance).and_then(|one| one.memory_used());
    let whole = Missing("NVML says it of the whole GPU, not of an instance (MIG)".into());
    Reading { memory_used, ..Reading::missing(&whole) }
}

/// Where Linux shows RAPL's counters.
const POWERCAP: &str = "/sys/class/powercap";

/// RAPL's counters of the machine's CPU packages, by the Linux kernel's powercap interface.
#[derive(Clone, Debug)]
pub struct Rapl {
    packages: Vec<Counter>,
    /// Those of domains, by name.
    domains: Vec<(String, Counter)>,
}

/// The whole platform, which includes the packages.
const PSYS: &str = "psys";

#[derive(Clone, Debug)]
struct Counter {
    file: PathBuf,
    // Microjoules after which it begins again at 0.
    range: u64,
    last: u64,
    // Microjoules since it was opened.
    sum: u64,
}

impl Rapl {
    /// Opens the counters.
    ///
    /// # Errors
    /// The machine has none, or they may not be read.
    pub fn open() -> Result<Self, Missing> {
        Self::open_in(Path::new(POWERCAP))
    }

    /// Opens the counters in `folder`, which has the form of the powercap interface.
    ///
    /// # Errors
    /// As [`Rapl::open`].
    pub fn open_in(folder: &Path) -> Result<Self, Missing> {
        let entries = fs::read_dir(folder)
            .map_err(|error| Missing(format!("no RAPL here: {}: {error}", folder.display())))?;
        let mut zones: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        zones.retain(|zone| zone.starts_with("intel-rapl:"));
        zones.sort();
        let name = |zone: &str| {
            let name = fs::read_to_string(folder.join(zone).join("name"));
            name.map(|name| name.trim().to_owned()).unwrap_or_default()
        };
        // intel-rapl:0 is a package or the platform, intel-rapl:0:1 a domain of it.
        let named = zones.iter().map(|zone| (zone, name(zone)));
        let (packages, domains): (Vec<_>, Vec<_>) =
            named.partition(|(zone, name)| zone.matches(':').count() == 1 && name != PSYS);
        if packages.is_empty() {
            return Err(Missing(format!("no RAPL here: {} has no intel-rapl", folder.display())));
        }
        let open = |zone: &str| Counter::open(&folder.join(zone));
        let packages = packages.iter().map(|(zone, _)| open(zone));
        // A domain that can't be read, or has no name, is left out.
        let domains = domains.into_iter().filter(|(_, name)| !name.is_empty());
        let domains = domains.filter_map(|(zone, name)| Some((name, open(zone).ok()?)));
        Ok(Self { packages: packages.collect::<Result<_, _>>()?, domains: domains.collect() })
    }

    /// Joules of all packages since the counters were opened. Call it at least every minute: two
    /// overflows of a counter between calls count once.
    ///
    /// # Errors
    /// A counter can't be read any more.
    pub fn joules(&mut self) -> Result<f64, Missing> {
        let mut sum = 0;
        for package in &mut self.packages {
            sum += package.advance()?;
        }
        Ok(sum as f64 / 1e6)
    }

    /// The same of each domain that the kernel has, by its name: `core`, `uncore` (which has an
    /// integrated GPU), `dram` and `psys`. Packages include the first two.
    pub fn domains(&mut self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for (name, counter) in &mut self.domains {
            if let Ok(sum) = counter.advance() {
                *all.entry(name.clone()).or_default() += sum as f64 / 1e6;
            }
        }
        all
    }
}

impl Counter {
    fn open(folder: &Path) -> Result<Self, Missing> {
        let file = folder.join("energy_uj");
        let range = number(&folder.join("max_energy_range_uj"))?;
        Ok(Self { last: number(&file)?, file, range, sum: 0 })
    }

    fn advance(&mut self) -> Result<u64, Missing> {
        let now = number(&self.file)?;
        let begun_again = if now < self.last { self.range } else { 0 };
        self.sum += (now + begun_again).saturating_sub(self.last);
        self.last = now;
        Ok(self.sum)
    }
}

fn number(path: &Path) -> Result<u64, Missing> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| {
        let help = match error.kind() {
            ErrorKind::PermissionDenied => "; it needs root, or CAP_DAC_READ_SEARCH",
            _ => "",
        };
        Missing(format!("RAPL can't be read: {}: {error}{help}", path.display()))
    })?;
    text.trim().parse().map_err(|_| Missing(format!("RAPL says no number: {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path, name: &str, energy: &str) {
        let package = folder.join(name);
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("energy_uj"), energy).unwrap();
        fs::write(package.join("max_energy_range_uj"), "1000000\n").unwrap();
    }

    #[test]
    fn rapl_sums_packages_and_continues_when_a_counter_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        package(folder.path(), "intel-rapl:0", "999000\n");
        package(folder.path(), "intel-rapl:1", "5\n");
        package(folder.path(), "intel-rapl:0:0", "7\n");
        let mut rapl = Rapl::open_in(folder.path()).unwrap();
        assert_eq!(rapl.joules(), Ok(0.0));
        package(folder.path(), "intel-rapl:0", "1000\n");
        package(folder.path(), "intel-rapl:1", "1005\n");
        assert_eq!(rapl.joules(), Ok(0.003));
        fs::remove_dir_all(folder.path().join("intel-rapl:1")).unwrap();
        assert!(rapl.joules().is_err());
    }

    #[test]
    fn domains_are_counted_beside_the_packages_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let zones = ["0", "0:0", "0:1", "1", "1:0", "1:1", "2", "1:2"];
        let names =
            ["package-0", "core", "uncore", "package-1", "core", "dram", "psys", "no counter"];
        let zones: Vec<String> = zones.iter().map(|zone| format!("intel-rapl:{zone}")).collect();
        let set = |microjoules: [u64; 7]| {
            for (zone, energy) in zones.iter().zip(microjoules) {
                package(folder.path(), zone, &energy.to_string());
            }
        };
        set([0, 0, 0, 0, 999_000, 0, 0]);
        fs::create_dir(folder.path().join("intel-rapl:1:2")).unwrap();
        for (zone, name) in zones.iter().zip(names) {
            fs::write(folder.path().join(zone).join("name"), format!("{name}\n")).unwrap();
        }
        let mut rapl = Rapl::open_in(folder.path()).unwrap();
        // The core of the second package begins again after 1 J.
        set([10_000, 5_000, 2_000, 20_000, 6_000, 3_000, 500_000]);
        assert_eq!(rapl.joules(), Ok(0.03), "without the platform");
        let domains =
            rapl.domains().into_iter().map(|(name, joules)| (name, (joules * 1e3) as u32));
        let expected = [("core", 12), ("dram", 3), ("psys", 500), ("uncore", 2)];
        assert_eq!(domains.collect::<Vec<_>>(), expected.map(|(name, mj)| (name.to_owned(), mj)));
    }

    #[test]
    fn rapl_that_is_not_there_is_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| Rapl::open_in(path).unwrap_err().to_string();
        assert!(said(folder.path()).contains("has no intel-rapl"));
        assert!(said(&folder.path().join("nowhere")).contains("no RAPL here"));
        package(folder.path(), "intel-rapl:0", "many\n");
        assert!(said(folder.path()).contains("says no number"));
    }
}
