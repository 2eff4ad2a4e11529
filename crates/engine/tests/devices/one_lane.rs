//! A device that fails in one lane only: that lane continues on the CPU, also after moves and
//! reloads, and the others continue on the device.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warpline_device::faulty::{Fault, Faulty};
use warpline_device::{Device, Failure, Work, apart};
use warpline_engine::{
    Chain, Control, Deployment, LaunchOptions, OnDevice, Settings, Site, Streams, Successor,
};
use warpline_io::{Next, Source, SourceError};

use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::ports::{Frames, SentFrames};
use crate::common::real::{forms, run_forms, traffic, try_deploy_on};
use crate::common::run::{Outcome, assert_same, reported, run_ports};
use crate::common::talk::Talk;
use crate::failures::launches as launches_of_one;
use crate::placed::host;

/// The function on the device that fails.
const FAILING: usize = 0;
/// The function that moves.
const OTHER: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Change {
    /// The other function moves to its device or to the CPU.
    Move(bool),
    /// A function gets new tables.
    Reload(usize),
    /// The function leaves the device and returns, which is refused.
    Return,
}

/// Gives frames, and makes each change at its time, once the device has failed.
struct Changing {
    frames: Frames,
    control: Arc<Control>,
    deployment: Arc<Deployment>,
    other: Arc<dyn Device>,
    changes: VecDeque<Change>,
    asked: Option<Successor>,
    every: usize,
    done: usize,
    has_failed: bool,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    messages: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
}

fn on(device: &Arc<dyn Device>, lanes: usize) -> OnDevice {
    let launches = LaunchOptions { streams: Streams::Count(1), lanes, ..launches_of_one() };
    OnDevice { device: Arc::clone(device), launches, is_required: true }
}

impl Changing {
    fn sites(&self, at: usize, to: Option<&Arc<dyn Device>>) -> Vec<Site> {
        let mut sites = self.deployment.sites().to_vec();
        sites[at].on_device = to.map(|device| on(device, usize::MAX));
        sites
    }

    fn successor(&mut self, change: Change) -> Result<Successor, Vec<String>> {
        let old = &*self.deployment;
        let moved = |sites| Successor::moved(old, old.on_sites(sites), &self.control);
        match change {
            Change::Move(is_there) => moved(self.sites(OTHER, is_there.then_some(&self.other))),
            Change::Return => match &old.sites()[FAILING].on_device {
                Some(on) => {
                    let device = Arc::clone(&on.device);
                    let away = moved(self.sites(FAILING, None));
                    self.other = device;
                    self.changes.push_front(Change::Return);
                    away
                }
                None => moved(self.sites(FAILING, Some(&self.other))),
            },
            Change::Reload(at) => {
                let mut chain = Chain::clone(old.chain());
                chain.instances[at].fingerprint ^= 1;
                Successor::new(old, Deployment::new(Arc::new(chain), old.sites().to_vec()))
            }
        }
    }
}

impl Source for Changing {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        let messages = self.control.take_messages();
        self.has_failed |= !messages.is_empty();
        self.log.messages.lock().expect("messages").extend(messages);
        if self.control.is_reloading() {
            return Ok(Next::Idle(Duration::ZERO));
        }
        if let Some(asked) = self.asked.take() {
            self.deployment = Arc::clone(asked.deployment());
        }
        if !self.changes.is_empty() && self.frames.next >= self.every * (self.done + 1) {
            if !self.has_failed {
                return Ok(Next::Idle(Duration::from_millis(1)));
            }
            self.done += 1;
            let change = self.changes.pop_front().expect("a change");
            match self.successor(change) {
                Ok(successor) => {
                    assert!(self.control.reload(&successor));
                    self.asked = Some(successor);
                }
                Err(why) => self.log.refused.lock().expect("refusals").extend(why),
            }
            return Ok(Next::Idle(Duration::ZERO));
        }
        self.frames.next()
    }
}

