//! Moves of functions to other devices while chains run: `ctl place` and `ctl policy`. The thread
//! for reloads makes them.

mod ready;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use warpline_engine::{Deployment, MachineChain, OnDevice, PlanOptions, Site};
use warpline_sched::Profile;

use self::ready::{Ready, carry_out_all};
use crate::chain_file::{LoadOptions, Loaded, Setting};
use crate::commands::load_file;
use crate::ctl::Live;
use crate::machine_profile::CPU_NAME;
use crate::placement::{Auto, Launches};
use crate::reload::{Origin, Running};
use crate::{device_keys, placement};

/// A move that a client asks for.
pub(crate) enum Move {
    /// One function of a chain; without a chain, of the only one that has it.
    Place { function: String, device: String, chain: Option<String> },
    /// All functions with `device = "auto"`, as this policy places them.
    Policy(String),
    /// Those of a decision of the monitor.
    Proposed(Vec<placement::Move>),
}

/// The parts of a chain's placement that follow from the profile.
pub(crate) struct PlacementTerms<'a> {
    /// By position, the functions with `device = "auto"`.
    pub(crate) autos: &'a [Option<Auto>],
    /// Copy speeds of the profile.
    pub(crate) speeds: Option<&'a Profile>,
}

/// A client's request, and where the answer goes.
pub(crate) type Asked = (Move, Sender<Result<String, String>>);

/// Where the chain file has the functions of a chain, so that a reload notices changes.
pub(crate) struct Placed(Vec<String>);

impl Placed {
    pub(crate) fn of(deployment: &Deployment) -> Self {
        Self(deployment.sites().iter().map(|site| site.device_id().to_owned()).collect())
    }
}

/// The functions of a chain as if all had `device = "auto"`, so that a client can move each. Those
/// that have another keep their launches.
pub(crate) fn autos(loaded: &Loaded) -> Vec<Auto> {
    let own = |(site, auto): (&Site, &Option<Auto>)| {
        let launches = site.on_device.as_ref().map(|on| on.launches).unwrap_or_default();
        let fixed =
            Auto { launches, has_size: true, has_delay: true, in_place: true, is_named: false };
        auto.unwrap_or(fixed)
    };
    loaded.deployment.sites().iter().zip(&loaded.autos).map(own).collect()
}

/// A reload keeps functions where they run, unless the file now names another device for one. A
/// profile alone moves nothing, and neither do its copy speeds change the plan that runs.
pub(crate) fn stay(running: &Running, new: Deployment, file: &PlacementTerms<'_>) -> Deployment {
    let old = running.live.deployment();
    let (Placed(before), Placed(now)) = (&running.placed, Placed::of(&new));
    if before.len() != now.len() {
        return new;
    }
    let all = old.sites().iter().zip(new.sites()).zip(before.iter().zip(&now)).zip(file.autos);
    let sites = all.map(
        |(((old, new), (before, now)), auto)| {
            if auto.is_some() || before == now { old.clone() } else { new.clone() }
        },
    );
    let plan = PlanOptions { aim: old.plan().aim, ..new.plan() };
    let mut new = new.on_sites(sites.collect());
    new.keep_launches(&old);
    new.set_plan(plan);
    if file.speeds == Some(new.profile()) {
        new.set_profile(old.profile().clone());
    }
    new
}

/// Makes the moves that clients ask for.
pub(crate) fn serve(origin: &Origin<'_>, chains: &[Running], live: &Live, report: &impl Fn(&str)) {
    for (asked, answer) in live.take_moves() {
        let is_reported = !matches!(asked, Move::Proposed(_));
        let before: Vec<_> = live.chains().iter().map(|chain| chain.deployment()).collect();
        let result = match asked {
            _ if !live.tenancy().shared.is_empty() => {
                Err("functions can't move while tenants share devices".into())
            }
            Move::Place { function, device, chain } => {
                let result = place(chains, (&function, &device, chain.as_deref()));
                result.inspect(|_| live.placed_by(None))
            }
            Move::Policy(policy) => {
                let result = follow(origin, chains, &policy);
                result.inspect(|_| {
                    live.placed_by(placement::monitored(&policy));
                    live.name_policy(&policy);
                })
            }
            Move::Proposed(_) if live.is_by_hand() => {
                Err("functions stay where `ctl` placed them".into())
            }
            Move::Proposed(moves) => carry_out(chains, &moves),
        };
        let stayed =
            |(old, chain): (&Arc<_>, &Arc<MachineChain>)| Arc::ptr_eq(old, &chain.deployment());
        if result.is_err() && !before.iter().zip(live.chains()).all(stayed) {
            live.moved_in_part();
        }
        match &result {
            _ if !is_reported => {}
            Ok(reported) => report(&format!("moved: {reported}\n")),
            Err(why) => report(&format!("not moved: {why}\n")),
        }
        // It may have given up.
        let _ = answer.send(result);
    }
}

