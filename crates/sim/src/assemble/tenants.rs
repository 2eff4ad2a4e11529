//! Who shares the devices: the tenants of the chain file, or each chain alone.

use warpline_sched::Sharing;
use warpline_sched::work_profile::ProfiledDevice;

use super::Asked;
use crate::model::{ChainModel, DeviceModel, DeviceSharing, DeviceWork, LinkModel, StageSite};

/// A tenant of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedTenant {
    /// Its name.
    pub name: String,
    /// The device of the profile that it shares.
    pub device: String,
    /// Its slots there.
    pub slots: usize,
}

/// How tenants share devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedSharing {
    /// The policy and the slice.
    pub sharing: Sharing,
    /// Slots of a device, if stated for all.
    pub slots: Option<usize>,
    /// Slots by device, those of tenants without launches included. Others have as many as their
    /// tenants.
    pub of_devices: Vec<(String, usize)>,
}

impl Asked<'_> {
    /// By chain of each copy, the number of its tenant; and their names.
    pub(super) fn seats(&self) -> (Vec<usize>, Vec<String>) {
        let (mut seats, mut known, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for copy in 0..self.tenants {
            for (number, chain) in self.chains.iter().enumerate() {
                let tenant = chain.tenant.as_ref().map(|tenant| &tenant.name);
                let key = (copy, tenant.ok_or(number));
                let seat = known.iter().position(|other| *other == key).unwrap_or(known.len());
                if seat == known.len() {
                    known.push(key);
                    let own = tenant.unwrap_or(&chain.name);
                    let is_only = self.tenants == 1;
                    names.push(if is_only { own.clone() } else { format!("{own} {copy}") });
                }
                seats.push(seat);
            }
        }
        (seats, names)
    }

    /// Names a tenant whose device the profile does not have.
    pub(super) fn check_tenants(&self) -> Result<(), String> {
        let devices = self.file.work.devices();
        let is_known = |name: &str| devices.iter().any(|device| device.name == name);
        let all = self.chains.iter().filter_map(|chain| chain.tenant.as_ref());
        let Some(one) = all.into_iter().find(|one| !is_known(&one.device)) else { return Ok(()) };
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        Err(format!(
            "tenant {:?}: the profile has no device {:?}; it has: {}",
            one.name,
            one.device,
            names.join(", ")
        ))
    }

    /// Every device but the CPU, and by device the names of its tenants. Those without a launch
    /// have none.
    pub(super) fn devices(
        &self,
        chains: &mut [ChainModel],
    ) -> (Vec<DeviceModel>, Vec<Vec<String>>) {
        let devices = self.file.work.devices().iter().zip(&self.file.links);
        let devices = devices.zip(&self.file.on_cpu).skip(1).enumerate();
        let models = devices.map(|(number, ((device, link), is_on_cpu))| {
            let users = self.users(&device.name, number, chains);
            let copy_ns = link.as_ref().map_or(0.0, |link| link.each_copy * 1e9);
            let of = |speed: f64| LinkModel::of_rate(speed, copy_ns);
            let sharing = match &self.sharing {
                Some(asked) if !users.is_empty() => self.divided_device(asked, &users, device),
                _ => DeviceSharing::InOrder,
            };
            let model = DeviceModel {
                name: device.name.clone(),
                is_on_cores: sharing == DeviceSharing::InOrder && *is_on_cpu,
                sharing,
                tenants: users.len(),
                to_device: link.as_ref().map(|link| of(link.to_device)),
                to_host: link.as_ref().map(|link| of(link.to_host)),
                power: device.power,
            };
            (model, users.into_iter().map(|(_, name)| name).collect())
        });
        models.unzip()
    }

    /// The tenants that have work on a device, each with its seat, and numbers them in that work.
    fn users(
        &self,
        device: &str,
        number: usize,
        chains: &mut [ChainModel],
    ) -> Vec<(usize, String)> {
        let (_, names) = self.seats();
        let (is_by_stage, is_only) = (self.is_shared_by_stages(device), self.chains.len() == 1);
        let user = |seat: usize, stage: &str| match is_by_stage {
            true if is_only => (seat, stage.to_owned()),
            true => (seat, format!("{}: {stage}", names[seat])),
            false => (seat, names[seat].clone()),
        };
        let mut users = Vec::new();
        for (stage, work) in chains.iter_mut().flat_map(|one| works_on(one, number)) {
            let own = user(work.tenant, stage);
            if !users.contains(&own) {
                users.push(own);
            }
        }
        // Those of stages keep the order of the stages.
        users.sort_by_key(|(seat, _)| *seat);
        for (stage, work) in chains.iter_mut().flat_map(|one| works_on(one, number)) {
            let own = user(work.tenant, stage);
            work.tenant = users.iter().position(|one| *one == own).unwrap_or(0);
        }
        users
    }

    /// Whether each stage on a device is a tenant of its own, as in a run: nothing names tenants
    /// of the device.
    fn is_shared_by_stages(&self, device: &str) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let mut tenants = self.chains.iter().filter_map(|chain| chain.tenant.as_ref());
        self.tenants == 1
            && !sharing.of_devices.iter().any(|(name, _)| name == device)
            && !tenants.any(|tenant| tenant.device == device)
    }

    /// A device whose tenants have their slots.
    fn divided_device(
        &self,
        asked: &AskedSharing,
        users: &[(usize, String)],
        device: &ProfiledDevice,
    ) -> DeviceSharing {
        let (by_user, _) = self.seats();
        let slots_of = |(seat, _): &(usize, String)| {
            let user = by_user.iter().position(|other| other == seat).unwrap_or(0);
            let tenant = self.chains[user % self.chains.len()].tenant.as_ref();
            tenant.filter(|tenant| tenant.device == device.name).map_or(1, |tenant| tenant.slots)
        };
        let slots: Vec<usize> = users.iter().map(slots_of).collect();
        let stated = asked.of_devices.iter().find(|(name, _)| *name == device.name);
        let taken: usize = slots.iter().sum();
        let all = stated.map_or(taken, |(_, stated)| taken.max(*stated));
        let all = asked.slots.unwrap_or(all);
        DeviceSharing::Arbiter(Sharing { slots: all, ..asked.sharing }, slots)
    }
}

/// The work of a chain on a device, each with the name of its stage.
fn works_on(
    chain: &mut ChainModel,
    device: usize,
) -> impl Iterator<Item = (&str, &mut DeviceWork)> {
    chain.stages.iter_mut().filter_map(move |stage| match &mut stage.place {
        StageSite::Device(work) if work.device == device => Some((&*stage.name, work)),
        _ => None,
    })
}
