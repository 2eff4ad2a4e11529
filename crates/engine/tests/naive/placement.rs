//! Where the functions of a case are, and how packets are copied: with functions on devices a chain
//! does the same.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use warpline_device::{Device, Wrapped, apart, devices_for_tests};
use warpline_engine::{
    Chain, Deployment, FramesBy, Instance, LaunchOptions, OnDevice, Place, PlanOptions, Settings,
    Site,
};
use warpline_sched::Mode;

use crate::common::run::reported;
use crate::draw::Draw;
use crate::engine::Run;

/// Two devices with memories of their own, and one that works in place; none without a compiler.
static DEVICES: LazyLock<Vec<Arc<dyn Device>>> = LazyLock::new(|| {
    let is_host = |device: &Arc<dyn Device>| device.description().id == "host";
    let Some(host) = devices_for_tests().into_iter().find(is_host) else { return Vec::new() };
    let copying = apart(&host);
    let other = Wrapped::new(&copying).called("other").into_device();
    vec![copying, other, host]
});

/// Bytes of a launch, of which some fit into the traffic of a case.
const LAUNCH_BYTES: usize = 16 << 10;
/// Devices of a machine that is busy with other tests take longer.
const PATIENCE: Duration = Duration::from_secs(50);

/// The places of functions on devices, and the settings of their run.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// By function, the number of its device from 1; 0 for the CPU.
    at: Vec<usize>,
    plan: PlanOptions,
    lanes: usize,
    batch_packets: usize,
}

impl Placement {
    /// Of `functions` functions; every other case has one.
    pub(crate) fn draw(seed: u64, functions: usize) -> Option<Self> {
        let mut draw = Draw::new(seed ^ 0x6465_7669_6365_7300);
        if draw.percent(50) {
            return None;
        }
        let is_one = draw.percent(50);
        let at = (0..functions).map(|_| match is_one {
            true => usize::from(draw.percent(80)),
            false => draw.of(&[0, 1, 1, 2, 3]),
        });
        let at = at.collect();
        let plan = PlanOptions {
            mode: draw.of(&Mode::ALL),
            packet_len: 64 + draw.below(1500) as u32,
            recoverable: draw.percent(50),
            frames_by: draw.of(&FramesBy::ALL),
            ..PlanOptions::default()
        };
        let (lanes, batch_packets) = (1 + draw.below(3), 1 + draw.below(100));
        Some(Self { at, plan, lanes, batch_packets })
    }

    /// The chain with its functions on these devices; function `n` is instance `places[n]`.
    pub(crate) fn deploy(&self, chain: Chain, places: &[usize]) -> Deployment {
        let mut sites = vec![Site::default(); chain.instances.len()];
        for (&place, &at) in places.iter().zip(&self.at) {
            let device = at.checked_sub(1).and_then(|at| DEVICES.get(at));
            let device = device.filter(|_| has_kernels(&chain.instances[place]));
            sites[place].on_device = device.map(|device| OnDevice {
                device: Arc::clone(device),
                launches: LaunchOptions {
                    bytes: LAUNCH_BYTES,
                    timeout: PATIENCE,
                    ..LaunchOptions::default()
                },
                is_required: true,
            });
        }
        let mut deployment = Deployment::new(Arc::new(chain), sites);
        deployment.set_plan(self.plan);
        deployment
    }

    pub(crate) fn settings(&self, deployment: &Deployment) -> Settings {
        let (lanes, batch_packets) = (self.lanes, self.batch_packets);
        let settings = Settings { lanes, batch_packets, slabs: 6, ..Settings::default() };
        Settings { follows_versions: true, ..settings.fit(deployment) }
    }

    /// Errors of a run with these places, whatever it sent.
    pub(crate) fn fault(run: &Run) -> Option<String> {
        let stale = run.outcome.report.part.versions.stale.as_ref().map(ToString::to_string);
        let warnings = reported(&run.outcome);
        stale.or_else(|| (!warnings.is_empty()).then(|| format!("{warnings:?}")))
    }
}

/// Whether a function has kernels. Those of an only place are large, so they aren't made to see.
fn has_kernels(instance: &Instance) -> bool {
    match instance.place {
        Place::Only => instance.definition.has_kernels,
        _ => instance.function.kernels().is_some(),
    }
}
