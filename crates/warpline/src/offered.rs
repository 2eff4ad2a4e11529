//! Values that shell completions offer for an option or an argument. Others are accepted here: the
//! command itself refuses them, and names those of this machine and this program.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use warpline_functions::FUNCTIONS;
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Mode, Policy};

/// A parser of any text, with the values that it offers.
#[derive(Clone)]
pub(crate) struct Offers(fn() -> Vec<&'static str>);

impl TypedValueParser for Offers {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// Rules by which fields are copied.
pub(crate) const MODES: Offers = Offers(|| Mode::ALL.map(Mode::name).to_vec());

/// Policies by which tenants share a device.
pub(crate) const SHARING: Offers = Offers(|| Policy::ALL.map(Policy::name).to_vec());

/// Policies by which functions are placed.
pub(crate) const PLACEMENTS: Offers = Offers(placements);

/// Functions.
pub(crate) const NAMES: Offers = Offers(|| FUNCTIONS.iter().map(|one| one.name).collect());

/// Devices; there may be more of a kind.
pub(crate) const DEVICES: Offers = Offers(|| DEVICE_NAMES.to_vec());

/// Values of requests to a running process.
pub(crate) const VALUES: Offers = Offers(|| {
    let functions = FUNCTIONS.iter().map(|one| one.name);
    let devices = DEVICE_NAMES.into_iter().filter(|name| *name != "auto");
    functions.chain(devices).chain(placements()).chain(["fixed"]).collect()
});

const DEVICE_NAMES: [&str; 5] = ["cpu", "auto", "host", "cuda:0", "opencl:0"];

fn placements() -> Vec<&'static str> {
    use PlacementPolicy::{CpuOnly, DeviceOnly, Energy, Latency, Throughput};
    [Throughput, Latency, Energy, CpuOnly, DeviceOnly].iter().map(PlacementPolicy::name).collect()
}
