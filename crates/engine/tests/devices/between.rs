//! A tick or a reload passes the first place while packets wait before the second. They get there
//! what the first place meant for them.

use core::any::Any;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpline_device::Device;
use warpline_engine::{
    Chain, Deployment, Instance, LaunchOptions, OnDevice, Place, Settings, Site,
};
use warpline_nf::{Before, Emit, Function, State, StateHalf};
use warpline_packet::{Access, Batch, FieldSet, Instant, ReadWrite, ScratchWord, Shard, StateKey};

use crate::common::DEFINITION;
use crate::common::forms::Form;
use crate::common::frames::Input;
use crate::common::real::{forms, traffic, try_deploy};
use crate::common::run::run_whole;
use crate::common::talk::Talk;
use crate::placed::host;
use crate::same::PATIENCE;
use crate::two_places::{expire, run_reloading, steady};

/// Ticks and reloads that passed the first place, and packets that one of them overtook.
#[derive(Default)]
struct Seen {
    ticks: AtomicU64,
    reloads: AtomicU64,
    by_tick: AtomicU64,
    by_reload: AtomicU64,
}

/// Stands right after the first place, or right before the second.
struct Watch {
    is_after: bool,
    word: ScratchWord,
    tick: Option<Duration>,
    access: Access,
    seen: Arc<Seen>,
}

impl Watch {
    fn new(is_after: bool, word: ScratchWord, tick: Option<Duration>, seen: &Arc<Seen>) -> Self {
        let word_only = FieldSet::of(&[word.field()]);
        let access = match is_after {
            true => {
                let before = ReadWrite::new(FieldSet::EMPTY, word_only);
                Access { before, ..Access::run_only(ReadWrite::NONE) }
            }
            false => Access::run_only(ReadWrite::new(word_only, FieldSet::EMPTY)),
        };
        Self { is_after, word, tick: tick.filter(|_| is_after), access, seen: Arc::clone(seen) }
    }
}

impl Function for Watch {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        if self.is_after {
            return;
        }
        let now = self.seen.now();
        for row in batch.forward_rows() {
            let then = batch.packet(row).scratch(self.word);
            let [ticks, reloads] = [then & 0xffff, then >> 16];
            self.seen.by_tick.fetch_add(u64::from(ticks != now & 0xffff), Ordering::Relaxed);
            self.seen.by_reload.fetch_add(u64::from(reloads != now >> 16), Ordering::Relaxed);
        }
    }

    fn state_key(&self) -> StateKey {
        StateKey::None
    }

    fn state(&self, shard: Shard) -> State {
        if !self.is_after {
            return State::NONE;
        }
        let counts = shard == Shard::new(0) || shard == Shard::WHOLE;
        State::before(Counter { counts, word: self.word, seen: Arc::clone(&self.seen) })
    }

    fn tick(&self) -> Option<Duration> {
        self.tick
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        (old as &dyn Any).downcast_ref::<Self>().map(|_| ()).ok_or_else(|| "another kind".into())
    }
}

impl Seen {
    /// Ticks and reloads so far, in 16 bits each.
    fn now(&self) -> u32 {
        let [ticks, reloads] =
            [&self.ticks, &self.reloads].map(|count| count.load(Ordering::Relaxed) as u32);
        ticks & 0xffff | reloads << 16
    }
}

struct Counter {
    counts: bool,
    word: ScratchWord,
    seen: Arc<Seen>,
}

impl Before for Counter {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &pick in picks {
            batch.packet_mut(pick.into()).set_scratch(self.word, self.seen.now());
        }
    }
}

impl StateHalf for Counter {
    fn handle_timeout(&mut self, _: Instant, _: &mut Emit<'_>) {
        self.seen.ticks.fetch_add(u64::from(self.counts), Ordering::Relaxed);
    }

    fn reload(&mut self, _: &dyn Function) {
        self.seen.reloads.fetch_add(u64::from(self.counts), Ordering::Relaxed);
    }
}

/// The chain of `forms`, the outermost pair of which is watched; on `device`, or in two stages.
fn watched(forms: &[Form], device: Option<&Arc<dyn Device>>, seen: &Arc<Seen>) -> Deployment {
    let bare = try_deploy(forms, &[]).expect("a chain");
    let chain = bare.chain();
    let word = ScratchWord::new(chain.scratch_words).expect("a word");
    let first = &chain.instances[0];
    let watch = |is_after| Instance {
        name: format!("watch-{is_after}"),
        definition: &DEFINITION,
        function: Arc::new(Watch::new(is_after, word, first.function.tick(), seen)),
        fingerprint: first.fingerprint,
        place: Place::Only,
    };
    let mut instances = chain.instances.clone();
    instances.insert(1, watch(true));
    instances.insert(instances.len() - 1, watch(false));
    let launches = LaunchOptions {
        bytes: 1 << 20,
        delay: Duration::from_millis(20),
        timeout: PATIENCE,
        ..LaunchOptions::default()
    };
    let site = |one: &Instance| Site {
        on_device: device.filter(|_| one.function.kernels().is_some()).map(|device| OnDevice {
            device: Arc::clone(device),
            launches,
            is_required: true,
        }),
        own_stage: one.name == "watch-false",
        launch_batches: 4,
    };
    let sites = instances.iter().map(site).collect();
    let words = chain.scratch_words + 1;
    let chain = Chain::new("watched", instances, words).expect("a chain").with_seed(chain.seed());
    Deployment::new(Arc::new(chain), sites)
}

