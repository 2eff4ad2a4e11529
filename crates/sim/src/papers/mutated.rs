//! Each rule about a shape fails for some mutated model.

use std::cell::Cell;
use std::collections::BTreeMap;

use warpline_sched::monitor::Wait;
use warpline_sched::{Division, Mode, PauseMode, VgpuProfile, Watermarks};

use super::shape::Rule;
use super::{PaperItem, named};
use crate::batch_cost::BatchCost;
use crate::model::{ChainModel, Cost, Scenario, StageSite};
use crate::traffic::Arrivals;
use Mutation::*;

/// A mistake in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mutation {
    FreeKernels,
    SlowKernels,
    SlowCpu,
    SlowLinks,
    /// Setups without pauses have them, and those with pauses have none.
    SwappedPauses,
    MoreTraffic,
    LessTraffic,
    /// Devices are slower in each run than in the one before, until they rest.
    Throttled,
    /// Processors, devices and links are slow up to a rate of packets, and fast beyond it.
    PowerSaving,
    /// The last stage is slow, and pauses never arrive.
    SlowLast,
    /// The kernels of all chains but the first are slow.
    SlowNeighbours,
    /// Plans copy nothing.
    NoCopies,
    /// Functions read and write whole frames.
    WholeFrames,
    /// The best plans and the baseline's change their names.
    SwappedModes,
    /// A device is missing, with rows of tables.
    MissingDevice,
    /// Each device bears the name of the one before.
    SwappedDevices,
    /// Functions with a cost for each byte have one for each packet, and the reverse.
    SwappedCosts,
    /// The policy is never followed.
    DeafMonitor,
    /// A launch is due by the delay of its oldest packet.
    OldestWaits,
    /// Profiles have half the memory, and twice the virtual GPUs.
    OtherCard,
    /// All profiles are instances with cores of their own.
    Instances,
}

