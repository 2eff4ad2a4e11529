//! The measurement of `random_chains`: bytes a packet that plans move over random chains of our
//! functions, next to the minimum of moving single fields.
//!
//! The *field-wise minimum* is the plan with the fewest bytes where every field crosses by itself
//! in its own width, payloads too, and launches have no table. No device can do with less; ours
//! also sends a row of a table for each packet, and with a whole frame the bytes around it.

use std::sync::Arc;

use warpline_device::{Device, Failure, apart};
use warpline_engine::{Deployment, OnDevice, PlanOptions, planned};
use warpline_packet::FieldSet;
use warpline_packet::hash::mix32;
use warpline_sched::{FieldCosts, LinkCosts, Mode, Problem, RowBytes, Way, Widths};

use crate::chain_copies::chains::{TABLES, write_files};
use crate::chains::{Member, deploy_members};
use crate::devices::cases::Cases;
use crate::devices::{Bench, launches, today};
use crate::median;

/// Frames' lengths, each the one that plans are made for.
const LENS: [u32; 5] = [64, 128, 512, 1024, 1518];

/// Functions of the longest chain.
const FUNCTIONS_MAX: u32 = 6;

/// The ranges that chains are drawn from.
pub struct Options {
    /// Chains.
    pub chains: u32,
    /// By which they are drawn: the same number gives the same chains.
    pub seed: u32,
}

/// Draws numbers: the same from the same seed.
struct Draw(u32);

impl Draw {
    fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        ((u64::from(mix32(self.0)) * u64::from(count)) >> 32) as u32
    }
}

/// A function of a chain: which of [`TABLES`], and whether it is on the device.
type Own = (usize, bool);

/// Chains that have some function on the device.
fn draw(options: &Options) -> Vec<Vec<Own>> {
    let mut draw = Draw(options.seed);
    let mut all = Vec::new();
    while all.len() < options.chains as usize {
        let count = 1 + draw.below(FUNCTIONS_MAX);
        let own = |draw: &mut Draw| (draw.below(TABLES.len() as u32) as usize, draw.below(5) < 3);
        let chain: Vec<Own> = (0..count).map(|_| own(&mut draw)).collect();
        if chain.iter().any(|(_, is_on_device)| *is_on_device) {
            all.push(chain);
        }
    }
    all
}

fn build(own: &[Own], cases: &Cases, device: &Arc<dyn Device>) -> Deployment {
    let names: Vec<String> =
        (0..own.len()).map(|at| format!("{at}-{}", TABLES[own[at].0].0)).collect();
    let on = |is_on: bool| {
        let (device, launches) = (Arc::clone(device), launches());
        is_on.then_some(OnDevice { device, launches, is_required: true })
    };
    let member = |((at, is_on), name): (&Own, &'_ String)| Member {
        name: name.clone().leak(),
        function: TABLES[*at].1,
        table: TABLES[*at].2,
        on: on(*is_on),
    };
    let members: Vec<Member<'_>> = own.iter().zip(&names).map(member).collect();
    deploy_members("random", &members, cases.folder())
}

/// A link on which nothing but bytes costs.
const BYTES_ALONE: LinkCosts = LinkCosts {
    to_device_ns_per_byte: 1.0,
    to_host_ns_per_byte: 1.0,
    host_copy_ns_per_byte: 0.0,
    device_copy_ns_per_byte: 0.0,
    gather: FieldCosts::NONE,
    put: FieldCosts::NONE,
    transfer_ns: 0.0,
    whole_back_ns: 0.0,
    traffic: 1.0,
};

/// Of what a plan's bytes are, a packet and both ways.
#[derive(Clone, Copy, Debug, Default)]
struct Split {
    /// Bytes of frames that cross whole.
    frames: f64,
    /// Bytes of their rooms around them.
    around: f64,
    /// Fields that cross by themselves.
    fields: f64,
    /// Rows of launches' tables, there and back.
    rows: [f64; 2],
    /// Frames that a mirror lacks, and those that are fetched.
    rare: f64,
}

