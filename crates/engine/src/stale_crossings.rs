//! Chains with one wrong crossing each. The check must name the stale field by packet, function,
//! phase and field.

use std::sync::{Arc, OnceLock};

use warpline_device::{Wrapped, apart};
use warpline_launch::{Crossings, Reader, RoomsThere};
use warpline_nf::{Before, Emit, Emits, Function, State, StateHalf};
use warpline_packet::{Access, Batch, Field, FieldSet, ReadWrite, Shard};
use warpline_sched::{Aim, Mode};

use crate::common::frames::Input;
use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, run_ports};
use crate::common::talk::Talk;
use crate::planned::crossings;
use crate::{
    Chain, Control, Deployment, FramesBy, LaunchOptions, OnDevice, PlanOptions, Settings, StaleRead,
};

#[path = "../tests/devices/placed.rs"]
#[allow(dead_code)]
mod placed;

use placed::host;

/// A chain of forms, those with `@` on a device that copies and those with `+` on another.
fn deploy_names(names: &[&str], plan: PlanOptions) -> Option<Deployment> {
    let devices = [apart(&host()?), Wrapped::new(&apart(&host()?)).called("other").into_device()];
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches(['@', '+'])).collect();
    let on = |place: usize| {
        let at = "@+".find(names[place].chars().next()?)?;
        let device = Arc::clone(&devices[at]);
        Some(OnDevice { device, launches: LaunchOptions::default(), is_required: true })
    };
    let mut deployment =
        try_deploy_on(&forms(&bare), &[], on).unwrap_or_else(|why| panic!("{why}"));
    deployment.set_plan(plan);
    Some(deployment)
}

/// Changes what crosses for the chain's stages on devices, which are in order.
fn change(deployment: &mut Deployment, mutate: impl Fn(&mut [&mut Crossings])) {
    let mut all = crossings(deployment, deployment.plan());
    let stages = deployment.stages().iter().zip(&mut all);
    let on_devices = stages.filter(|(stage, _)| deployment.is_on_device(stage));
    mutate(&mut on_devices.map(|(_, own)| own).collect::<Vec<_>>());
    deployment.crossings = OnceLock::from(all);
}

fn inputs(names: &[&str], packets: usize) -> Vec<Input> {
    let bare: Vec<&str> = names.iter().map(|name| name.trim_start_matches(['@', '+'])).collect();
    let opens = bare.iter().position(|name| *name == "open-pieces").unwrap_or(0);
    traffic(&forms(&bare[opens..]), Talk::new(71, 60, 1400).take(packets), 73, 15)
}

fn without(set: &mut FieldSet, field: Field) {
    assert!(set.contains(field), "{field:?} is not among {set:?}");
    *set = *set & !FieldSet::of(&[field]);
}

fn run(deployment: Deployment, settings: Settings, inputs: &[Input]) -> Outcome {
    let settings = Settings { follows_versions: true, ..settings };
    run_ports(
        deployment,
        settings,
        Frames::new(inputs),
        SentFrames::default(),
        Arc::new(Control::default()),
    )
}

struct Mutant {
    what: &'static str,
    names: &'static [&'static str],
    plan: PlanOptions,
    mutate: fn(&mut [&mut Crossings]),
    /// The function's position, the phase, the field, and where it is stale.
    found: (usize, Reader, Field, &'static str),
}

const ADAPTIVE: PlanOptions = PlanOptions {
    mode: Mode::Adaptive,
    aim: Aim::TIME,
    packet_len: 1400,
    recoverable: false,
    frames_by: FramesBy::Copies,
    lanes: 1,
};
const SHARE_ALL: PlanOptions = PlanOptions { mode: Mode::ShareAll, ..ADAPTIVE };
const BY_KERNELS: PlanOptions = PlanOptions { frames_by: FramesBy::Kernels, ..SHARE_ALL };

const HOST: &str = "the host";
const APART: &str = "host-apart";
const OTHER: &str = "other";
const COLUMN: &str = "host-apart, in the launch's table";

