//! Parts that the engine's tests share: functions, frames, ports, and a run that is checked.

#![allow(dead_code)]

pub(crate) mod dropped;
pub(crate) mod emit_absorb;
pub(crate) mod form_files;
pub(crate) mod forms;
pub(crate) mod frames;
pub(crate) mod grow;
pub(crate) mod moving;
pub(crate) mod nat_like;
pub(crate) mod noter;
pub(crate) mod ports;
pub(crate) mod random;
pub(crate) mod real;
pub(crate) mod replace;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod sensor;
pub(crate) mod talk;
pub(crate) mod three_phase;
pub(crate) mod wire;

use std::sync::Arc;

use warpline_engine::{Chain, Deployment, Instance, Place, Site};
use warpline_nf::{Definition, Function};
use warpline_packet::{Access, StateKey};

/// A function of a test chain.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    Grow,
    EmitAbsorb,
    /// The same in a stage of its own, with this many batches together.
    EmitAbsorbOwn {
        launch: usize,
    },
    /// With this many bindings in all shards together.
    NatLike {
        bindings: usize,
        inside: bool,
    },
    /// In a stage of its own, with this many batches together; fused with its neighbours for 0.
    ThreePhase {
        launch: usize,
    },
    /// The same of stages.
    Replace {
        launch: usize,
    },
}

pub(crate) const NAT: Spec = Spec::NatLike { bindings: 4096, inside: false };

/// The chain of all four, in an order in which each meets what the others did.
pub(crate) fn all_four(launch: usize) -> Vec<Spec> {
    vec![Spec::EmitAbsorb, NAT, Spec::ThreePhase { launch }, Spec::Grow]
}

/// A chain of `specs`, on the CPU.
pub(crate) fn deploy(specs: &[Spec]) -> Deployment {
    let mut words = 0;
    let built = specs.iter().enumerate().map(|(place, spec)| instance(place, spec, &mut words));
    let (instances, sites) = built.unzip();
    let chain = Chain::new("test", instances, words).expect("a chain that can be built");
    Deployment::new(Arc::new(chain), sites)
}

fn instance(place: usize, spec: &Spec, words: &mut usize) -> (Instance, Site) {
    let mut word = || {
        *words += 1;
        warpline_packet::ScratchWord::new(*words - 1).expect("a scratch word")
    };
    let (function, own, launch): (Arc<dyn Function>, bool, usize) = match spec {
        Spec::Grow => (Arc::new(grow::Grow::new()), false, 1),
        Spec::EmitAbsorbOwn { launch } => (Arc::new(emit_absorb::EmitAbsorb::new()), true, *launch),
        Spec::EmitAbsorb => (Arc::new(emit_absorb::EmitAbsorb::new()), false, 1),
        Spec::NatLike { bindings, inside } => {
            let key = if *inside {
                nat_like::inside_key(nat_like::PORT_FIRST)
            } else {
                StateKey::AddressPair
            };
            (Arc::new(nat_like::NatLike::new(*bindings, key, word())), false, 1)
        }
        Spec::ThreePhase { launch } => {
            let function = Arc::new(three_phase::ThreePhase::new(word()));
            (function, *launch > 0, (*launch).max(1))
        }
        Spec::Replace { launch } => {
            (Arc::new(replace::Replace::new()), *launch > 0, (*launch).max(1))
        }
    };
    let name = format!("{place}-{spec:?}");
    let site = Site { own_stage: own, launch_batches: launch, ..Site::default() };
    (Instance { name, definition: &DEFINITION, function, fingerprint: 0, place: Place::Only }, site)
}

/// Values of chain files are not tested here.
pub(crate) static DEFINITION: Definition = Definition {
    name: "test",
    summary: "a function of the engine's tests",
    manual: "",
    has_kernels: false,
    keys: &[],
    drops: &["first", "second"],
    counters: &[],
    access: Access::run_only(warpline_packet::ReadWrite::NONE),
    build: |_, _| None,
    build_pair: None,
};

/// FNV-1a of some bytes: what the functions' rules go by.
pub(crate) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