thread_local! {
    static PRESENT: Cell<Option<Mutation>> = const { Cell::new(None) };
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// The mutation of this thread's models.
pub(crate) fn present() -> Option<Mutation> {
    PRESENT.get()
}

/// Whether models of this thread are mutated so.
pub(crate) fn is(mutation: Mutation) -> bool {
    PRESENT.get() == Some(mutation)
}

/// The factor of kernels outside a scenario.
pub(crate) fn kernel_factor() -> f64 {
    match PRESENT.get() {
        Some(SlowKernels) => 50.0,
        Some(FreeKernels) => 1e-6,
        _ => 1.0,
    }
}

pub(crate) fn mode(own: Mode) -> Mode {
    match own {
        Mode::Adaptive if is(SwappedModes) => Mode::PerNf,
        Mode::PerNf if is(SwappedModes) => Mode::Adaptive,
        _ => own,
    }
}

pub(crate) fn wait(own: Wait) -> Wait {
    if is(OldestWaits) { Wait::Oldest } else { own }
}

pub(crate) fn by_byte(own: bool) -> bool {
    own != is(SwappedCosts)
}

pub(crate) fn device(own: usize) -> usize {
    if is(SwappedDevices) { [1, 2, 0][own] } else { own }
}

pub(crate) fn profile(mut own: VgpuProfile) -> VgpuProfile {
    match PRESENT.get() {
        Some(OtherCard) => {
            own.memory_gb /= 2;
            own.slots_max *= 2;
            if let Division::Instances { compute, memory } = &mut own.division {
                (*compute, *memory) = (2 * *compute, 2 * *memory);
            }
        }
        Some(Instances) => own.division = Division::Instances { compute: 1, memory: 1 },
        _ => {}
    }
    own
}

fn times(own: &Cost, factor: f64) -> Cost {
    Cost {
        launch_ps: own.launch_ps * factor,
        packet_ps: own.packet_ps * factor,
        byte_ps: own.byte_ps * factor,
    }
}

fn scaled(cost: &BatchCost, factor: f64) -> BatchCost {
    match cost {
        BatchCost::Linear(own) => BatchCost::Linear(times(own, factor)),
        BatchCost::Measured(points) => {
            let scale = |&(packets, ps): &(f64, f64)| (packets, ps * factor);
            BatchCost::Measured(points.iter().map(scale).collect())
        }
    }
}

/// `scenario` as the present mutation makes it; none without one.
pub(crate) fn of(scenario: &Scenario) -> Option<Scenario> {
    let mutation = PRESENT.get()?;
    RUNS.set(RUNS.get() + 1);
    let mut own = scenario.clone();
    for (at, chain) in own.chains.iter_mut().enumerate() {
        change(chain, mutation, at > 0);
    }
    let saving = own.chains.first().map_or(1.0, saving_power);
    for device in &mut own.devices {
        let factor = match mutation {
            SlowLinks => 50.0,
            PowerSaving => saving,
            _ => 1.0,
        };
        for link in [&mut device.to_device, &mut device.to_host].into_iter().flatten() {
            link.byte_ps *= factor;
            link.copy_ns *= factor;
        }
    }
    own.events_max = own.events_max.min(1_000_000);
    Some(own)
}

fn change(chain: &mut ChainModel, mutation: Mutation, is_neighbour: bool) {
    // Units that never fill would wait forever.
    chain.batch_delay_ns = chain.batch_delay_ns.min(1_000_000_000);
    let (kernel, cpu) = match mutation {
        FreeKernels => (1e-6, 1.0),
        SlowKernels => (50.0, 1.0),
        SlowNeighbours if is_neighbour => (50.0, 1.0),
        PowerSaving => (saving_power(chain), saving_power(chain)),
        SlowCpu => (1.0, 50.0),
        Throttled => ([1.0, 5.0, 20.0][RUNS.get() % 3], 1.0),
        _ => (1.0, 1.0),
    };
    let last = chain.stages.len() - 1;
    for (at, stage) in chain.stages.iter_mut().enumerate() {
        let is_slow = mutation == SlowLast && at == last;
        let more = if is_slow { 50.0 } else { 1.0 };
        match &mut stage.place {
            StageSite::Cpu { cost, .. } => *cost = scaled(cost, cpu * more),
            StageSite::Device(work) => {
                work.kernel = scaled(&work.kernel, kernel * more);
                work.before = times(&work.before, cpu);
                work.after = times(&work.after, cpu);
            }
        }
    }
    match mutation {
        SlowLast => chain.signal_ns = 1_000_000_000_000,
        SwappedPauses => {
            chain.pressure = match chain.pressure {
                PauseMode::Off => PauseMode::On(Watermarks::default()),
                PauseMode::On(_) => PauseMode::Off,
            }
        }
        MoreTraffic => scale(&mut chain.traffic.arrivals, 4.0),
        LessTraffic => scale(&mut chain.traffic.arrivals, 0.02),
        _ => {}
    }
}

/// The factor of costs in [`PowerSaving`].
fn saving_power(chain: &ChainModel) -> f64 {
    match &chain.traffic.arrivals {
        Arrivals::Constant(rate) if *rate > 70_000.0 => 0.05,
        _ => 2.0,
    }
}

fn scale(arrivals: &mut Arrivals, factor: f64) {
    match arrivals {
        Arrivals::Constant(rate) | Arrivals::Poisson(rate) | Arrivals::OnOff { rate, .. } => {
            *rate *= factor;
        }
        Arrivals::Steps(steps) => steps.iter_mut().for_each(|step| step.1 *= factor),
        Arrivals::Replay(_) => {}
    }
}

/// Mutations that break all rules of an entry together.
const BREAKS: &[(&str, &[Mutation])] = &[
    ("simmer-2022/table2", &[LessTraffic, SlowLast]),
    ("simmer-2022/table3", &[OtherCard]),
    ("simmer-2022/table4", &[OtherCard]),
    ("simmer-2022/table5", &[OtherCard]),
    ("simmer-2022/fig2", &[LessTraffic]),
    ("simmer-2022/fig5", &[LessTraffic, Throttled]),
    ("simmer-2022/fig6", &[LessTraffic, SwappedPauses]),
    ("simmer-2022/fig7", &[LessTraffic, SlowLast, Throttled]),
    ("simmer-2022/fig7-nf1", &[LessTraffic, SlowLast, Throttled]),
    ("simmer-2022/fig7-nf3", &[LessTraffic, SlowLast, Throttled]),
    ("simmer-2022/fig8", &[LessTraffic, SwappedPauses]),
    ("simmer-2022/fig9", &[SwappedPauses, Throttled]),
    ("simmer-2022/fig9-nf1", &[Throttled]),
    ("simmer-2022/fig9-nf3", &[Throttled]),
    ("simmer-2022/fig10", &[SwappedPauses]),
    ("simmer-2022/fig11", &[LessTraffic]),
    ("vgpu-nfv-2020/table1", &[OtherCard]),
    ("vgpu-nfv-2020/limits", &[OtherCard, Instances]),
    ("vgpu-nfv-2020/fig2a", &[SwappedCosts, Throttled]),
    ("vgpu-nfv-2020/fig2b", &[LessTraffic, SwappedCosts, Throttled]),
    ("vgpu-nfv-2020/fig3", &[SlowKernels, SlowNeighbours]),
    ("vgpu-nfv-2020/fig4", &[SlowKernels]),
    ("vgpu-nfv-2020/fig5", &[LessTraffic, SlowNeighbours]),
    ("vgpu-nfv-2020/fig6", &[LessTraffic, SlowKernels, SlowLinks]),
    ("pythia-2020/table1", &[FreeKernels, MissingDevice]),
    ("pythia-2020/table2", &[FreeKernels, SlowKernels, MissingDevice]),
    ("pythia-2020/table3", &[FreeKernels, SlowKernels, MissingDevice]),
    ("pythia-2020/table4", &[LessTraffic]),
    ("pythia-2020/fig1", &[LessTraffic, SwappedDevices]),
    ("pythia-2020/fig2", &[LessTraffic, SwappedDevices]),
    ("pythia-2020/fig4a", &[LessTraffic, MoreTraffic]),
    ("pythia-2020/fig4b", &[LessTraffic, MoreTraffic]),
    ("pythia-2020/fig4c", &[MissingDevice, DeafMonitor]),
    ("pythia-2020/fig4d", &[MissingDevice, DeafMonitor]),
    ("gpu-ids-framework/fig2", &[FreeKernels]),
    ("gpu-ids-framework/fig5", &[SlowCpu, SlowLinks, PowerSaving]),
    ("gpu-ids-framework/fig6", &[LessTraffic]),
    ("gpu-ids-framework/fig7", &[SlowCpu, PowerSaving]),
    ("gpu-ids-framework/fig8", &[PowerSaving]),
    ("gpu-ids-framework/table2", &[LessTraffic]),
    ("gpu-ids-framework/table3", &[OldestWaits]),
    ("adaptchain-2024/table1", &[NoCopies]),
    ("adaptchain-2024/table2", &[NoCopies]),
    ("adaptchain-2024/fig1", &[FreeKernels]),
    ("adaptchain-2024/fig3", &[SlowLinks, LessTraffic]),
    ("adaptchain-2024/fig4", &[WholeFrames]),
    ("adaptchain-2024/fig5", &[NoCopies]),
    ("adaptchain-2024/fig6", &[NoCopies]),
    ("adaptchain-2024/fig9", &[SlowLast, SwappedModes]),
    ("adaptchain-2024/fig10", &[SwappedModes]),
    ("adaptchain-2024/fig11a", &[SwappedModes]),
    ("adaptchain-2024/fig11b", &[SlowCpu, NoCopies]),
    ("adaptchain-2024/fig12", &[NoCopies]),
    ("adaptchain-2024/fig13", &[SwappedModes]),
    ("adaptchain-2024/fig14", &[SlowLinks, SwappedModes]),
    ("adaptchain-2024/ratios", &[LessTraffic]),
    ("adaptchain-2024/fig15", &[LessTraffic, SlowCpu, SwappedPauses]),
    ("adaptchain-2024/fig16", &[SlowKernels]),
];

/// The rules of an entry under a mutation.
fn rules(entry: &'static PaperItem, mutation: Mutation) -> Vec<Rule> {
    PRESENT.set(Some(mutation));
    RUNS.set(0);
    let found = entry.simulate();
    PRESENT.set(None);
    found.unwrap_or_else(|why| panic!("{}, {mutation:?}: {why}", entry.id())).found.rules
}

#[test]
fn each_rule_fails_for_a_mutated_model() {
    let mut never: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in named("all").into_iter().filter(|entry| entry.simulation.is_some()) {
        let id = entry.id();
        let own = BREAKS.iter().find(|(own, _)| *own == id);
        let all = own.map_or(&[][..], |(_, mutations)| mutations);
        let mut unbroken: Option<BTreeMap<usize, String>> = None;
        for &mutation in all {
            let found = rules(entry, mutation);
            let holds = found.into_iter().enumerate().filter(|(_, rule)| rule.holds);
            let holds = holds.map(|(at, rule)| (at, rule.text));
            unbroken = Some(match unbroken {
                None => holds.collect(),
                Some(before) => holds.filter(|(at, _)| before.contains_key(at)).collect(),
            });
        }
        match unbroken {
            None => drop(never.insert(id, vec!["no mutation is listed".into()])),
            Some(rules) if rules.is_empty() => {}
            Some(rules) => drop(never.insert(id, rules.into_values().collect())),
        }
    }
    assert!(never.is_empty(), "{never:#?}");
}