/// That no chain, or not this one, has the function, and those that there are.
fn no_function(chains: &[Running], function: &str, chain: Option<&str>) -> String {
    let meant = chains.iter().filter(|one| chain.is_none_or(|name| one.live.name == name));
    let deployments: Vec<_> = meant.map(|one| one.live.deployment()).collect();
    let all = deployments.iter().flat_map(|one| one.instances());
    let names: BTreeSet<&str> = all.map(|(one, _)| one.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!("there is no function {function:?}; functions: {}", names.join(", "))
}

/// Moves one function.
fn place(
    chains: &[Running],
    (function, device, chain): (&str, &str, Option<&str>),
) -> Result<String, String> {
    let positions = |running: &Running| -> Vec<usize> {
        let deployment = running.live.deployment();
        let own = deployment.instances().enumerate();
        let own = own.filter(|(_, (one, _))| one.name == function || one.table() == function);
        own.map(|(position, _)| position).collect()
    };
    let of_chain = chains.iter().filter(|one| chain.is_none_or(|name| one.live.name == name));
    let found = of_chain.map(|one| (one, positions(one))).filter(|(_, own)| !own.is_empty());
    let (running, positions) = match &found.collect::<Vec<_>>()[..] {
        [] => return Err(no_function(chains, function, chain)),
        [(running, own)] => (*running, own.clone()),
        _ => return Err(format!("several chains have {function:?}; --chain selects one")),
    };
    let old = running.live.deployment();
    let mut sites = old.sites().to_vec();
    for &position in &positions {
        sites[position].on_device = on_device(running, &old, position, (device, None))?;
    }
    let new = old.on_sites(sites);
    match Ready::build(running, old, new)? {
        Some(ready) => ready.carry_out(),
        None => Ok(format!("{function} runs on {device} already")),
    }
}

/// The device of a function that moves; `None` is the CPU.
fn on_device(
    running: &Running,
    old: &Deployment,
    position: usize,
    (device, decided): (&str, Option<Launches<'_>>),
) -> Result<Option<OnDevice>, String> {
    if device == CPU_NAME {
        return Ok(None);
    }
    let instance = &old.chain().instances[position];
    if !instance.definition.has_kernels {
        return Err(format!("{} has no kernels; it runs on the CPU", instance.name));
    }
    let device = device_keys::open(device).map_err(|why| format!("{why}; also: {CPU_NAME}"))?;
    let auto = &running.autos[position];
    Ok(Some(auto.on_device(&device, decided, old.plan().packet_len)))
}

/// Carries out a decision of the monitor.
fn carry_out(chains: &[Running], moves: &[placement::Move]) -> Result<String, String> {
    let mut ready = Vec::new();
    for running in chains {
        let old = running.live.deployment();
        let mut sites = old.sites().to_vec();
        for own in moves.iter().filter(|own| own.chain == running.live.name) {
            let position = old.instances().position(|(one, _)| one.name == own.function);
            let position = position.ok_or_else(|| format!("there is no {:?}", own.function))?;
            let to = (own.to.as_str(), Some(own.launches()));
            sites[position].on_device = on_device(running, &old, position, to)?;
        }
        let new = old.on_sites(sites);
        ready.push(Ready::build(running, old, new)?);
    }
    let reported = carry_out_all(ready)?;
    Ok(reported.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Places the functions with `device = "auto"` by another policy. The chain file is read again for
/// that, and only the devices are taken from it.
fn follow(origin: &Origin<'_>, chains: &[Running], policy: &str) -> Result<String, String> {
    placement::check_policy(policy)?;
    let path = origin.path.ok_or("the bundled demo has no chain file")?;
    let mut set = origin.options.set.to_vec();
    set.push(Setting { option: "ctl policy", text: format!("placement.policy={policy}") });
    let options = LoadOptions { set: &set, ..origin.options };
    let loaded = load_file(path, &options, false).map_err(|failure| failure.why())?;
    if loaded.iter().any(|own| own.lacks_profile) {
        return Err(format!("policy {policy}: {}", placement::NO_PROFILE));
    }
    let (mut ready, mut lines) = (Vec::new(), Vec::new());
    for running in chains {
        let new = loaded.iter().find(|own| own.chain().name == running.live.name);
        let new = new.ok_or("the chains of the file changed; reload them first")?;
        ready.push(following(running, new)?);
        lines.push(placement::lines(new));
    }
    let mut reported = Vec::new();
    for ((running, message), lines) in chains.iter().zip(carry_out_all(ready)?).zip(lines) {
        let message = message.unwrap_or_else(|| format!("{} moves nothing", running.live.name));
        reported.push(format!("{message}\n{}", lines.trim_end()));
    }
    Ok(format!("policy {policy}: {}", reported.join("; ")).trim_end().to_owned())
}

/// The move of a chain to the devices of `new`.
fn following<'a>(running: &'a Running, new: &Loaded) -> Result<Option<Ready<'a>>, String> {
    let old = running.live.deployment();
    if names(&old) != names(&new.deployment) {
        return Err("the functions of the file changed; restart to run them".into());
    }
    let mut deployment = old.on_sites(new.deployment.sites().to_vec());
    let lanes = old.plan().lanes;
    deployment.set_plan(PlanOptions { lanes, ..new.deployment.plan() });
    deployment.keep_launches(&new.deployment);
    Ready::build(running, old, deployment)
}

fn names(deployment: &Deployment) -> Vec<String> {
    deployment.instances().map(|(one, _)| one.name.clone()).collect()
}
