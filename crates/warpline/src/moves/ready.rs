//! Moves of chains that are built, and carried out afterwards.

use std::sync::Arc;

use warpline_engine::{Deployment, LaunchOptions, Site, Successor};

use crate::reload::Running;

/// The move of a chain, built and not carried out.
pub(super) struct Ready<'a> {
    running: &'a Running,
    old: Arc<Deployment>,
    successor: Successor,
}

impl<'a> Ready<'a> {
    /// Builds the move of a chain to `new`; none if it runs like that already.
    pub(super) fn build(
        running: &'a Running,
        old: Arc<Deployment>,
        mut new: Deployment,
    ) -> Result<Option<Self>, String> {
        if ways(&old) == ways(&new) && old.plan() == new.plan() {
            return Ok(None);
        }
        refuse_paused(running)?;
        new.set_profile(running.speeds.clone());
        let successor = Successor::moved(&old, new, &running.live.control);
        let successor = successor.map_err(|why| why.join("; "))?;
        Ok(Some(Self { running, old, successor }))
    }

    /// Moves the chain, and reports what moved.
    pub(super) fn carry_out(&self) -> Result<String, String> {
        let Self { running, old, successor } = self;
        refuse_paused(running)?;
        if !running.live.replace(successor) {
            return Err("the chain has ended".into());
        }
        let both = old.instances().zip(successor.deployment().sites());
        let moved = both.filter(|((_, own), new)| own.device_id() != new.device_id());
        let moved =
            moved.map(|((one, _), new)| format!("{} runs on {}", one.name, new.device_id()));
        let moved: Vec<String> = moved.collect();
        if moved.is_empty() {
            return Ok("all functions stay".into());
        }
        let moved = moved.join(", ");
        let stall =
            running.live.control.snapshot(successor.deployment()).report.part.moves.stall_ns_max;
        Ok(format!("{moved}; a lane stalled {} us at most so far", stall / 1_000))
    }
}

/// Clients resume a paused chain before they move its functions.
fn refuse_paused(running: &Running) -> Result<(), String> {
    match running.live.control.is_paused() {
        true => Err(format!("chain {:?} is paused", running.live.name)),
        false => Ok(()),
    }
}

/// Carries out the moves of chains, all of which are built. Returns what moved, by chain.
///
/// # Errors
/// A chain could not move; with the names of those that moved before.
pub(super) fn carry_out_all(all: Vec<Option<Ready<'_>>>) -> Result<Vec<Option<String>>, String> {
    let (mut reported, mut moved) = (Vec::new(), Vec::new());
    for ready in &all {
        let Some(ready) = ready else {
            reported.push(None);
            continue;
        };
        match ready.carry_out() {
            Ok(message) => reported.push(Some(message)),
            Err(why) if moved.is_empty() => return Err(why),
            Err(why) => return Err(format!("{why}; moved before: {}", moved.join(", "))),
        }
        moved.push(format!("{:?}", ready.running.live.name));
    }
    Ok(reported)
}

/// Where functions run and how their launches are made.
fn ways(deployment: &Deployment) -> Vec<(&str, Option<LaunchOptions>)> {
    let launches = |site: &Site| site.on_device.as_ref().map(|on| on.launches);
    deployment.sites().iter().map(|site| (site.device_id(), launches(site))).collect()
}
