//! Who shares the devices: the tenants of the chain file, or each chain alone.

use std::collections::BTreeSet;

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

    /// Every device but the CPU, and by device its tenants. Those without a launch there are none.
    pub(super) fn devices(&self, chains: &mut [ChainModel]) -> (Vec<DeviceModel>, Vec<Vec<usize>>) {
        let devices = self.file.work.devices().iter().zip(&self.file.links);
        let devices = devices.zip(&self.file.on_cpu).skip(1).enumerate();
        let mut all_seats = Vec::new();
        let models = devices.map(|(number, ((device, link), is_on_cpu))| {
            let mut works: Vec<&mut DeviceWork> =
                chains.iter_mut().flat_map(|one| works_on(one, number)).collect();
            let seats: BTreeSet<usize> = works.iter().map(|work| work.tenant).collect();
            let seats: Vec<usize> = seats.into_iter().collect();
            for work in &mut works {
                work.tenant = seats.partition_point(|seat| *seat < work.tenant);
            }
            let copy_ns = link.as_ref().map_or(0.0, |link| link.each_copy * 1e9);
            let of = |speed: f64| LinkModel::of_rate(speed, copy_ns);
            let sharing = match &self.sharing {
                Some(asked) if !seats.is_empty() => self.divided_device(asked, &seats, device),
                _ => DeviceSharing::InOrder,
            };
            let model = DeviceModel {
                name: device.name.clone(),
                is_on_cores: sharing == DeviceSharing::InOrder && *is_on_cpu,
                sharing,
                tenants: seats.len(),
                to_device: link.as_ref().map(|link| of(link.to_device)),
                to_host: link.as_ref().map(|link| of(link.to_host)),
                power: device.power,
            };
            all_seats.push(seats);
            model
        });
        (models.collect(), all_seats)
    }

    /// A device whose tenants have their slots.
    fn divided_device(
        &self,
        asked: &AskedSharing,
        seats: &[usize],
        device: &ProfiledDevice,
    ) -> DeviceSharing {
        let (by_user, _) = self.seats();
        let slots_of = |seat: &usize| {
            let user = by_user.iter().position(|other| other == seat).unwrap_or(0);
            let tenant = self.chains[user % self.chains.len()].tenant.as_ref();
            tenant.filter(|tenant| tenant.device == device.name).map_or(1, |tenant| tenant.slots)
        };
        let slots: Vec<usize> = seats.iter().map(slots_of).collect();
        let stated = asked.of_devices.iter().find(|(name, _)| *name == device.name);
        let taken: usize = slots.iter().sum();
        let all = stated.map_or(taken, |(_, stated)| taken.max(*stated));
        let all = asked.slots.unwrap_or(all);
        DeviceSharing::Arbiter(Sharing { slots: all, ..asked.sharing }, slots)
    }
}

/// The work of a chain on a device.
fn works_on(chain: &mut ChainModel, device: usize) -> impl Iterator<Item = &mut DeviceWork> {
    chain.stages.iter_mut().filter_map(move |stage| match &mut stage.place {
        StageSite::Device(work) if work.device == device => Some(work),
        _ => None,
    })
}
