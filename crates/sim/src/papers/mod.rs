//! The tables and figures of five papers, as entries that can be run.
//!
//! A [`PaperItem`] names a table or figure. Its numbers are those of the paper, with the place
//! where they are printed. [`PaperItem::simulate`] gives our numbers beside them, and the rules
//! that the shape must follow. An entry without a simulation names the bench that measures it.
//!
//! Each paper has a module. Where its system has parameters that the paper does not state, the
//! module lists them as [`Assumed`], each with the reason for its value.

mod adaptchain;
mod gpu_ids;
mod measured;
#[cfg(test)]
pub(crate) mod mutated;
mod pythia;
mod render;
pub mod shape;
mod simmer;
mod vgpu;

pub use render::{csv, drawing_name, json, markdown, svg, table};
pub use shape::Rule;

use serde_json::Value;
use warpline_sched::{Gpu, VgpuProfile};

use crate::ScenarioError;

/// Our numbers beside the paper's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The quantity of [`Point::at`].
    pub over: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A value, as printed and as found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Where.
    pub at: String,
    /// The paper's value, if it is printed.
    pub paper: Option<f64>,
    /// Ours.
    pub ours: Option<f64>,
}

impl Series {
    /// One without points.
    pub fn new(name: impl Into<String>, over: &'static str, unit: &'static str) -> Self {
        Self { name: name.into(), over, unit, points: Vec::new() }
    }

    /// Adds a point.
    pub fn add(&mut self, at: impl ToString, paper: Option<f64>, ours: f64) {
        self.points.push(Point { at: at.to_string(), paper, ours: Some(ours) });
    }

    /// Our values, in order.
    pub fn ours(&self) -> Vec<f64> {
        self.points.iter().filter_map(|point| point.ours).collect()
    }
}

/// The result of an entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemResult {
    /// The numbers.
    pub series: Vec<Series>,
    /// The rules about them.
    pub rules: Vec<Rule>,
}

impl ItemResult {
    /// The verdict, and its reason if shapes differ.
    pub fn verdict(&self) -> (ShapeVerdict, String) {
        let broken: Vec<String> = self
            .rules
            .iter()
            .filter(|rule| !rule.holds)
            .map(|rule| match rule.reason {
                "" => format!("not so: {}", rule.text),
                reason => format!("not so: {}. {reason}", rule.text),
            })
            .collect();
        match broken.is_empty() {
            true => (ShapeVerdict::SameShape, String::new()),
            false => (ShapeVerdict::Differs, broken.join(" ")),
        }
    }
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeVerdict {
    /// Our numbers follow the rules.
    SameShape,
    /// They break one.
    Differs,
    /// There are none.
    NotRun,
}

impl ShapeVerdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SameShape => "same shape",
            Self::Differs => "differs",
            Self::NotRun => "not run",
        }
    }
}

/// A parameter that a paper does not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The parameter and its value.
    pub what: &'static str,
    /// Why this value.
    pub why: &'static str,
}

/// Runs an entry.
pub type Simulation = fn() -> Result<ItemResult, ScenarioError>;

/// A table or figure.
#[derive(Clone, Copy, Debug)]
pub struct PaperItem {
    /// The paper.
    pub paper: &'static str,
    /// The table or figure: `fig6`.
    pub item: &'static str,
    /// The quantity.
    pub title: &'static str,
    /// Where its numbers are printed.
    pub source: &'static str,
    /// The command that measures it, and what that needs.
    pub live: Option<&'static str>,
    /// The simulation.
    pub simulation: Option<Simulation>,
    /// Reads the JSON of the bench that measures it.
    pub measured: Option<fn(&Value) -> Option<ItemResult>>,
    /// Why there is none.
    pub why_not: &'static str,
}

impl PaperItem {
    /// `PAPER/ITEM`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.paper, self.item)
    }

    /// How it can be run.
    pub fn ways(&self) -> Vec<&'static str> {
        let ways = [self.live.map(|_| "live"), self.simulation.map(|_| "simulated")];
        ways.into_iter().flatten().collect()
    }
}

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its short name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Parameters that it does not state.
    pub assumed: &'static [Assumed],
    /// Its tables and figures.
    pub entries: &'static [PaperItem],
}

/// All papers.
pub const PAPERS: &[Paper] =
    &[simmer::PAPER, vgpu::PAPER, pythia::PAPER, gpu_ids::PAPER, adaptchain::PAPER];

/// The profiles of a card.
fn card_profiles(gpu: Gpu) -> Vec<VgpuProfile> {
    let all = VgpuProfile::of(gpu).copied();
    #[cfg(test)]
    let all = all.map(mutated::profile);
    all.collect()
}

/// A profile of a card by its name.
fn card_profile(gpu: Gpu, name: &str) -> Result<VgpuProfile, ScenarioError> {
    let found = card_profiles(gpu).into_iter().find(|profile| profile.name == name);
    found.ok_or_else(|| ScenarioError(format!("no profile {name:?}")))
}

/// The entries that `name` means: `all`, a paper, or one entry.
pub fn named(name: &str) -> Vec<&'static PaperItem> {
    let all = PAPERS.iter().flat_map(|paper| paper.entries);
    all.filter(|entry| name == "all" || name == entry.paper || name == entry.id()).collect()
}

/// An entry with its result.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// The entry.
    pub entry: &'static PaperItem,
    /// The verdict.
    pub state: ShapeVerdict,
    /// Its reason.
    pub why: String,
    /// The numbers and rules.
    pub found: ItemResult,
}

impl PaperItem {
    /// Runs the simulation, if there is one.
    ///
    /// # Errors
    /// A mistake of the entry's scenario.
    pub fn simulate(&'static self) -> Result<Reproduced, ScenarioError> {
        let Some(simulation) = self.simulation else { return Ok(self.not_run()) };
        let found = simulation()?;
        let (state, why) = found.verdict();
        Ok(Reproduced { entry: self, state, why, found })
    }

    /// The numbers of a bench's JSON.
    pub fn measured(&'static self, record: &Value) -> Reproduced {
        let Some(found) = self.measured.and_then(|read| read(record)) else {
            return self.not_run();
        };
        let (state, why) = found.verdict();
        Reproduced { entry: self, state, why, found }
    }

    /// Without numbers.
    pub fn not_run(&'static self) -> Reproduced {
        let live = self.live.map(|command| format!("live: {command}")).unwrap_or_default();
        let parts = [self.why_not.to_owned(), live];
        let why = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>();
        let (why, found) = (why.join("; "), ItemResult::default());
        Reproduced { entry: self, state: ShapeVerdict::NotRun, why, found }
    }
}
