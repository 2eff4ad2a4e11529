//! Chains of a profile with a CPU and a GPU.

use warpline_packet::{Access, Field, FieldSet, ReadWrite};
use warpline_sched::placement::PlacementPolicy;
use warpline_sched::{Mode, PauseMode, Policy, Sharing, Watermarks};
use warpline_sim::{
    Asked, AskedChain, AskedFunction, AskedLaunches, AskedSharing, Assembled, Load, Outcome,
    WorkFile,
};

/// On the CPU nat has 4 and nids 1 Gb/s; on the GPU they have 20 and 40 Gb/s.
pub(crate) const PROFILE: &str = r#"{"schema": 1, "kind": "measured", "title": "test",
    "functions": ["nat", "nids"],
    "devices": [{"name": "cpu", "idle_w": 20, "busy_w": 100},
        {"name": "gpu", "idle_w": 10, "busy_w": 110, "link":
            {"to_device_bytes_per_s": 1e10, "to_host_bytes_per_s": 1e10, "each_copy_s": 1e-6}}],
    "measurements": [
        {"function": "nat", "device": "cpu", "launch_packets": 256, "packet_len": 512, "gbps": 4},
        {"function": "nids", "device": "cpu", "launch_packets": 256, "packet_len": 512, "gbps": 1},
        {"function": "nat", "device": "gpu", "launch_packets": 1024, "packet_len": 512, "gbps": 20},
        {"function": "nids", "device": "gpu", "launch_packets": 256, "packet_len": 512, "gbps": 16},
        {"function": "nids", "device": "gpu", "launch_packets": 1024, "packet_len": 512,
         "gbps": 40}]}"#;

pub(crate) fn function(name: &str, device: Option<&str>) -> AskedFunction {
    let reads = match name {
        "nids" => FieldSet::of(&[Field::Payload]),
        _ => FieldSet::of(&[Field::SrcAddr, Field::DstAddr]),
    };
    AskedFunction {
        name: name.into(),
        kind: name.into(),
        device: device.map(str::to_owned),
        launches: AskedLaunches::default(),
        own_stage: false,
        access: Access::run_only(ReadWrite::new(reads, FieldSet::EMPTY)),
        is_second_place: false,
        makes_packets: false,
        has_findings: false,
    }
}

pub(crate) fn asked<'a>(
    file: &'a WorkFile,
    functions: Vec<AskedFunction>,
    load: &str,
) -> Asked<'a> {
    let chain = AskedChain {
        name: "chain".into(),
        functions,
        mode: Mode::Adaptive,
        pressure: PauseMode::On(Watermarks::default()),
        queue: 6_000,
        lanes: 1,
        batch_packets: 256,
        first_launch_packets: 1,
        ways: None,
        tenant: None,
    };
    Asked {
        file,
        chains: vec![chain],
        load: Load::parse(load).expect(load),
        tenants: 1,
        sharing: None,
        placement: PlacementPolicy::Throughput,
        lasts_ns: Some(200_000_000),
        seed: 1,
    }
}

pub(crate) fn run(asked: &Asked<'_>) -> (Assembled, Outcome) {
    let assembled = asked.assemble().expect("sound");
    let outcome = assembled.scenario.simulate().expect("sound");
    (assembled, outcome)
}

pub(crate) fn sharing(policy: Policy) -> AskedSharing {
    let sharing = Sharing { policy, ..Sharing::default() };
    AskedSharing { sharing, slots: None, of_devices: Vec::new() }
}