const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "a field does not cross to a kernel that has fields alone",
        names: &["@router-plain"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[0].there, Field::DstAddr),
        found: (0, Reader::Run, Field::DstAddr, APART),
    },
    Mutant {
        what: "a field that is written does not cross there",
        names: &["@router-plain"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[0].there, Field::Ttl),
        found: (0, Reader::Run, Field::Ttl, COLUMN),
    },
    Mutant {
        what: "a field does not come back",
        names: &["@router-plain"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[0].back, Field::Ttl),
        found: (1, Reader::Output, Field::Ttl, HOST),
    },
    Mutant {
        what: "a field that the host wrote does not cross to a mirror that has the frame",
        names: &["@digest-count", "router-plain", "@router-plain"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[1].there, Field::Ttl),
        found: (2, Reader::Run, Field::Ttl, APART),
    },
    Mutant {
        what: "a field that a kernel wrote to a frame does not come back",
        names: &["@digest-count", "router-plain", "@router-plain", "firewall"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[1].back, Field::Ttl),
        found: (4, Reader::Output, Field::Ttl, HOST),
    },
    Mutant {
        what: "no room crosses to a kernel that has whole frames",
        names: &["@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| all[0].rooms_there = RoomsThere::None,
        found: (0, Reader::Run, Field::Payload, APART),
    },
    Mutant {
        what: "rooms do not come back",
        names: &["@seal", "monitor"],
        plan: SHARE_ALL,
        mutate: |all| all[0].rooms_back = false,
        found: (1, Reader::Run, Field::SrcAddr, HOST),
    },
    Mutant {
        what: "a kernel does not carry rooms back",
        names: &["@seal", "monitor"],
        plan: BY_KERNELS,
        mutate: |all| all[0].rooms_back = false,
        found: (1, Reader::Run, Field::SrcAddr, HOST),
    },
    Mutant {
        what: "packets that a kernel leaves to the CPU are not fetched",
        names: &["@digest-count", "firewall", "@router-plain", "@nat", "monitor", "@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| {
            assert!(!all[2].left_there.fields.is_empty());
            all[2].left_there.fields = FieldSet::EMPTY;
        },
        found: (3, Reader::Run, Field::IpChecksum, HOST),
    },
    Mutant {
        what: "a mirror is used again though the CPU sealed the packets",
        names: &["@digest-count", "seal", "@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| reuse(all, 1),
        found: (2, Reader::Run, Field::Payload, APART),
    },
    Mutant {
        what: "a mirror is used again though another device sealed the packets",
        names: &["@digest-count", "+seal", "@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| reuse(all, 2),
        found: (2, Reader::Run, Field::Payload, APART),
    },
    Mutant {
        what: "a second device has no rooms of its own",
        names: &["@digest-count", "+digest-tag"],
        plan: ADAPTIVE,
        mutate: |all| all[1].rooms_there = RoomsThere::None,
        found: (1, Reader::Run, Field::Payload, OTHER),
    },
    Mutant {
        what: "packets that a kernel flagged are not fetched",
        names: &[
            "@digest-count",
            "firewall",
            "@digest-count",
            "@router",
            "firewall",
            "@digest-count",
        ],
        plan: ADAPTIVE,
        mutate: |all| {
            let fetches = |own: &&mut &mut Crossings| own.left_there.fetches_flagged;
            let own = all.iter_mut().find(fetches).expect("a launch that fetches flagged packets");
            own.left_there.fetches_flagged = false;
        },
        found: (3, Reader::After, Field::EthDst, HOST),
    },
    Mutant {
        what: "the host's newer fields are not put back over what was fetched",
        names: &["@digest-count", "router-plain", "@nat", "digest-narrow", "@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| without(&mut all[1].left_there.newer_here, Field::Ttl),
        found: (5, Reader::Output, Field::Ttl, HOST),
    },
    Mutant {
        what: "a column of the launch's table does not cross to the kernels",
        names: &["@nat"],
        plan: ADAPTIVE,
        mutate: |all| {
            let ReadWrite { reads, writes } = &mut all[0].metadata;
            without(reads, Field::Scratch0);
            *writes = *writes & *reads;
        },
        found: (0, Reader::Run, Field::Scratch0, COLUMN),
    },
    Mutant {
        what: "a column of the launch's table does not come back",
        names: &["@digest-count"],
        plan: ADAPTIVE,
        mutate: |all| {
            let ReadWrite { reads, writes } = &mut all[0].metadata;
            *reads = *reads | *writes;
            // The last column: what lies between others crosses with them.
            without(writes, Field::Scratch3);
        },
        found: (0, Reader::After, Field::Scratch3, HOST),
    },
];

/// Has launch `last` find the packets where the first one left them.
fn reuse(all: &mut [&mut Crossings], last: usize) {
    all[0].keeps_mirror = true;
    all[last].rooms_there = RoomsThere::Missing;
}

fn found(stale: &StaleRead) -> (usize, Reader, &'static str, &str) {
    (stale.position, stale.phase, stale.field, &stale.place)
}

#[test]
fn stale_fields_of_a_wrong_plan_are_named() {
    let mut missed = Vec::new();
    for mutant in MUTANTS {
        let inputs = inputs(mutant.names, 500);
        for batch_packets in [256, 7] {
            let settings = Settings { batch_packets, slabs: 6, ..Settings::default() };
            let Some(right) = deploy_names(mutant.names, mutant.plan) else { return };
            let versions = run(right, settings, &inputs).report.part.versions;
            assert_eq!(versions.stale, None, "{:?} as planned", mutant.names);
            assert!(versions.looks > 0, "{:?}", mutant.names);
            let mut wrong = deploy_names(mutant.names, mutant.plan).expect("the same device");
            change(&mut wrong, mutant.mutate);
            let stale = run(wrong, settings, &inputs).report.part.versions.stale;
            let (position, phase, field, place) = mutant.found;
            let expected = (position, phase, field.name(), place);
            match stale {
                Some(stale) if found(&stale) == expected => {
                    assert!(stale.packet < inputs.len() as u64, "{}: {stale}", mutant.what);
                }
                other => missed.push((mutant.what, batch_packets, other)),
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Gives packets other frames, and marks them as ones that a mirror has.
struct Forgets(Access);

struct Forgetful;

impl Function for Forgets {
    fn access(&self) -> &Access {
        &self.0
    }

    fn run(&self, _: &mut Batch) {}

    fn state(&self, _: Shard) -> State {
        State::before(Forgetful)
    }

    fn emits(&self) -> Emits {
        Emits { replace_len_max: 2000, ..Emits::NONE }
    }
}

impl Before for Forgetful {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &pick in picks.iter().filter(|pick| **pick % 5 == 3) {
            let bytes = batch.packet(pick.into()).frame().to_vec();
            assert!(emit.replace(batch, pick.into(), &bytes));
        }
        batch.set_mirrored(0, 1, true);
    }
}

impl StateHalf for Forgetful {}

#[test]
fn a_frame_that_was_replaced_and_is_taken_for_a_mirrors_is_named() {
    let names = ["@digest-count", "firewall", "@digest-count"];
    let inputs = inputs(&names, 400);
    let Some(first) = deploy_names(&names, ADAPTIVE) else { return };
    let before = ReadWrite::new(FieldSet::ALL, FieldSet::EMPTY);
    let access = Access { before, ..Access::run_only(ReadWrite::NONE) };
    let mut chain = Chain::clone(first.chain());
    chain.instances[1].function = Arc::new(Forgets(access));
    let mut deployment = Deployment::new(Arc::new(chain), first.sites().to_vec());
    deployment.set_plan(ADAPTIVE);
    let settings = Settings { slabs: 6, ..Settings::default() };
    let stale =
        run(deployment, settings, &inputs).report.part.versions.stale.expect("a stale field");
    assert_eq!(found(&stale), (2, Reader::Run, "payload", APART), "{stale}");
    assert_eq!(stale.packet, 3, "{stale}");
}
