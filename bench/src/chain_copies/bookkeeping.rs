//! The lane's cost of the cheapest plan next to whole frames. The device costs nothing and copies
//! nothing, so only the lane's own work remains.
//!
//! No kernel runs there: the device returns its input unchanged, and gateways neither open nor
//! seal. So packets are in the clear. Chains whose functions drop packets that no kernel worked on
//! are skipped.

use std::sync::Arc;

use warpline_device::{Device, Failure};
use warpline_engine::{Control, Deployment, Ports, Settings, run};
use warpline_io::NullSink;
use warpline_sched::Mode;

use super::chains::{CHAINS, Load, PaperChain, Way};
use super::{Copies, idle, table};
use crate::median;
use crate::memory::MemorySource;

/// Bytes of the frames.
const LEN: usize = 512;
/// Times that each rule runs, in turn with the others.
const ROUNDS: usize = 5;

/// Prints the table.
///
/// # Errors
/// Failures of the lane.
pub(super) fn print(copies: &Copies) -> Result<(), Failure> {
    let rounds = if copies.options.rounds == 1 { 1 } else { ROUNDS };
    let device = idle();
    let mut rows = Vec::new();
    for chain in &CHAINS {
        let Some(own) = Own::new(copies, chain, &device) else { continue };
        let (mut share, mut adaptive) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            share.push(own.lane_ns(Mode::ShareAll)?);
            adaptive.push(own.lane_ns(Mode::Adaptive)?);
        }
        let (share, adaptive) = (median(share), median(adaptive));
        rows.push(vec![
            chain.name.into(),
            format!("{share:.1}"),
            format!("{adaptive:.1}"),
            format!("{:+.1}", adaptive - share),
        ]);
    }
    let columns = ["chain", "share_all lane ns", "adaptive lane ns", "difference (asked: 10)"];
    table("The plan's bookkeeping: a device that costs nothing, frames of 512 B", &columns, &rows);
    Ok(())
}

/// Has a chain take `packets` on the device that costs nothing, to count instructions.
///
/// # Errors
/// There is no such chain, or it drops what no kernel worked on.
pub fn work(copies: &Copies, name: &str, mode: Mode, packets: u64) -> Result<(), String> {
    let device = idle();
    let chain = CHAINS.iter().find(|chain| chain.name == name).ok_or("C1 to C5")?;
    let own = Own::new(copies, chain, &device).ok_or("it drops what no kernel worked on")?;
    own.take(mode, packets).map(drop)
}

struct Own<'a> {
    copies: &'a Copies,
    chain: &'a PaperChain,
    device: &'a Arc<dyn Device>,
    load: Load,
}

impl<'a> Own<'a> {
    fn new(copies: &'a Copies, chain: &'a PaperChain, device: &'a Arc<dyn Device>) -> Option<Self> {
        let load = chain.clear_frames(LEN);
        let own = Self { copies, chain, device, load };
        let passes = |mode| own.take(mode, 10_000).is_ok_and(|all| all);
        [Mode::ShareAll, Mode::Adaptive].into_iter().all(passes).then_some(own)
    }

    fn build(&self, mode: Mode) -> Deployment {
        self.chain.build(&self.copies.bench.cases, &Way::new(self.device, mode), self.load.len)
    }

    fn lane_ns(&self, mode: Mode) -> Result<f64, Failure> {
        let driven =
            super::speed::full(self.copies, &self.build(mode), &self.load, &Settings::default())?;
        Ok(driven.lane_ns)
    }

    /// Whether all of `packets` came through.
    fn take(&self, mode: Mode, packets: u64) -> Result<bool, String> {
        let source = MemorySource::new(Arc::clone(&self.load.frames), packets);
        let ports = Ports::PerLane(vec![(Box::new(source), Box::new(NullSink))]);
        let report = run(&self.build(mode), &Settings::default(), ports, &Control::default());
        let part = report.map_err(|why| why.to_string())?.part;
        Ok(part.packets.dropped + part.packets.malformed == 0)
    }
}
