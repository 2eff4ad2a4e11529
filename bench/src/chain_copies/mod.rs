//! The measurements of `chain_copies`: the paper's five chains by the four rules for copies, as in
//! `AdaptChain`'s figures 9 to 16.
//!
//! [`chains`] are the chains, [`bytes`] counts copied bytes next to the plans' expectations,
//! [`speed`] has rates, the lane's work and latencies, [`sizes`] those by the size of batches and
//! launches, [`bookkeeping`] the lane's cost of a plan where the device costs nothing. [`paper`]
//! puts the numbers of the paper's text next to all of it.

pub mod bookkeeping;
pub mod bytes;
pub mod chains;
pub mod paper;
pub mod sizes;
pub mod speed;

use std::sync::Arc;

use warpline_device::{Failure, apart};
use warpline_sched::Mode;

use crate::devices::{Bench, today};
use chains::{CHAINS, Load, PaperChain, Way, write_files};
use speed::Point;

/// Rules, the paper's baseline first.
pub const MODES: [Mode; 4] = [Mode::PerNf, Mode::ShareAll, Mode::Local, Mode::Adaptive];

/// Settings of the measurement.
pub struct Options {
    /// The device's id; `None` for the host's reference device.
    pub device: Option<String>,
    /// Seconds of a point.
    pub seconds: f64,
    /// Frames' lengths, as they are asked for.
    pub lens: Vec<usize>,
    /// Times that each point is measured, the rules in turn; medians are shown.
    pub rounds: usize,
    /// Whether bytes alone are shown, which need no quiet machine.
    pub bytes_alone: bool,
}

impl Options {
    /// All, in less than ten minutes.
    pub fn full() -> Self {
        let lens = vec![64, 128, 512, 1024, 1518];
        Self { device: None, seconds: 0.3, lens, rounds: 3, bytes_alone: false }
    }

    /// To try it.
    pub fn quick() -> Self {
        Self { seconds: 0.05, lens: vec![64, 1518], rounds: 1, ..Self::full() }
    }
}

/// See the module. A device with its own memory, or one that is made to look so, receives copies.
pub struct Copies {
    bench: Bench,
    options: Options,
}

impl Copies {
    /// Opens the device.
    ///
    /// # Errors
    /// There is none, or there can be no files.
    pub fn open(options: Options) -> Result<Self, String> {
        let id = options.device.as_deref().unwrap_or("host");
        let mut bench = Bench::open(Some(id), options.seconds, 1)?;
        bench.device = apart(&bench.device);
        write_files(&bench.cases).map_err(|why| format!("files for the functions: {why}"))?;
        Ok(Self { bench, options })
    }

    /// Prints all tables.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn print(&self) -> Result<(), Failure> {
        self.head();
        let mut all = Vec::new();
        for chain in &CHAINS {
            all.push(self.points(chain)?);
        }
        bytes::print(&all);
        if self.options.bytes_alone {
            paper::print_bytes(&all);
            return Ok(());
        }
        speed::print(&all);
        let latencies = speed::latencies(self, &all)?;
        let sizes = sizes::print(self, &all)?;
        bookkeeping::print(self)?;
        paper::print(&all, &latencies, &sizes);
        Ok(())
    }

    fn head(&self) {
        let (about, Options { seconds, rounds, .. }) =
            (self.bench.device.description(), &self.options);
        println!(
            "chain_copies --device {} --seconds {seconds}, median of {rounds}; {}; {}; {}",
            about.id,
            about.name,
            about.driver,
            today()
        );
        if about.id.ends_with("-apart") {
            println!(
                "The device is this machine's own cores and only made to copy: bytes are those of \
                 a GPU, times say little of one."
            );
        }
        for chain in &CHAINS {
            println!("{}: {}", chain.name, chain.composition());
        }
    }

    /// A chain at every length by every rule.
    fn points(&self, chain: &'static PaperChain) -> Result<Points, Failure> {
        let mut points = Points { chain, by_len: Vec::new() };
        for &len in &self.options.lens {
            let load = chain.frames(&self.bench.cases, len);
            let modes = speed::measure(self, chain, &load)?;
            points.by_len.push(ByLen { asked: len, load, modes });
        }
        Ok(points)
    }

    fn way(&self, mode: Mode) -> Way<'_> {
        Way::new(&self.bench.device, mode)
    }
}

/// A chain's points.
pub struct Points {
    chain: &'static PaperChain,
    by_len: Vec<ByLen>,
}

/// Those of one length.
struct ByLen {
    /// Bytes that the paper's frames have.
    asked: usize,
    load: Load,
    /// In the order of [`MODES`].
    modes: [Point; MODES.len()],
}

impl ByLen {
    fn of(&self, mode: Mode) -> &Point {
        let at = MODES.iter().position(|own| *own == mode);
        &self.modes[at.unwrap_or_default()]
    }

    /// A figure of a rule by that of another.
    fn ratio(&self, mode: Mode, to: Mode, figure: impl Fn(&Point) -> f64) -> f64 {
        figure(self.of(mode)) / figure(self.of(to))
    }
}

/// Prints a table in Markdown, after a line with its title.
fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) {
    println!("\n## {title}\n");
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

/// A handle to a device that costs nothing.
fn idle() -> Arc<dyn warpline_device::Device> {
    Arc::new(crate::devices::idle_device::IdleDevice::new())
}
