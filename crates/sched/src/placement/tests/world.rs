//! Small worlds: functions with measurements on devices, one chain, random or by hand.

use proptest::prelude::*;
use warpline_packet::{Field, FieldSet};

use super::super::*;
use crate::work_profile::{Figures, Measurement, Power, WorkPair};
use crate::{Aim, FieldCosts, LinkCosts, PlannedFunction, Touch, Widths};

pub(super) const LEN: u32 = 1000;

/// Launch size, Gb/s, ns.
pub(super) type Curve = Vec<(u32, f64, f64)>;

#[derive(Clone, Debug)]
pub(super) struct World {
    /// By function, by device.
    pub curves: Vec<Vec<Curve>>,
    /// By function: the factor beside one instance of any function, on all devices.
    pub slow: Vec<f64>,
    pub power: Vec<Option<(f64, f64)>>,
    pub rate: f64,
    pub delay_ns_max: Option<f64>,
    pub power_w_max: Option<f64>,
    /// ns a byte on links; with 0 devices share the host's memory.
    pub link_ns: f64,
    /// ns a packet to gather fields for a link.
    pub gather_ns: f64,
    /// Lanes of the CPU; a curve of it is that of one lane.
    pub lanes: usize,
    pub cores: usize,
    /// By device: the cores that it takes. Those of the CPU are its lanes.
    pub on_cores: Vec<u32>,
    /// ns a packet of the threads besides functions.
    pub threads_ns: f64,
}

impl World {
    pub(super) fn new(curves: &[Vec<Curve>]) -> Self {
        Self {
            curves: curves.to_vec(),
            slow: vec![2.0; curves.len()],
            power: vec![None; curves[0].len()],
            rate: 1e6,
            delay_ns_max: None,
            power_w_max: None,
            link_ns: 0.0,
            gather_ns: 0.0,
            lanes: 1,
            cores: usize::MAX,
            on_cores: vec![0; curves[0].len()],
            threads_ns: 0.0,
        }
    }

    fn profile(&self) -> WorkProfile {
        let functions = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let devices = ["cpu", "d1", "d2", "d3"];
        let devices = &devices[..self.power.len()];
        let mut profile = WorkProfile::new(&functions[..self.curves.len()], devices);
        for (device, power) in self.power.iter().enumerate() {
            let (idle_w, busy_w) = (power.map(|one| one.0), power.map(|one| one.1));
            profile.set_power(device, Power { idle_w, busy_w });
            profile.set_cores(device, self.on_cores[device]);
        }
        for (function, curves) in self.curves.iter().enumerate() {
            for (device, curve) in curves.iter().enumerate() {
                for point in curve {
                    self.measure(&mut profile, (function, device), point);
                }
            }
        }
        profile
    }

    fn measure(&self, profile: &mut WorkProfile, pair: WorkPair, point: &(u32, f64, f64)) {
        let &(launch, gbps, latency_ns) = point;
        let figures =
            |gbps: f64| Figures { bits_per_s: gbps * 1e9, latency_ns, share: 1.0, weight: 1.0 };
        let at = |gbps: f64| Measurement::alone(pair, launch, LEN, figures(gbps));
        profile.merge(&at(gbps)).expect("sound");
        for other in 0..self.curves.len() {
            let slower = at(gbps / self.slow[pair.0]).beside(other, 1);
            profile.merge(&slower).expect("sound");
        }
    }

    fn link(&self) -> LinkCosts {
        LinkCosts {
            to_device_ns_per_byte: self.link_ns,
            to_host_ns_per_byte: self.link_ns,
            host_copy_ns_per_byte: 0.0,
            device_copy_ns_per_byte: 0.0,
            gather: FieldCosts { packet_ns: self.gather_ns, field_ns: 0.0 },
            put: FieldCosts::NONE,
            transfer_ns: 0.0,
            whole_back_ns: 0.0,
            traffic: 1.0,
        }
    }