/// A run in which a device has the first function in `lanes` lanes. Its first launch fails, if it
/// `fails`. Returns the packets that the device got otherwise.
struct Run<'a> {
    forms: &'a [Form],
    inputs: &'a [Input],
    device: &'a Arc<dyn Device>,
    other: &'a Arc<dyn Device>,
}

impl Run<'_> {
    fn settings() -> Settings {
        Settings { lanes: 2, batch_packets: 64, slabs: 6, ..Settings::default() }
    }

    fn of(&self, lanes: usize, fails: bool, changes: &[Change]) -> (Outcome, u64, Arc<Log>) {
        let taken = Arc::new(AtomicU64::new(0));
        let (counted, mut fails_next) = (Arc::clone(&taken), fails);
        let script = move |_, work: &Work| {
            if work.items > 0 && std::mem::take(&mut fails_next) {
                return Some(Fault::Refuse(Failure::Work("no".into())));
            }
            counted.fetch_add(work.items, Ordering::Relaxed);
            None
        };
        let device: Arc<dyn Device> = Arc::new(Faulty::by_work(Arc::clone(self.device), script));
        let first = |at: usize| (at == FAILING).then(|| on(&device, lanes));
        let deployment = Arc::new(try_deploy_on(self.forms, &[], first).expect("a chain"));
        let (control, log) = (Arc::new(Control::default()), Arc::<Log>::default());
        let source = Changing {
            frames: Frames::new(self.inputs),
            control: Arc::clone(&control),
            deployment: Arc::clone(&deployment),
            other: Arc::clone(self.other),
            changes: changes.to_vec().into(),
            asked: None,
            every: self.inputs.len() / (changes.len() + 3),
            done: 0,
            has_failed: false,
            log: Arc::clone(&log),
        };
        let sink = SentFrames::default();
        let outcome = run_ports(deployment, Self::settings(), source, sink, control);
        (outcome, taken.load(Ordering::Relaxed), log)
    }
}

#[test]
fn the_other_lanes_continue_on_the_device() {
    let Some(host) = host() else { return };
    let forms = forms(&["router-plain", "firewall"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 700).take(900), 73, 15);
    let reference = run_forms(&forms, Run::settings(), &inputs).summary();
    for (device, other) in [(host.clone(), apart(&host)), (apart(&host), host.clone())] {
        let run = Run { forms: &forms, inputs: &inputs, device: &device, other: &other };
        // The packets of the first lane, and those of both.
        let [(_, one, _), (_, both, _)] = [1, 2].map(|lanes| run.of(lanes, false, &[]));
        assert!(one > 100 && both > one + 100, "{one} of {both} packets");
        for changes in [
            &[][..],
            &[Change::Move(true), Change::Move(false)],
            &[Change::Reload(OTHER), Change::Move(true)],
            &[Change::Reload(FAILING), Change::Reload(FAILING)],
        ] {
            let what = format!("{} {changes:?}", device.description().id);
            let (outcome, taken, log) = run.of(2, true, changes);
            assert_same(&reference, &outcome.summary(), &what);
            let (refused, messages) = (log.refused.lock().unwrap(), log.messages.lock().unwrap());
            assert!(refused.is_empty(), "{what}: {refused:?}");
            assert!(messages.len() <= 1, "{what}: {messages:?}");
            let all = reported(&outcome);
            assert!(all.len() == 1 && all[0].contains("in at least one lane: a copy"), "{all:?}");
            assert!(taken == one || taken == both - one, "{what}: {taken} of {one} and {both}");
        }
        let (outcome, taken, log) = run.of(2, true, &[Change::Return]);
        assert_same(&reference, &outcome.summary(), "away and back");
        assert!(taken < one.max(both - one), "{taken} of {one} and {both}");
        let refused = log.refused.lock().expect("refusals");
        assert!(refused.len() == 1 && refused[0].contains("failed earlier"), "{refused:?}");
    }
}
