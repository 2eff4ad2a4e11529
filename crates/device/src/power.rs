//! Power, energy and utilisation: NVML for NVIDIA's GPUs, RAPL for the CPU if the system lets it be
//! read. Values without a meter are [`Missing`], with the reason.
//!
//! NVML finds a GPU by its place on the bus, which a MIG instance shares with the GPU's other
//! instances. Its values are then those of the whole GPU. For the UUID of an instance it reports
//! the memory alone; the rest is missing.

use std::fs;
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
    let none = || Missing("the driver does not say which instance it is (MIG)".into());
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
    packages: Vec<Package>,
}

#[derive(Clone, Debug)]
struct Package {
    counter: PathBuf,
    // Microjoules after which the counter begins again at 0.
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

    fn open_in(folder: &Path) -> Result<Self, Missing> {
        let entries = fs::read_dir(folder)
            .map_err(|error| Missing(format!("no RAPL here: {}: {error}", folder.display())))?;
        // intel-rapl:0 is a package, intel-rapl:0:1 a part of it.
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.starts_with("intel-rapl:") && name.matches(':').count() == 1);
        names.sort();
        if names.is_empty() {
            return Err(Missing(format!("no RAPL here: {} has no intel-rapl", folder.display())));
        }
        let packages = names.iter().map(|name| Package::open(&folder.join(name)));
        Ok(Self { packages: packages.collect::<Result<_, _>>()? })
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
}

impl Package {
    fn open(folder: &Path) -> Result<Self, Missing> {
        let counter = folder.join("energy_uj");
        let range = number(&folder.join("max_energy_range_uj"))?;
        Ok(Self { last: number(&counter)?, counter, range, sum: 0 })
    }

    fn advance(&mut self) -> Result<u64, Missing> {
        let now = number(&self.counter)?;
        let begun_again = if now < self.last { self.range } else { 0 };
        self.sum += (now + begun_again).saturating_sub(self.last);
        self.last = now;
        Ok(self.sum)
    }
}

fn number(path: &Path) -> Result<u64, Missing> {
    let text = fs::read_to_string(path);
    let text =
        text.map_err(|error| Missing(format!("RAPL can't be read: {}: {error}", path.display())))?;
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
    fn rapl_sums_packages_and_goes_on_when_a_counter_begins_again() {
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
    fn rapl_that_is_not_there_is_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| Rapl::open_in(path).unwrap_err().to_string();
        assert!(said(folder.path()).contains("has no intel-rapl"));
        assert!(said(&folder.path().join("nowhere")).contains("no RAPL here"));
        package(folder.path(), "intel-rapl:0", "many\n");
        assert!(said(folder.path()).contains("says no number"));
    }
}
