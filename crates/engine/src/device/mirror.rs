//! The mirrors of a lane: on each device that its stages use, a copy of its packets' memory.

use std::sync::{Arc, OnceLock};

use warpline_device::{Buffer, Device, Failure, HostMemory, Region};

use crate::sys::lane_memory::LaneMemory;

/// A lane's memory as one device knows it, and the copy there. What lies at an offset of one lies there in the other.
#[derive(Clone)]
pub(crate) struct Mirror {
    pub(crate) region: Region,
    pub(crate) buffer: Buffer,
    /// Why nothing may be started on it any more, by any of the lane's stages.
    pub(crate) failed: Arc<OnceLock<String>>,
}

/// The mirrors of a lane, by device: stages on the same device share one.
pub(crate) struct Mirrors<'a> {
    memory: &'a LaneMemory,
    by_device: Vec<(String, Mirror)>,
}

impl<'a> Mirrors<'a> {
    /// Of `memory`; none so far.
    pub(crate) fn new(memory: &'a LaneMemory) -> Self {
        Self { memory, by_device: Vec::new() }
    }

    /// The one on `device`.
    ///
    /// # Errors
    /// What the device says: it may have too little memory.
    pub(crate) fn of(&mut self, device: &dyn Device) -> Result<Mirror, Failure> {
        let id = &device.description().id;
        if let Some((_, mirror)) = self.by_device.iter().find(|(own, _)| own == id) {
            return Ok(mirror.clone());
        }
        let region = device.register(Arc::new(self.memory.clone()))?;
        let failed = Arc::default();
        let mirror =
            Mirror { region, buffer: device.allocate(HostMemory::len(self.memory))?, failed };
        self.by_device.push((id.clone(), mirror.clone()));
        Ok(mirror)
    }
}
