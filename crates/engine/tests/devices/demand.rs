//! The device memory that chains need, and how often tables are built for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpline_device::Device;
use warpline_device::fake::{Fake, Fate};
use warpline_engine::{Chain, Control, Deployment, LaunchOptions, Ports, Settings, demands, run};
use warpline_nf::{Function, Kernels};
use warpline_packet::{Access, Batch};

use crate::common::ports::{Frames, SentFrames};
use crate::common::real::forms;
use crate::placed::{copies, deploy_on, devices};

fn fake() -> Arc<dyn Device> {
    Arc::new(Fake::new(|_| Fate::done_after(0)))
}

/// Two stages of one chain share a mirror; two chains share nothing.
#[test]
fn chains_that_run_beside_each_other_ask_for_their_sum() {
    let device = fake();
    let deploy = |names: &[&str]| deploy_on(&forms(names), &device, LaunchOptions::default());
    let one = (deploy(&["digest-count", "decompress", "digest-count"]), Settings::default());
    let other = (deploy(&["router-plain"]), Settings { lanes: 3, ..Settings::default() });
    let of = |deployments: &[&(Deployment, Settings)]| {
        let all = demands(deployments.iter().map(|(deployment, settings)| (deployment, settings)));
        let [demand] = &all[..] else { panic!("{all:?}") };
        demand.clone()
    };
    let [first, second, both] = [&[&one][..], &[&other], &[&one, &other]].map(of);
    assert_eq!(first.mirrors, one.1.fit(&one.0).arena(&one.0).memory_len() as u64);
    assert_eq!(both.mirrors, first.mirrors + second.mirrors);
    assert_eq!(both.others, first.others + second.others);
    assert_eq!(both.chains.len(), 2);
    // Each alone fits where both together don't.
    let memory = 2 * first.mirrors.max(second.mirrors);
    let fits = |demand: &warpline_engine::Demand| {
        let others = 0;
        warpline_engine::Demand { memory, others, ..demand.clone() }.fits()
    };
    assert_eq!([&first, &second, &both].map(fits), [true, true, false]);
}

/// Where kernels work in the lanes' memory itself there is nothing for them on the device but
/// tables.
#[test]
fn a_device_that_works_in_place_is_asked_for_no_mirror() {
    for device in devices() {
        let deployment = deploy_on(&forms(&["digest-count"]), &device, LaunchOptions::default());
        let all = demands([(&deployment, &Settings { lanes: 2, ..Settings::default() })]);
        let [demand] = &all[..] else { panic!("{all:?}") };
        let tables = deployment.chain().instances[0].function.kernels().expect("kernels");
        let tables: u64 = tables.tables().iter().map(|table| table.bytes.len() as u64).sum();
        assert_eq!(demand.mirrors > 0, copies(&device), "{demand:?}");
        assert_eq!(demand.others > tables, copies(&device), "{demand:?}");
        assert!(demand.others >= tables, "{demand:?}");
    }
}

/// A stage whose functions make packets holds few batches, so its launches have room for no more.
#[test]
fn small_batches_need_no_memory_for_launches_that_never_come() {
    let names = ["nat", "firewall", "router", "nat"];
    let launches = |batch_packets| {
        let deployment = deploy_on(&forms(&names), &fake(), LaunchOptions::default());
        let settings = Settings { batch_packets, ..Settings::default() }.fit(&deployment);
        settings.memory(&deployment).launches
    };
    let large = launches(256);
    assert!(large < 200 << 20, "{large}");
    for batch_packets in [1, 16, 64] {
        let small = launches(batch_packets);
        assert!(small < 2 * large, "{batch_packets}: {small} bytes, and {large} with 256");
    }
}

/// A function's pure half, which counts how often its tables are built.
struct Counting {
    inner: Arc<dyn Function>,
    built: Arc<AtomicU64>,
}

impl Function for Counting {
    fn access(&self) -> &Access {
        self.inner.access()
    }
    fn run(&self, batch: &mut Batch) {
        self.inner.run(batch);
    }
    fn kernels(&self) -> Option<Kernels> {
        self.built.fetch_add(1, Ordering::Relaxed);
        self.inner.kernels()
    }
}

#[test]
fn tables_that_were_measured_are_not_built_again() {
    let first = deploy_on(&forms(&["router-plain"]), &fake(), LaunchOptions::default());
    let mut chain = Chain::clone(first.chain());
    let (inner, built) = (Arc::clone(&chain.instances[0].function), Arc::<AtomicU64>::default());
    chain.instances[0].function = Arc::new(Counting { inner, built: Arc::clone(&built) });
    let deployment = Deployment::new(Arc::new(chain), first.sites().to_vec());
    let settings = Settings::default();
    assert_eq!(demands([(&deployment, &settings)]).len(), 1);
    let ports = Ports::Shared(Box::new(Frames::default()), Box::new(SentFrames::default()));
    run(&deployment, &settings, ports, &Control::default()).expect("a chain that starts");
    assert_eq!(built.load(Ordering::Relaxed), 1);
}
