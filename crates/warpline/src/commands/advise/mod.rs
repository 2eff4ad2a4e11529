//! `warpline advise`: devices and launches of a chain's functions by rate and delay, and how to
//! divide a GPU between virtual machines that run it.

mod shown;
pub(super) mod units;
mod vgpu;

use std::path::{Path, absolute};

use warpline_io_error::plain;
use warpline_nf::Definition;

use super::{load_file, say, say_json};
use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded, Setting};
use crate::cli::AdviseArguments;
use crate::placement::{Basis, Choice, Devices};

/// The rates of the table, in Gb/s. Those up to 1 Gb/s, and delays from 50 ms on, are of table 3 in
/// "A framework for the use of GPUs in virtual network functions".
const RATES_GBPS: [f64; 10] = [0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 10.0, 40.0, 100.0];
/// The delays of the table, in microseconds.
const DELAYS_US: [f64; 7] = [1e2, 1e3, 1e4, 5e4, 1e5, 2.5e5, 5e5];

const NO_PROFILE: &str = "there is no profile to go by: `warpline profile --out FILE` makes one; \
    then give --profile FILE, or `profile` in [placement]";

/// The choices by rate and delay.
struct Advice {
    rates_gbps: Vec<f64>,
    delays_us: Vec<f64>,
    /// By rate, then by delay.
    choices: Vec<Choice>,
}

/// In words, or as JSON.
pub(crate) fn advise(
    functions: &[&'static Definition],
    arguments: &AdviseArguments,
) -> Result<(), Failure> {
    let of =
        |option: &str, text: &str, why: String| Failure::Usage(format!("{option} {text}: {why}"));
    let rate = arguments.rate.as_deref();
    let rate = rate.map(|text| units::rate_gbps(text).map_err(|why| of("--rate", text, why)));
    let delay = arguments.delay.as_deref();
    let delay = delay.map(|text| units::delay_us(text).map_err(|why| of("--delay", text, why)));
    let (rate, delay) = (rate.transpose()?, delay.transpose()?);
    let mut set = Setting::of_set(&arguments.set);
    set.extend(arguments.profile.as_deref().map(profile).transpose()?);
    // Each function may be placed, whatever the file says.
    let options = LoadOptions { set: &set, device: Some("auto"), ..LoadOptions::of(functions) };
    let chains = load_file(&arguments.chain, &options, false)?;
    let all: Vec<&Loaded> = chains.iter().collect();
    let basis = chains.first().and_then(|one| one.table.basis(&all, Devices::OfProfile));
    let basis = basis.ok_or_else(|| Failure::Usage(NO_PROFILE.into()))?;
    let advice = Advice::of(&basis, rate, delay).map_err(Failure::Usage)?;
    let shares = vgpu::advise(&chains, &advice);
    match arguments.json {
        true => say_json(&format!("{:#}", shown::json(&chains, &advice, &shares))),
        false => say(shown::text(&chains, &advice, &shares).trim_end()),
    }
}

/// The setting for `--profile`. Paths of a chain file are relative to its folder.
fn profile(path: &Path) -> Result<Setting, Failure> {
    let whole = absolute(path)
        .map_err(|why| Failure::Usage(format!("--profile {}: {}", path.display(), plain(&why))))?;
    let Some(whole) = whole.to_str() else {
        return Err(Failure::Usage(format!("--profile {}: not UTF-8", path.display())));
    };
    let value = serde_json::Value::from(whole);
    Ok(Setting { option: "--profile", text: format!("placement.profile={value}") })
}

impl Advice {
    /// A named rate or delay is the only one.
    fn of(basis: &Basis, rate: Option<f64>, delay: Option<f64>) -> Result<Self, String> {
        let rates_gbps = rate.map_or(RATES_GBPS.to_vec(), |rate| vec![rate]);
        let delays_us = delay.map_or(DELAYS_US.to_vec(), |delay| vec![delay]);
        let pairs = rates_gbps.iter().flat_map(|rate| delays_us.iter().map(move |us| (rate, us)));
        let choices = pairs.map(|(&rate, &delay)| basis.choose(rate, Some(delay)));
        let choices = choices.collect::<Result<Vec<Choice>, String>>()?;
        Ok(Self { rates_gbps, delays_us, choices })
    }

    /// The choice for the rate and the delay that the user names.
    fn asked(&self) -> Option<&Choice> {
        match &self.choices[..] {
            [asked] => Some(asked),
            _ => None,
        }
    }

    /// All choices with their rates and delays.
    fn cells(&self) -> impl Iterator<Item = (f64, f64, &Choice)> {
        let pairs = self
            .rates_gbps
            .iter()
            .flat_map(|&rate| self.delays_us.iter().map(move |&delay| (rate, delay)));
        pairs.zip(&self.choices).map(|((rate, delay), choice)| (rate, delay, choice))
    }
}

/// The devices of a chain's functions, by position.
fn devices(choice: &Choice, chain: usize) -> Vec<usize> {
    (0..choice.placement.sites[chain].len()).map(|at| choice.device((chain, at))).collect()
}

/// The largest launch of a chain, if one of its functions is on a device.
fn launch_packets(choice: &Choice, chain: usize) -> Option<u32> {
    let of = |position| choice.launches((chain, position)).map(|own| own.packets);
    (0..choice.placement.sites[chain].len()).filter_map(of).max()
}

/// Bytes of a frame that a chain's launches are made for.
fn packet_len(loaded: &Loaded) -> u32 {
    loaded.deployment.plan().packet_len
}