    /// A chain of all functions, each of which reads payloads: half of a frame.
    pub(super) fn chain(&self, packets_per_s: f64) -> ChainDemand {
        let functions: Vec<usize> = (0..self.curves.len()).collect();
        let payload = FieldSet::of(&[Field::Payload]);
        let run = Touch { needs: payload, writes: FieldSet::EMPTY };
        let planned = |_: &usize| PlannedFunction::run_only("one", None, run);
        let devices = self.power.len();
        let plan = Problem {
            functions: functions.iter().map(planned).collect(),
            hops: None,
            links: vec![self.link(); devices],
            widths: Widths::new(&[(Field::Payload, f64::from(LEN / 2))], f64::from(LEN)),
            end_reads: Problem::sink_reads(),
            gathered: FieldSet::FRAME,
            is_recoverable: true,
            fetches_first: false,
            aim: Aim::TIME,
        };
        let link = |device: usize| (device != 0 && self.link_ns > 0.0).then_some(device);
        let links = (0..devices).map(link).collect();
        let (lanes, threads_ns) = (self.lanes, self.threads_ns);
        ChainDemand { functions, plan, links, packets_per_s, packet_len: LEN, lanes, threads_ns }
    }

    pub(super) fn place(&self, policy: PlacementPolicy, packets_per_s: f64) -> Placement {
        self.place_all(&[self.chain(packets_per_s)], policy)
    }

    pub(super) fn place_all(&self, chains: &[ChainDemand], policy: PlacementPolicy) -> Placement {
        let problem = PlacementProblem {
            profile: &self.profile(),
            chains,
            policy,
            devices: None,
            delay_ns_max: self.delay_ns_max,
            power_w_max: self.power_w_max,
            lanes_max: self.lanes,
            cores: self.cores,
        };
        problem.place().expect("each function runs on the CPU")
    }
}

fn curve() -> impl Strategy<Value = Curve> {
    // Each launch size brings over 2 % more, so all are below the knee.
    let steps = prop::collection::vec((1.1..3.0f64, 1e3..1e6f64), 1..3);
    (0.5..20.0f64, steps).prop_map(|(first, steps)| {
        let (mut gbps, mut launch) = (first, 128);
        let grow = |(factor, ns): (f64, f64)| {
            (gbps, launch) = (gbps * factor, launch * 4);
            (launch, gbps, ns)
        };
        steps.into_iter().map(grow).collect()
    })
}

/// Worlds without copies, with so many functions.
pub(super) fn world(functions: std::ops::Range<usize>) -> impl Strategy<Value = World> {
    (functions, 1usize..4).prop_flat_map(|(functions, devices)| {
        let cpu = (0.5..20.0f64, 1e3..1e5f64).prop_map(|(gbps, ns)| vec![(256, gbps, ns)]);
        let device = prop_oneof![4 => curve(), 1 => Just(Vec::new())];
        let row = (cpu, prop::collection::vec(device, devices - 1));
        let row = row.prop_map(|(cpu, rest)| [vec![cpu], rest].concat());
        let watts = (1.0..50.0f64, 51.0..300.0f64).prop_map(Some);
        let numbers = (
            prop::collection::vec(row, functions),
            prop::collection::vec(1.0..3.0f64, functions),
            prop::collection::vec(watts, devices),
            1e4..3e6f64,
            prop::option::of(1e3..1e6f64),
            prop::option::of(10.0..500.0f64),
            prop_oneof![Just(usize::MAX), 1usize..4],
            prop::collection::vec(0u32..3, devices),
            0.0..300.0f64,
        );
        numbers.prop_map(
            |(curves, slow, power, rate, delay, watts, cores, on_cores, threads_ns)| {
                let world =
                    World { slow, power, rate, cores, on_cores, threads_ns, ..World::new(&curves) };
                World { delay_ns_max: delay, power_w_max: watts, ..world }
            },
        )
    })
}