impl Split {
    const NAMES: [&str; 6] = ["frames", "around", "fields", "rows there", "back", "rare"];

    /// Of a plan for frames of `len` bytes.
    fn of(problem: &Problem, len: u32, mode: Mode) -> Self {
        let plan = problem.plan(mode).expect("links of all devices");
        plan.steps.iter().fold(Self::default(), |mut sum, step| {
            for crossing in [&step.first_to_host, &step.to_device, &step.to_host] {
                let own = crossing.bytes - crossing.row_bytes;
                match crossing.way {
                    Way::Frame => {
                        sum.frames += own.min(len.into());
                        sum.around += (own - f64::from(len)).max(0.0);
                    }
                    _ => sum.fields += own,
                }
            }
            sum.rows[0] += step.to_device.row_bytes;
            sum.rows[1] += step.to_host.row_bytes;
            sum.rare += step.missing.bytes + step.flagged.bytes;
            sum
        })
    }

    fn parts(&self) -> [f64; Self::NAMES.len()] {
        let [there, back] = self.rows;
        [self.frames, self.around, self.fields, there, back, self.rare]
    }
}

fn bytes(problem: &Problem, mode: Mode) -> f64 {
    let plan = problem.plan(mode).expect("links of all devices");
    plan.to_device_bytes() + plan.to_host_bytes()
}

/// See the module.
fn field_wise(problem: &Problem, len: u32) -> f64 {
    let mut least = problem.clone();
    least.links.fill(BYTES_ALONE);
    least.gathered = FieldSet::FRAME;
    least.widths = Widths::of_udp(len, len);
    least.functions.iter_mut().for_each(|function| {
        function.row = RowBytes::NONE;
        function.whole = None;
    });
    bytes(&least, Mode::Adaptive)
}

/// Bytes a packet of one chain at one length.
struct Figures {
    least: f64,
    /// In the order of [`Mode::ALL`].
    modes: [f64; Mode::ALL.len()],
    /// Whether `plan` explains why `adaptive` moves more, if it does.
    is_explained: bool,
    /// Of what `adaptive` moves.
    split: Split,
}

impl Figures {
    fn of(problem: &Problem, len: u32) -> Self {
        let modes = Mode::ALL.map(|mode| bytes(problem, mode));
        let split = Split::of(problem, len, Mode::Adaptive);
        let least = field_wise(problem, len);
        Self { least, modes, is_explained: is_explained(problem, &modes), split }
    }

    fn moves_more(&self, mode: usize) -> bool {
        self.modes[0] > self.modes[mode] + LEAST
    }
}

/// Sums in another order differ by less.
const LEAST: f64 = 1e-6;

/// Whether each plan with fewer of these bytes than `adaptive` costs more time, by the model, than
/// its bytes save, and `plan` has a line for such.
fn is_explained(problem: &Problem, modes: &[f64]) -> bool {
    let plan = problem.plan(Mode::Adaptive).expect("links of all devices");
    let fewer = |at: &usize| modes[0] > modes[*at] + LEAST;
    let mut all = (1..modes.len()).filter(fewer).peekable();
    let has_line = all.peek().is_none() || problem.dearer(&plan) != Ok(None);
    let is_dearer = |at: usize| {
        let own = problem.dearer_by(&plan, Mode::ALL[at]).ok().flatten();
        own.is_some_and(|own| own.host_ns > own.link_ns - LEAST)
    };
    has_line && all.all(is_dearer)
}

