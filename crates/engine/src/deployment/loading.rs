//! Kernels and tables of functions on their devices.

use std::sync::{Arc, OnceLock, PoisonError};

use warpline_device::Failure;
use warpline_launch::{self as launch, Loaded, OnDevice, field_copies, packed_rows, room_copies};
use warpline_nf::Kernels;
use warpline_packet::Binding;

use super::Deployment;
use crate::{Instance, StagePlan, StartError};

impl Deployment {
    /// Compiles the functions that are on devices and copies their tables there, unless that is
    /// done already. A device that failed in all lanes of the run is not used: its functions stay
    /// on the CPU. If it failed in some, it is not required.
    ///
    /// Gives a message for each function whose device fails and is not required.
    ///
    /// # Errors
    /// The instance, and the reason of its device.
    pub(crate) fn load(&self) -> Result<Vec<String>, (String, Failure)> {
        let _ = self.was_loaded.set(());
        let (mut reported, mut lost) = (Vec::new(), Vec::new());
        let all = self.stages.iter().flat_map(|stage| stage.positions().map(move |at| (stage, at)));
        for (stage, position) in all {
            let (site, slot) = (&self.sites[position], &self.loaded[position]);
            let (Some(on), None) = (&site.on_device, slot.get()) else { continue };
            let device = site.device_id();
            if lost.contains(&device) || self.failures.is_lost_everywhere(device) {
                continue;
            }
            let has_failed = self.failures.has_failed(device);
            let name = &self.chain.instances[position].name;
            match self.load_one(on, stage, position) {
                Ok(loaded) => {
                    let _ = slot.set(Arc::new(loaded));
                }
                Err(why) if on.is_required && !has_failed => return Err((name.clone(), why)),
                Err(why) => {
                    reported.push(format!("{name} runs on the CPU: {why}"));
                    lost.extend(has_failed.then_some(device));
                }
            }
        }
        Ok(reported)
    }

    /// Compiles function `position` of `stage` and copies its tables. The first of a stage also
    /// loads the kernels of the stage.
    fn load_one(
        &self,
        on: &OnDevice,
        stage: &StagePlan,
        position: usize,
    ) -> Result<Loaded, Failure> {
        let crossings = self.crossings(stage);
        if let Some(copies) = crossings.copies(self.chain.scratch_words)
            && self.copiers[stage.first].get().is_none()
        {
            let copier = launch::load(&on.device, &field_copies(), &copies)?;
            let _ = self.copiers[stage.first].set(Arc::new(copier));
        }
        if self.has_carried(&*on.device) && self.carriers[stage.first].get().is_none() {
            launch::reach(&*on.device)?;
            if crossings.has_rooms() {
                let carrier = launch::load(&on.device, &room_copies(), &Binding::MIRROR)?;
                let _ = self.carriers[stage.first].set(Arc::new(carrier));
            }
        }
        let is_copied = !on.device.description().shares_host_memory;
        if is_copied && self.unpackers[stage.first].get().is_none() {
            let unpacker = launch::load(&on.device, &packed_rows(), &Binding::MIRROR)?;
            let _ = self.unpackers[stage.first].set(Arc::new(unpacker));
        }
        let kernels = self.kept_kernels(position).take();
        let kernels = kernels.or_else(|| self.chain.instances[position].function.kernels());
        let none = || Failure::Refused("it has no kernels".into());
        let binding = crossings.binding(self.chain.scratch_words);
        launch::load(&on.device, &kernels.ok_or_else(none)?, &binding)
    }

    /// Bytes of the tables that kernels of function `position` read. The tables are built and
    /// kept for [`Deployment::load`].
    pub(crate) fn kernel_tables_len(&self, position: usize) -> usize {
        let mut kept = self.kept_kernels(position);
        if kept.is_none() {
            *kept = self.chain.instances[position].function.kernels();
        }
        kept.iter().flat_map(Kernels::tables).map(|table| table.bytes.len()).sum()
    }

    fn kept_kernels(&self, position: usize) -> std::sync::MutexGuard<'_, Option<Kernels>> {
        self.kernels[position].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernels and tables of function `position` on its device.
    pub(crate) fn loaded(&self, position: usize) -> Option<&Arc<Loaded>> {
        self.loaded.get(position)?.get()
    }

    /// Takes over the kernels and tables of function `position` from `old`, which has the same
    /// function there.
    pub(crate) fn keep_loaded(&mut self, old: &Self, position: usize) {
        for (own, kept) in [
            (&self.loaded, &old.loaded),
            (&self.copiers, &old.copiers),
            (&self.carriers, &old.carriers),
            (&self.unpackers, &old.unpackers),
        ] {
            if let Some(loaded) = kept.get(position).and_then(OnceLock::get) {
                let _ = own[position].set(Arc::clone(loaded));
            }
        }
    }

    /// The positions of functions that are loaded on device `id`.
    pub(crate) fn loaded_on(&self, id: &str) -> Vec<usize> {
        let is_own = |position: &usize| {
            self.sites[*position].device_id() == id && self.loaded(*position).is_some()
        };
        (0..self.sites.len()).filter(is_own).collect()
    }

    /// Whether it runs or ran.
    pub(crate) fn was_loaded(&self) -> bool {
        self.was_loaded.get().is_some()
    }

    /// Tests whether the devices that it requires can carry whole frames as its plan expects.
    ///
    /// # Errors
    /// The first instance whose device can't, with the reason.
    pub fn try_frames(&self) -> Result<(), StartError> {
        let all = self.instances().filter_map(|(one, site)| Some((one, site.on_device.as_ref()?)));
        let carried =
            |(_, on): &(&Instance, &OnDevice)| on.is_required && self.has_carried(&*on.device);
        all.filter(carried).try_for_each(|(one, on)| {
            launch::reach(&*on.device).map_err(|why| StartError::Device(one.name.clone(), why))
        })
    }
}
