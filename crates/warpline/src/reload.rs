//! Reload: on SIGHUP the chain file and the files that it names are read again. The new chain is
//! built beside the running one and replaces it between two batches. Errors are reported and the
//! running configuration stays in place.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpline_engine::sys::stand_back;
use warpline_engine::{MachineChain, PeerLink, Successor};
use warpline_sched::Profile;

use crate::chain_file::{LeftOut, LoadOptions, Loaded};
use crate::commands::load_file;
use crate::ctl::Live;
use crate::fixed_keys::FixedKeys;
use crate::moves::{self, Placed, PlacementTerms};
use crate::placement::Auto;
use crate::{placement, service};

pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Keys of links between instances, in `[backpressure]` or in `[[port]]`.
const LINK_KEYS: &str = "listen, upstream or key of links";

/// Where chains are read from again.
pub(crate) struct Origin<'a> {
    /// The chain file; the bundled demo has none.
    pub(crate) path: Option<&'a Path>,
    /// How it is read.
    pub(crate) options: LoadOptions<'a>,
    /// Keys of `[chain]` that the command line replaces.
    pub(crate) given: Vec<&'static str>,
}

/// The outcome of a reload.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    /// For people.
    pub(crate) text: String,
    /// Changed keys that take a restart.
    pub(crate) restart: Vec<String>,
}

/// A chain that runs.
pub(crate) struct Running {
    pub(crate) live: Arc<MachineChain>,
    /// Parts of its files that were skipped.
    pub(crate) left_out: LeftOut,
    /// Keys that keep their values until a restart.
    pub(crate) fixed: FixedKeys,
    /// The instances that are linked to it.
    pub(crate) links: Vec<PeerLink>,
    /// Where the chain file has its functions, and how they run on other devices.
    pub(crate) placed: Placed,
    /// Copy speeds for the plan of the next move.
    pub(crate) speeds: Profile,
    pub(crate) autos: Vec<Auto>,
}

impl Running {
    /// `chain`, which was loaded so.
    pub(crate) fn new(loaded: &Loaded, chain: &Arc<MachineChain>) -> Self {
        Self {
            live: Arc::clone(chain),
            left_out: loaded.left_out.clone(),
            fixed: loaded.fixed.clone(),
            links: loaded.links.clone(),
            placed: Placed::of(&loaded.deployment),
            speeds: loaded.deployment.profile().clone(),
            autos: moves::autos(loaded),
        }
    }
}

/// Reloads `chains` whenever a signal or a client of `live` asks, until the run is over. `report`
/// and these clients get the result. Returns the chains as they ran last.
pub(crate) fn serve(
    origin: &Origin<'_>,
    mut chains: Vec<Running>,
    live: &Live,
    report: impl Fn(&str),
) -> Vec<Running> {
    // To build takes a core for a while; a refusal leaves it as it is.
    stand_back();
    while !live.machine().is_over() {
        if let Some(asked) = live.take_reload() {
            service::reloading();
            let result = reload(origin, live, &mut chains);
            service::reloaded();
            live.answer_reload(asked, &result);
            match result {
                Ok(reloaded) => report(&format!("reload: {}\n", reloaded.text)),
                Err(why) => {
                    report(&format!("reload: {why}\nreload: the previous version keeps running\n"))
                }
            }
        }
        moves::serve(origin, &chains, live, &report);
        chains.iter().for_each(|running| renew(running, &report));
        thread::park_timeout(LOOK_EVERY);
    }
    chains
}

/// Replaces functions of a chain that follow something outside it, such as the kernel's routes.
fn renew(running: &Running, report: &impl Fn(&str)) {
    let name = &running.live.name;
    let warn = |why: String| report(&format!("warning: chain {name:?}: {why}\n"));
    match Successor::renewed(&running.live.deployment(), &mut |why| warn(why)) {
        None => {}
        Some(Ok(successor)) => {
            running.live.replace(&successor);
        }
        Some(Err(refused)) => refused.into_iter().for_each(warn),
    }
}