/// Prints the tables.
///
/// # Errors
/// The reason that the device gives.
pub fn print(options: &Options) -> Result<(), Failure> {
    let opened = Bench::open(Some("host"), 0.02, 1).map_err(Failure::Work)?;
    let bench = Bench { device: apart(&opened.device), ..opened };
    write_files(&bench.cases).map_err(|why| Failure::Work(why.to_string()))?;
    let chains = draw(options);
    println!(
        "random_chains --chains {} --seed {}; {}; {}",
        options.chains,
        options.seed,
        bench.device.description().name,
        today()
    );
    let mut by_len: [Vec<Figures>; LENS.len()] = Default::default();
    for own in &chains {
        let deployment = build(own, &bench.cases, &bench.device);
        for (len, figures) in LENS.into_iter().zip(&mut by_len) {
            let options = PlanOptions { packet_len: len, ..PlanOptions::default() };
            let problem = planned(&deployment, options).problem;
            figures.push(Figures::of(&problem, len));
        }
    }
    planned_tables(&by_len);
    split_table(&by_len);
    Ok(())
}

/// Chains around the median whose bytes are split: a tenth of all, one at least.
fn around_median(figures: &[Figures]) -> Vec<&Figures> {
    let mut all: Vec<&Figures> = figures.iter().filter(|own| own.least > 0.0).collect();
    let ratio = |own: &Figures| own.modes[0] / own.least;
    all.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let (middle, half) = (all.len() / 2, all.len() / 20);
    all[middle.saturating_sub(half)..(middle + half + 1).min(all.len())].to_vec()
}

fn split_table(by_len: &[Vec<Figures>; LENS.len()]) {
    println!(
        "\n## Bytes a packet that adaptive moves, over the least: mean of the tenth around the \
         median\n"
    );
    println!("| frame B | {} | sum |", Split::NAMES.join(" | "));
    println!("|---|{}---|", "---|".repeat(Split::NAMES.len()));
    for (len, figures) in LENS.iter().zip(by_len) {
        let own = around_median(figures);
        let mut sums = [0.0; Split::NAMES.len()];
        for figures in &own {
            let parts = figures.split.parts().map(|bytes| bytes / figures.least);
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let means = sums.map(|sum| sum / own.len() as f64);
        let shown = means.map(|mean| format!("{mean:.3}")).join(" | ");
        println!("| {len} | {shown} | {:.3} |", means.iter().sum::<f64>());
    }
}

fn planned_tables(by_len: &[Vec<Figures>; LENS.len()]) {
    println!("\n## Planned bytes a packet, both ways, by the field-wise minimum: median\n");
    println!("| frame B | {} | p90 adaptive |", Mode::ALL.map(Mode::name).join(" | "));
    println!("|---|{}---|", "---|".repeat(Mode::ALL.len()));
    for (len, figures) in LENS.iter().zip(by_len) {
        let of = |mode: usize| -> Vec<f64> {
            let some = figures.iter().filter(|own| own.least > 0.0);
            some.map(|own| own.modes[mode] / own.least).collect()
        };
        let medians = [0, 1, 2, 3].map(|mode| format!("{:.3}", median(of(mode))));
        let mut ratios = of(0);
        ratios.sort_by(f64::total_cmp);
        let p90 = ratios[ratios.len() * 9 / 10];
        println!("| {len} | {} | {p90:.3} |", medians.join(" | "));
    }
    println!("\n## Chains in which adaptive moves more bytes than another plan\n");
    println!(
        "| frame B | of | {} | not explained |",
        Mode::ALL[1..].iter().map(|mode| mode.name()).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|---|{}", "---|".repeat(Mode::ALL.len()));
    for (len, figures) in LENS.iter().zip(by_len) {
        let more =
            |mode: usize| figures.iter().filter(|own| own.moves_more(mode)).count().to_string();
        let open = figures.iter().filter(|own| !own.is_explained).count();
        println!("| {len} | {} | {} | {open} |", figures.len(), [1, 2, 3].map(more).join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_chains() {
        let of = |seed| draw(&Options { chains: 40, seed });
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert!(of(3).iter().all(|chain| chain.iter().any(|(_, is_on)| *is_on)));
    }
}
