//! The mirrors of a lane: on each of its devices a copy of its packets' memory, or that memory
//! itself.

use std::sync::{Arc, OnceLock};

use warpline_device::{Buffer, Device, Failure, Region};
use warpline_packet::{ALIGN, mirror_bit};

use crate::failed_devices::DeviceFailure;
use crate::{Crossings, FailedDevices, LaneMemory};

/// Tests whether kernels of `device` reach memory that lanes have their packets in.
///
/// # Errors
/// Kernels do not reach it, or the device failed.
pub fn reach(device: &dyn Device) -> Result<(), Failure> {
    let region = match device.shared_memory(ALIGN) {
        Some(memory) => device.register(memory)?,
        None => device.host_memory(ALIGN)?.region().clone(),
    };
    reached(&region, device).map(drop)
}

/// `region` where kernels of its device reach all of it.
///
/// # Errors
/// They do not.
pub(super) fn reached(region: &Region, device: &dyn Device) -> Result<Region, Failure> {
    let id = &device.description().id;
    let none =
        || format!("{id} does not reach the host's memory, as `frames_by = \"kernels\"` asks");
    region.is_mapped().then(|| region.clone()).ok_or_else(|| Failure::Refused(none()))
}

/// A lane's memory as one device sees it, and the copy there. An offset names the same packet in
/// both.
#[derive(Clone)]
pub(crate) struct Mirror {
    pub(crate) memory: LaneMemory,
    pub(crate) region: Region,
    /// The copy; none where kernels work in the region in place.
    pub(crate) copy: Option<Buffer>,
    /// Its number among the lane's.
    pub(crate) number: u8,
    /// Why the lane does not use its device any more.
    pub(crate) failed: DeviceFailure,
    /// Why nothing is started on it although its device works.
    pub(crate) unused: Arc<OnceLock<String>>,
}

impl Mirror {
    /// Why nothing may be started on it any more, by any of the lane's stages.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.failed.get().or_else(|| self.unused.get()).map(String::as_str)
    }
}

/// The mirrors of a lane, by device: stages on the same device share one.
pub struct Mirrors<'a> {
    memory: &'a LaneMemory,
    failures: &'a FailedDevices,
    /// The number of the lane.
    lane: usize,
    by_device: Vec<(String, Mirror)>,
}

impl<'a> Mirrors<'a> {
    /// Of `memory`, which lane `lane` has; none so far.
    pub fn new(memory: &'a LaneMemory, failures: &'a FailedDevices, lane: usize) -> Self {
        Self { memory, failures, lane, by_device: Vec::new() }
    }

    /// Whether `device` failed in any lane.
    pub fn has_failed(&self, device: &dyn Device) -> bool {
        self.failures.has_failed(&device.description().id)
    }

    /// Whether `device` failed in this lane.
    pub fn has_lost(&self, device: &dyn Device) -> bool {
        self.failures.is_lost(&device.description().id, self.lane)
    }

    /// The one on `device`.
    ///
    /// # Errors
    /// The device's: it may have too little memory.
    pub(crate) fn of(&mut self, device: &dyn Device) -> Result<Mirror, Failure> {
        let about = device.description();
        if let Some((_, mirror)) = self.by_device.iter().find(|(own, _)| *own == about.id) {
            return Ok(mirror.clone());
        }
        let (region, is_in_place) = self.memory.known_to(device)?;
        let copy = || device.allocate(self.memory.arena_len());
        let copy = (!is_in_place).then(copy).transpose()?;
        // Those that work in place have none that packets are marked for.
        let copies = self.by_device.iter().filter(|(_, mirror)| mirror.copy.is_some());
        let number = copies.count().min(u8::MAX.into()) as u8;
        let (memory, failed) = (self.memory.clone(), self.failures.of(&about.id, self.lane));
        let mirror = Mirror { memory, region, copy, number, failed, unused: Arc::default() };
        self.by_device.push((about.id.clone(), mirror.clone()));
        Ok(mirror)
    }

    /// The devices that have copies, by the numbers of their mirrors.
    pub fn copies(&self) -> impl Iterator<Item = &str> {
        let copies = self.by_device.iter().filter(|(_, mirror)| mirror.copy.is_some());
        copies.map(|(device, _)| device.as_str())
    }

    /// The bits of mirrors that keep their packets when the CPU does the work of functions that
    /// should run on `device`. With `takes_out` one of them takes packets out of mirrors
    /// ([`crate::takes_out_of_mirrors`]).
    pub fn kept_without(&self, device: &dyn Device, takes_out: bool) -> u8 {
        let about = device.description();
        if about.shares_host_memory || takes_out {
            return 0;
        }
        let own = self.by_device.iter().find(|(own, _)| *own == about.id);
        !own.map_or(0, |(_, mirror)| mirror_bit(mirror.number))
    }

    /// The stage of `crossings`, whose first function is `name`, is not on `device`. If it relies
    /// on fields that earlier stages leave there, these don't start anything there either. Returns
    /// the message about that.
    pub fn leave(&self, crossings: &Crossings, device: &dyn Device, name: &str) -> Option<String> {
        let id = &device.description().id;
        let (_, mirror) = self.by_device.iter().find(|(own, _)| own == id)?;
        let why = format!("what {name} would find on {id} stays on the CPU, as it runs there");
        let _ = crossings.relies_on_mirror.then(|| mirror.unused.set(why.clone()))?;
        Some(why)
    }
}