/// Pairs, each around others, with state that expires.
const CHAINS: &[&[&str]] = &[
    &["nat:1", "firewall", "router", "nat:2"],
    &["nat-dependent:1", "digest-count", "router", "nat-dependent:2"],
    &["balancer-dnat:1", "router", "balancer-dnat:2"],
    &["balancer-ipip:1", "router", "balancer-ipip:2"],
    &["gateway:1", "router", "gateway:2"],
];

/// Traffic that takes so long that state expires again and again.
fn slow(forms: &[Form]) -> Vec<Input> {
    let mut inputs = traffic(forms, Talk::new(71, 60, 1400).take(700), 73, 15);
    inputs.iter_mut().step_by(7).for_each(expire);
    // Some of the odd frames are out of order.
    let start = inputs[0].nanos;
    let stretched = |nanos: u64| start + nanos.saturating_sub(start) * 200;
    inputs.iter_mut().for_each(|input| input.nanos = stretched(input.nanos));
    inputs
}

fn on_cpu_and_host() -> Vec<Option<Arc<dyn Device>>> {
    let apart = host().as_ref().map(warpline_device::apart);
    [None].into_iter().chain(host().map(Some)).chain(apart.map(Some)).collect()
}

#[test]
fn a_tick_between_the_places_changes_nothing() {
    for names in CHAINS {
        let forms = forms(names);
        let inputs = slow(&forms);
        // A batch of one packet passes all functions before the next one comes.
        let one_by_one = Settings { batch_packets: 1, ..Settings::default() };
        let reference = run_whole(try_deploy(&forms, &[]).expect("a chain"), one_by_one, &inputs);
        let expired = reference.counter(0, "expired");
        let keeps = !names[0].starts_with("gateway");
        assert!(expired > 10 || !keeps, "{names:?}: {expired}");
        for device in on_cpu_and_host() {
            let id = device.as_ref().map_or("cpu", |device| &device.description().id);
            let (what, seen) = (format!("{names:?} on {id}"), Arc::<Seen>::default());
            let settings = Settings { lanes: 1, batch_packets: 16, ..Settings::default() };
            let deployment = watched(&forms, device.as_ref(), &seen);
            let settings = settings.fit(&deployment);
            let outcome = run_whole(deployment, settings, &inputs);
            assert!(outcome.sent == reference.sent, "{what}");
            let overtaken = seen.by_tick.load(Ordering::Relaxed);
            assert!(overtaken > 10 || !keeps, "{what}: a tick overtook {overtaken}");
        }
    }
}

/// A balancer gets its backends in another order and with other weights, a gateway its SAs.
const RELOADED: &[(&[&str], [&str; 2])] = &[
    (&["balancer-dnat:1", "router", "balancer-dnat:2"], ["'services'", "'turned-services'"]),
    (
        &["balancer-ipip:1", "router", "balancer-ipip:2"],
        ["'services-of-hosts'", "'turned-services-of-hosts'"],
    ),
    (&["gateway:1", "router", "gateway:2"], ["'sas-both'", "'turned-sas-both'"]),
];

#[test]
fn a_reload_between_the_places_changes_nothing_for_packets_on_their_way() {
    for &(names, [from, to]) in RELOADED {
        let old: Vec<Form> = forms(names).into_iter().map(steady).collect();
        let mut new = old.clone();
        for form in new.iter_mut().filter(|form| form.function != "router") {
            form.table = form.table.replace(from, to).leak();
        }
        let inputs = slow(&old);
        let frame = inputs.len() / 2;
        let one_by_one = Settings { batch_packets: 1, ..Settings::default() };
        let [before, after] = [&old, &new].map(|forms| try_deploy(forms, &[]).expect("a chain"));
        let reference = run_reloading(before, after, (frame, one_by_one), &inputs);
        let overtaken = on_cpu_and_host().into_iter().map(|device| {
            let device = device.as_ref();
            let id = device.map_or("cpu", |device| &device.description().id);
            let seen = Arc::<Seen>::default();
            let [before, after] = [&old, &new].map(|forms| watched(forms, device, &seen));
            let settings = Settings { lanes: 1, batch_packets: 16, ..Settings::default() };
            let settings = settings.fit(&before);
            let outcome = run_reloading(before, after, (frame, settings), &inputs);
            assert!(outcome.sent == reference.sent, "{names:?} on {id}");
            assert_eq!(seen.reloads.load(Ordering::Relaxed), 1, "{names:?} on {id}");
            seen.by_reload.load(Ordering::Relaxed)
        });
        let overtaken: Vec<u64> = overtaken.collect();
        assert!(overtaken.iter().any(|count| *count > 0), "{names:?}: {overtaken:?}");
    }
}
