//! Devices that tenants share, as a chain file has them: which chain is whose, and the limits.
//!
//! With `[arbiter]` and no tenant on a device, each stage on the device is a tenant of its own, as
//! each virtual machine is in Simmer.

mod tables;

use std::ops::Range;
use std::sync::Arc;

use warpline_device::{Device, Failure, apart_id};
use warpline_engine::{Background, Deployment, SharedDevice, Tenant, demands};
use warpline_nf::{Diagnostics, SourceText};
use warpline_sched::{Sharing, SharingError, VgpuProfile};

use crate::chain_file::Loaded;

pub(crate) use tables::{ARBITER, ArbiterTable, TENANT, TenantTable};

/// A shared device with the chains of its tenants.
pub(crate) struct Shared {
    pub(crate) device: SharedDevice,
    /// By tenant, the chains that it has.
    pub(crate) chains: Vec<Vec<String>>,
    /// Tenants without a chain that have synthetic work.
    background: Vec<(String, Arc<dyn Device>)>,
}

/// The shared devices of a chain file.
#[derive(Default)]
pub(crate) struct Tenancy {
    pub(crate) shared: Vec<Shared>,
    /// How the file describes them, to notice changes.
    description: String,
    /// For a simulation.
    pub(crate) named: Option<Named>,
}

/// `[arbiter]` and tenants as a simulation sees them.
pub(crate) struct Named {
    pub(crate) arbiter: ArbiterTable,
    /// Name, device and slots of each.
    pub(crate) tenants: Vec<(String, String, usize)>,
    /// Devices with their slots.
    pub(crate) devices: Vec<(String, usize)>,
}

/// The name of a device without that of its copy in a memory of its own.
fn base_of(id: &str) -> &str {
    id.strip_suffix(&apart_id("")).unwrap_or(id)
}

impl Tenancy {
    /// Gives each function of `chains` on a shared device the seat of its tenant. The places are
    /// those of the chains' tables. `is_forced` means that the command line chose the device.
    pub(crate) fn share(
        (arbiter, tenants): (&ArbiterTable, &[TenantTable]),
        is_forced: bool,
        chains: &mut [(&mut Loaded, Range<usize>)],
        source: &SourceText,
        mistakes: &mut Diagnostics,
    ) -> Self {
        let description = describe(arbiter, tenants, chains);
        let mut devices: Vec<String> = Vec::new();
        let of_tenants = tenants.iter().map(|one| one.id.as_str());
        let of_chains = chains.iter().flat_map(|(loaded, _)| loaded.deployment.sites());
        let of_chains = of_chains.map(|site| site.device_id());
        for id in of_tenants.chain(of_chains.filter(|id| arbiter.is_given && *id != "cpu")) {
            if !devices.iter().any(|known| known == base_of(id)) {
                devices.push(base_of(id).to_owned());
            }
        }
        let mut shared = Vec::new();
        for id in devices {
            let on = |one: &&TenantTable| base_of(&one.id) == id;
            let own: Vec<&TenantTable> = tenants.iter().filter(on).collect();
            let at = own.first().map_or(0..0, |one| one.span.clone());
            let made = match own.is_empty() {
                true => between_stages(&id, arbiter, chains).map_err(|why| why.to_string()),
                false => shared_between(&id, arbiter, &own).map(|device| {
                    let own_mistakes = (source, &mut *mistakes);
                    let of_chains = seat_chains(&device, &own, chains, is_forced, own_mistakes);
                    let background = background_of(&device, &own, &of_chains, (source, mistakes));
                    Shared { device, chains: of_chains, background }
                }),
            };
            match made {
                Ok(made) => shared.push(made),
                Err(why) => mistakes.push(source.mistake(at, why)),
            }
        }
        Self { shared, description, named: None }
    }

    /// The tenants of devices that this machine may lack.
    pub(crate) fn named(
        (arbiter, tenants): (&ArbiterTable, &[TenantTable]),
        source: &SourceText,
        mistakes: &mut Diagnostics,
    ) -> Self {
        let mut devices: Vec<(String, usize)> = Vec::new();
        for one in tenants {
            if devices.iter().any(|(id, _)| *id == one.id) {
                continue;
            }
            let own: Vec<&TenantTable> =
                tenants.iter().filter(|other| other.id == one.id).collect();
            let taken = own.iter().map(|one| one.slots).sum();
            match slots_of_profiles(&own, 0) {
                Ok(of_profile) => devices.push((one.id.clone(), of_profile.unwrap_or(taken))),
                Err(why) => mistakes.push(source.mistake(one.span.clone(), why)),
            }
        }
        let own = tenants.iter().map(|one| (one.name.clone(), one.id.clone(), one.slots));
        let named = Named { arbiter: *arbiter, tenants: own.collect(), devices };
        Self { named: Some(named), ..Self::default() }
    }

