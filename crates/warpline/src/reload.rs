//! Reload: on SIGHUP the chain file and the files that it names are read again. The new chain is
//! built beside the running one and replaces it between two batches. Errors are reported and the
//! running configuration stays in place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpline_engine::sys::stand_back;
use warpline_engine::{PeerLink, PressureOptions, Successor};
use warpline_nf::Diagnostics;

use crate::chain_file::{LoadOptions, Loaded};
use crate::commands::load_file;
use crate::ctl::{Live, LiveChain};
use crate::service;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where chains are read from again.
pub(crate) struct Origin<'a> {
    /// The chain file; the bundled demo has none.
    pub(crate) path: Option<&'a Path>,
    /// How it is read.
    pub(crate) options: LoadOptions<'a>,
}

/// A chain that runs.
pub(crate) struct Running {
    pub(crate) live: Arc<LiveChain>,
    /// Parts of its files that were skipped.
    pub(crate) left_out: Diagnostics,
    /// How its queues pause stages, and the instances that are linked to it.
    pub(crate) pressure: PressureOptions,
    pub(crate) links: Vec<PeerLink>,
}

/// Reloads `chains` whenever `asked`, until `done`; `tell` and the clients waiting at `live` get
/// the result. Returns the chains as they ran last.
pub(crate) fn serve(
    origin: &Origin<'_>,
    mut chains: Vec<Running>,
    (asked, live): (&AtomicBool, &Live),
    done: &AtomicBool,
    tell: impl Fn(&str),
) -> Vec<Running> {
    // To build takes a core for a while; a refusal leaves it as it is.
    stand_back();
    while !done.load(Ordering::Acquire) {
        if asked.swap(false, Ordering::Relaxed) {
            service::reloading();
            let result = reload(origin, live, &mut chains, done);
            service::reloaded();
            live.answer_reload(&result);
            match result {
                Ok(told) => tell(&format!("reload: {told}\n")),
                Err(why) => {
                    tell(&format!("reload: {why}\nreload: the previous version keeps running\n"))
                }
            }
        }
        chains.iter().for_each(|running| renew(running, done, &tell));
        thread::park_timeout(LOOK_EVERY);
    }
    chains
}

/// Replaces functions of a chain that follow something outside it, such as the kernel's routes.
fn renew(running: &Running, done: &AtomicBool, tell: &impl Fn(&str)) {
    let name = &running.live.name;
    let warn = |why: String| tell(&format!("warning: chain {name:?}: {why}\n"));
    match Successor::renewed(&running.live.deployment(), &mut |why| warn(why)) {
        None => {}
        Some(Ok(successor)) => {
            put_in_place(running, &successor, done);
        }
        Some(Err(refused)) => refused.into_iter().for_each(warn),
    }
}

/// Puts a successor in place, and waits until no lane has the deployment before, which this thread
/// then frees. A chain that has ended takes no other.
fn put_in_place(running: &Running, successor: &Successor, done: &AtomicBool) -> bool {
    if !running.live.control.reload(successor) {
        return false;
    }
    while running.live.control.is_reloading() && !done.load(Ordering::Acquire) {
        thread::park_timeout(LOOK_EVERY / 10);
    }
    running.live.replace(Arc::clone(successor.deployment()));
    true
}

/// Reads, builds and puts in place; nothing is put in place unless everything can be.
fn reload(
    origin: &Origin<'_>,
    live: &Live,
    chains: &mut [Running],
    done: &AtomicBool,
) -> Result<String, String> {
    let path = origin.path.ok_or("the bundled demo has no files to read again")?;
    let loaded = load_file(path, &origin.options, false).map_err(|failure| failure.why())?;
    let successors = succeed(live, chains, loaded)?;
    let (mut changed, mut told) = (Vec::new(), String::new());
    for (running, (successor, left_out)) in chains.iter_mut().zip(successors) {
        if successor.changed().is_empty() {
            continue;
        }
        if !put_in_place(running, &successor, done) {
            continue;
        }
        changed.extend(successor.changed().iter().map(|name| format!("[{name}]")));
        if !left_out.is_empty() {
            told += &format!("\nreload: skipped, {} in all:\n{left_out}", left_out.count());
        }
        running.left_out = left_out;
    }
    match changed.is_empty() {
        true => Ok("nothing changed".into()),
        false => Ok(format!("{} in place{told}", changed.join(", "))),
    }
}

/// What takes the place of each chain, and what was left out of the files that it was built of.
fn succeed(
    live: &Live,
    chains: &[Running],
    loaded: Vec<Loaded>,
) -> Result<Vec<(Successor, Diagnostics)>, String> {
    let (mut successors, mut refused) = (Vec::new(), Vec::new());
    if loaded.first().is_some_and(|new| !live.tenancy().is_same(&new.tenancy)) {
        refused.push("[arbiter] and [[tenant]] can't change while packets flow".into());
    }
    for (running, new) in chains.iter().zip(&loaded) {
        let is_same = running.pressure == new.settings.pressure && running.links == new.links;
        if running.live.name == new.chain().name && !is_same {
            refused.push("`[backpressure]` and links can't change while packets flow".into());
        }
    }
    let mut loaded = loaded.into_iter().map(|loaded| (loaded.deployment, loaded.left_out));
    for running in chains {
        let name = &running.live.name;
        let new = loaded.next().filter(|(new, _)| new.chain().name == *name);
        let (new, left_out) =
            new.ok_or("the chains of the file can't change while packets flow")?;
        let new = Arc::into_inner(new).ok_or("the chain is held elsewhere")?;
        match Successor::new(&running.live.deployment(), new) {
            Ok(successor) => successors.push((successor, left_out)),
            Err(why) => refused.extend(why),
        }
    }
    if refused.is_empty() { Ok(successors) } else { Err(refused.join("\nreload: ")) }
}