/// Reads, builds and puts in place; nothing is put in place unless everything can be.
fn reload(origin: &Origin<'_>, live: &Live, chains: &mut [Running]) -> Result<Reloaded, String> {
    let path = origin.path.ok_or("the bundled demo has no files to read again")?;
    let seed = |running: &Running| running.live.deployment().chain().seed();
    let seeds: Vec<_> = chains.iter().map(|one| (one.live.name.clone(), seed(one))).collect();
    let options = LoadOptions { seeds: &seeds, ..origin.options };
    let loaded = load_file(path, &options, false).map_err(|failure| failure.why())?;
    let restart = needing_restart(origin, chains, &loaded);
    let line = match restart.is_empty() {
        true => String::new(),
        false => format!("\nreload: unchanged until a restart: {}", restart.join(", ")),
    };
    let terms = placement::terms(&loaded.iter().collect::<Vec<_>>());
    let policy = loaded.first().map(|own| own.table.policy_name());
    let successors = succeed(live, chains, loaded).map_err(|why| why + &line)?;
    let (mut changed, mut messages) = (Vec::new(), String::new());
    for (running, Next { successor, left_out, placed, speeds, autos }) in
        chains.iter_mut().zip(successors)
    {
        if !successor.changed().is_empty() && !running.live.replace(&successor) {
            continue;
        }
        (running.placed, running.speeds, running.autos) = (placed, speeds, autos);
        if successor.changed().is_empty() {
            continue;
        }
        changed.extend(successor.changed().iter().map(|name| format!("[{name}]")));
        let listed = &left_out.listed;
        if !listed.is_empty() {
            messages += &format!("\nreload: skipped, {} in all:\n{listed}", listed.count());
        }
        running.left_out = left_out;
    }
    let has_other_policy = policy.is_some_and(|policy| live.follow_file(policy));
    if live.renew_terms(terms) || has_other_policy {
        changed.push(format!("[{}]", placement::TABLE));
    }
    let text = match changed.is_empty() {
        true => "nothing changed".into(),
        false => format!("{} in place{messages}", changed.join(", ")),
    };
    Ok(Reloaded { text: text + &line, restart })
}

/// The changed keys that a reload leaves as they are.
fn needing_restart(origin: &Origin<'_>, chains: &[Running], loaded: &[Loaded]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (running, new) in chains.iter().zip(loaded) {
        if running.live.name != new.chain().name {
            continue;
        }
        let links = (running.links != new.links).then(|| LINK_KEYS.to_owned());
        for name in running.fixed.changed(&new.fixed).into_iter().chain(links) {
            // Keys in brackets are of all chains.
            let name = match chains.len() {
                1 => name,
                _ if name.starts_with('[') => name,
                _ => format!("{name} of chain {:?}", running.live.name),
            };
            if !origin.given.contains(&&*name) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The successor of a chain, and changes beside it.
struct Next {
    successor: Successor,
    left_out: LeftOut,
    placed: Placed,
    speeds: Profile,
    autos: Vec<Auto>,
}

/// The successor of each chain.
fn succeed(live: &Live, chains: &[Running], loaded: Vec<Loaded>) -> Result<Vec<Next>, String> {
    let (mut successors, mut refused) = (Vec::new(), Vec::new());
    if loaded.first().is_some_and(|new| !live.tenancy().is_same(&new.tenancy)) {
        refused.push("[arbiter] and [[tenant]] can't change while packets flow".into());
    }
    let mut loaded = loaded.into_iter();
    for running in chains {
        let name = &running.live.name;
        let new = loaded.next().filter(|new| new.chain().name == *name);
        let new = new.ok_or("the chains of the file can't change while packets flow")?;
        match next(running, new) {
            Ok(next) => successors.push(next),
            Err(why) => refused.extend(why),
        }
    }
    if refused.is_empty() { Ok(successors) } else { Err(refused.join("\nreload: ")) }
}

/// The successor of a chain, or each thing that can't change.
fn next(running: &Running, new: Loaded) -> Result<Next, Vec<String>> {
    let autos = moves::autos(&new);
    let Loaded { deployment, left_out, autos: of_file, table, .. } = new;
    let new =
        Arc::into_inner(deployment).ok_or_else(|| vec!["the chain is held elsewhere".into()])?;
    let (placed, speeds) = (Placed::of(&new), new.profile().clone());
    let file = PlacementTerms { autos: &of_file, speeds: table.speeds() };
    let new = moves::stay(running, new, &file);
    let successor = Successor::new(&running.live.deployment(), new)?;
    Ok(Next { successor, left_out, placed, speeds, autos })
}