    /// Whether `other` describes the same sharing.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.description == other.description
    }

    /// Refuses chains of a tenant that need more memory than its quota.
    ///
    /// # Errors
    /// A message that names the tenant.
    pub(crate) fn check_quotas<'a>(
        &self,
        chains: impl Iterator<Item = &'a Loaded> + Clone,
    ) -> Result<(), String> {
        for shared in &self.shared {
            for (tenant, names) in shared.device.tenants().iter().zip(&shared.chains) {
                let Some(quota) = tenant.memory else { continue };
                let own = chains.clone().filter(|loaded| names.contains(&loaded.chain().name));
                let own = demands(own.map(|loaded| (&*loaded.deployment, &loaded.settings)));
                let own = own.iter().filter(|demand| base_of(&demand.device) == shared.device.id());
                let bytes: u64 = own.map(|demand| demand.mirrors + demand.others).sum();
                if bytes > quota {
                    let (mib, of) = (bytes.div_ceil(1 << 20), quota >> 20);
                    let (name, id) = (&tenant.name, shared.device.id());
                    return Err(format!(
                        "tenant {name:?} may have {of} MiB of {id}, and its chains need {mib} MiB; \
                         smaller `arena_mib`, `launch_kib` and `streams` take less"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Starts the synthetic work of tenants; it ends when the results are dropped.
    ///
    /// # Errors
    /// The tenant's name, and the device's error.
    pub(crate) fn start_background(&self) -> Result<Vec<Background>, (String, Failure)> {
        let all = self.shared.iter().flat_map(|shared| &shared.background);
        all.map(|(name, device)| {
            Background::start(Arc::clone(device)).map_err(|why| (name.clone(), why))
        })
        .collect()
    }
}

fn describe(
    arbiter: &ArbiterTable,
    tenants: &[TenantTable],
    chains: &[(&mut Loaded, Range<usize>)],
) -> String {
    let mut text = format!("{arbiter:?}");
    for one in tenants {
        let TenantTable { name, id, slots, memory, profile, is_background, .. } = one;
        text += &format!("{name:?} {id} {slots} {memory:?} {profile:?} {is_background}");
    }
    let of_chains = chains.iter().map(|(loaded, _)| format!("{:?}", loaded.tenant));
    text + &of_chains.collect::<String>()
}

/// A device whose tenants are the stages on it.
fn between_stages(
    id: &str,
    arbiter: &ArbiterTable,
    chains: &mut [(&mut Loaded, Range<usize>)],
) -> Result<Shared, SharingError> {
    let (mut tenants, mut of_chains) = (Vec::new(), Vec::new());
    // By chain, and by function there, the tenant.
    let mut seats: Vec<Vec<Option<usize>>> = Vec::new();
    let is_only = chains.len() == 1;
    for (loaded, _) in &*chains {
        let deployment = &loaded.deployment;
        let mut own = vec![None; deployment.sites().len()];
        for stage in deployment.stages() {
            let Some(site) = deployment.sites().get(stage.first) else { continue };
            if base_of(site.device_id()) != id {
                continue;
            }
            let members = deployment.stage_name(stage);
            let chain = &loaded.chain().name;
            let name = if is_only { members } else { format!("{chain}: {members}") };
            stage.positions().for_each(|position| own[position] = Some(tenants.len()));
            tenants.push(Tenant { name, slots: 1, memory: None });
            of_chains.push(vec![chain.clone()]);
        }
        seats.push(own);
    }
    let device = SharedDevice::new(id.into(), sharing(arbiter, &tenants, None), tenants)?;
    for ((loaded, _), own) in chains.iter_mut().zip(seats) {
        seat(loaded, &device, |position, _| own[position]);
    }
    Ok(Shared { device, chains: of_chains, background: Vec::new() })
}

/// The device `id` with the tenants `own`.
fn shared_between(
    id: &str,
    arbiter: &ArbiterTable,
    own: &[&TenantTable],
) -> Result<SharedDevice, String> {
    let first = own.first().and_then(|one| one.device.as_ref());
    let memory = first.map_or(0, |device| device.description().memory);
    let slots = slots_of_profiles(own, memory)?;
    let quotas: u64 = own.iter().filter_map(|one| one.quota()).fold(0, u64::saturating_add);
    if memory > 0 && quotas > memory {
        let (quotas, memory) = (quotas.div_ceil(1 << 20), memory >> 20);
        return Err(format!(
            "the tenants of {id} may have {quotas} MiB together, and it has {memory} MiB"
        ));
    }
    let tenant = |one: &&TenantTable| Tenant {
        name: one.name.clone(),
        slots: one.slots,
        memory: one.quota(),
    };
    let tenants: Vec<Tenant> = own.iter().map(tenant).collect();
    let sharing = sharing(arbiter, &tenants, slots);
    SharedDevice::new(id.into(), sharing, tenants).map_err(|why| why.to_string())
}

/// Gives the chains of the tenants `own` their seats at `device`. Returns the chains of each.
fn seat_chains(
    device: &SharedDevice,
    own: &[&TenantTable],
    chains: &mut [(&mut Loaded, Range<usize>)],
    is_forced: bool,
    (source, mistakes): (&SourceText, &mut Diagnostics),
) -> Vec<Vec<String>> {
    let id = device.id();
    let mut of_chains = vec![Vec::new(); own.len()];
    for (loaded, span) in chains {
        let mut sites = loaded.deployment.sites().iter();
        let is_used = sites.any(|site| base_of(site.device_id()) == id);
        let tenant = own.iter().position(|one| loaded.tenant.as_ref() == Some(&one.name));
        match tenant {
            Some(tenant) => {
                of_chains[tenant].push(loaded.chain().name.clone());
                if !is_used && !is_forced {
                    let name = &own[tenant].name;
                    let text = format!("tenant {name:?} shares {id}, and no function is there");
                    let help = format!("write device = {id:?} in the table of a function");
                    mistakes.push(source.mistake(span.clone(), text).help(help));
                }
            }
            None if is_used => {
                let names: Vec<String> = own.iter().map(|one| format!("{:?}", one.name)).collect();
                let text = format!("tenants share {id}, and the chain names none of them");
                let help = format!("write `tenant` in [chain]; allowed: {}", names.join(", "));
                mistakes.push(source.mistake(span.clone(), text).help(help));
            }
            None => {}
        }
        seat(loaded, device, |_, used| tenant.filter(|_| base_of(used) == id));
    }
    of_chains
}

/// The tenants with synthetic work, at their seats. Each other tenant has a chain.
fn background_of(
    device: &SharedDevice,
    own: &[&TenantTable],
    of_chains: &[Vec<String>],
    (source, mistakes): (&SourceText, &mut Diagnostics),
) -> Vec<(String, Arc<dyn Device>)> {
    let mut background = Vec::new();
    for (number, (one, chains)) in own.iter().zip(of_chains).enumerate() {
        let name = &one.name;
        match (one.is_background, chains.is_empty()) {
            (true, true) => {
                let opened = one.device.as_ref();
                background.extend(
                    opened.map(|opened| (name.clone(), device.seat(number, Arc::clone(opened)))),
                );
            }
            (false, false) => {}
            (true, false) => {
                let text = format!("tenant {name:?} has background work and a chain");
                mistakes.push(source.mistake(one.span.clone(), text));
            }
            (false, true) => {
                let text = format!("tenant {name:?} has no chain");
                let help = format!(
                    "write tenant = {name:?} in a [chain] of this file; chains of other processes \
                     are no tenants"
                );
                mistakes.push(source.mistake(one.span.clone(), text).help(help));
            }
        }
    }
    background
}

/// Slots of a device by the profiles of its tenants, if they have any.
fn slots_of_profiles(own: &[&TenantTable], memory: u64) -> Result<Option<usize>, String> {
    let profiles: Vec<(&VgpuProfile, usize)> =
        own.iter().filter_map(|one| Some((one.profile?, one.slots))).collect();
    if profiles.is_empty() {
        return Ok(None);
    }
    if profiles.len() < own.len() {
        return Err("all tenants of a device have a `profile`, or none has".into());
    }
    let memory = if memory == 0 { u64::MAX } else { memory };
    let admitted = VgpuProfile::admit_all(&profiles, memory).map_err(|why| why.to_string())?;
    Ok(Some(admitted.device_slots))
}

/// The limits of a device: slots as stated, by profile, or as many as its tenants have.
fn sharing(arbiter: &ArbiterTable, tenants: &[Tenant], of_profile: Option<usize>) -> Sharing {
    let taken = tenants.iter().map(|tenant| tenant.slots).sum();
    Sharing { slots: arbiter.slots.or(of_profile).unwrap_or(taken), ..arbiter.sharing }
}

/// Replaces devices by the seats of the tenants that `tenant` gives for a position and a device.
fn seat(loaded: &mut Loaded, shared: &SharedDevice, tenant: impl Fn(usize, &str) -> Option<usize>) {
    let deployment: Option<&mut Deployment> = Arc::get_mut(&mut loaded.deployment);
    let Some(deployment) = deployment else { return };
    deployment.replace_devices(|position, device| {
        match tenant(position, &device.description().id) {
            Some(tenant) => shared.seat(tenant, Arc::clone(device)),
            None => Arc::clone(device),
        }
    });
}
