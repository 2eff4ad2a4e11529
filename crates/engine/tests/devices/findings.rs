//! Findings of kernels reach `after` as they do from the CPU's `run`. The search is repeated where
//! there was no room for them, and invalid findings are refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpline_device::Device;
use warpline_device::fake::{Fake, Fate, Value};
use warpline_engine::{
    Chain, Deployment, Instance, LaunchOptions, OnDevice, Place, Settings, Site,
};
use warpline_packet::{LaunchRows, ScratchWord, kernel_layout};
use warpline_testkit::finder::{Finder, Lists};

use crate::common::DEFINITION;
use crate::common::frames::Input;
use crate::common::run::{assert_same, reported, run_whole};
use crate::common::talk::Talk;
use crate::placed::devices;
use crate::same::PATIENCE;

/// Numbers of findings for each packet: room for all, for some, and for next to none.
const ROOMS: [usize; 3] = [64, 4, 1];

/// A chain of two finders, and what they meet.
fn deploy(room: usize, device: Option<&Arc<dyn Device>>, bytes: usize) -> (Deployment, [Lists; 2]) {
    let has_graphs = device.is_some_and(|device| device.description().has_graphs);
    let graphs = has_graphs && bytes < 1 << 20;
    let launches = LaunchOptions { bytes, graphs, timeout: PATIENCE, ..LaunchOptions::default() };
    let finder = |number| Finder::new(ScratchWord::new(number).expect("a word"), room);
    let both = [0, 1].map(finder);
    let lists = [0, 1].map(|number: usize| Arc::clone(both[number].lists()));
    let instance = |(place, finder)| Instance {
        name: format!("{place}-finder"),
        definition: &DEFINITION,
        function: Arc::new(finder),
        fingerprint: 0,
        place: Place::Only,
    };
    let instances = both.into_iter().enumerate().map(instance).collect();
    let chain = Chain::new("finders", instances, 2).expect("a chain that can be built");
    let device = device.map(Arc::clone);
    let on_device = device.map(|device| OnDevice { device, launches, is_required: true });
    let sites = vec![Site { on_device, ..Site::default() }; 2];
    (Deployment::new(Arc::new(chain), sites), lists)
}

fn inputs() -> Vec<Input> {
    Talk::new(17, 60, 1400).take(1500)
}

/// How many lists came through, and how many had to be made again.
fn met(lists: &[Lists; 2]) -> [u64; 2] {
    [0, 1].map(|kind: usize| lists.iter().map(|own| own[kind].load(Ordering::Relaxed)).sum())
}

#[test]
fn findings_of_devices_are_those_of_the_cpu() {
    let inputs = inputs();
    let reference = run_whole(deploy(64, None, 1).0, Settings::default(), &inputs);
    assert!(reference.counter(0, "found") > 1000 && reference.counter(1, "sum") > 0);
    for device in devices() {
        for (room, bytes, lanes, batch_packets) in
            ROOMS.into_iter().flat_map(|room| [(room, 1 << 20, 1, 256), (room, 9000, 3, 50)])
        {
            let (deployment, lists) = deploy(room, Some(&device), bytes);
            let settings = Settings { lanes, batch_packets, ..Settings::default() };
            let outcome = run_whole(deployment, settings, &inputs);
            let what = format!("{}, {room}, {settings:?}", device.description().id);
            assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
            assert!(outcome.report.part.transfers.launches > 0, "{what}");
            assert_same(&reference.summary(), &outcome.summary(), &what);
            let [kept, again] = met(&lists);
            assert_eq!((kept > 0, again > 0), (room > 1 || kept > 0, room < 64), "{what}");
        }
    }
}

/// A kernel that claims for each packet a list at an unused place; `word` is the bytes of a row
/// before the word.
fn lie(word: usize) -> impl Fn(u32, &mut [Value]) + Send + Sync {
    move |_, values| {
        let [_, Value::Writes(table), _, _, _, Value::Number(count), _] = values else {
            panic!("other parameters: {values:?}")
        };
        let column = word * LaunchRows::rows_for(*count as usize);
        let words = table[column..].as_chunks_mut::<4>().0.iter_mut();
        words.take(*count as usize).for_each(|word| *word = 7u32.to_ne_bytes());
    }
}

#[test]
fn lists_that_are_not_there_are_refused() {
    let inputs = inputs();
    let settings = Settings { slabs: 2, ..Settings::default() };
    let reference = run_whole(deploy(4, None, 1).0, settings, &inputs);
    let layout = kernel_layout();
    let words = layout.iter().find(|(name, _)| name == "COLUMN_SCRATCH").expect("a column").1;
    let fake = Fake::new(|_| Fate::done_after(0)).with_kernel("find_bytes", lie(words as usize));
    let device: Arc<dyn Device> = Arc::new(fake);
    let outcome = run_whole(deploy(4, Some(&device), 1 << 20).0, settings, &inputs);
    let reported = reported(&outcome);
    assert!(
        reported.iter().any(|one| one.contains("findings are not among those")),
        "{reported:?}"
    );
    assert_same(&reference.summary(), &outcome.summary(), "a kernel that lies");
}
