//! The devices of this machine, and the reasons for missing ones.

use std::sync::Arc;

use crate::host::Host;
use crate::sys::{cuda, opencl, signals};
use crate::{Description, Device, Missing};

/// The devices of this machine.
pub struct FoundDevices {
    /// The devices, CUDA's first, then OpenCL's, then the host reference device.
    pub devices: Vec<Arc<dyn Device>>,
    /// Kinds, or single devices, that can't be used, with the reason.
    pub missing: Vec<(String, Missing)>,
}

/// Looks for every kind of device. Takes a second or so where there is a GPU.
pub fn find() -> FoundDevices {
    let mut found = FoundDevices { devices: Vec::new(), missing: Vec::new() };
    found.add("cuda", signals::keeping(cuda::find));
    found.add("opencl", signals::keeping(opencl::find));
    found.add("host", Host::open().map(|host| vec![Ok(Arc::new(host) as Arc<dyn Device>)]));
    found
}

/// The device called `id`: `host`, `opencl:0`, `cuda:1`, or a UUID such as that of a MIG instance:
/// `cuda:MIG-...`, `MIG-...` or `GPU-...`, or the UUID alone. `cuda` and `opencl` mean the first of
/// their kind.
///
/// # Errors
/// There is none, with the reason and the available ids.
pub fn open(id: &str) -> Result<Arc<dyn Device>, Missing> {
    find().open(id)
}

/// The devices of one kind, each opened or with its id and the reason; or why there are none at
/// all.
pub(crate) type OpenedKind<T> = Result<Vec<Result<T, (String, Missing)>>, Missing>;

impl FoundDevices {
    /// The device called `id`, as [`open`] does.
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, id: &str) -> Result<Arc<dyn Device>, Missing> {
        let uuid = id.strip_prefix("cuda:").unwrap_or(id);
        let uuid = uuid.strip_prefix("MIG-").or(uuid.strip_prefix("GPU-")).unwrap_or(uuid);
        let is_meant = |about: &Description| {
            let is_id = about.id == id || about.id.strip_suffix(":0") == Some(id);
            is_id || about.uuid.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(uuid))
        };
        let meant = self.devices.iter().find(|device| is_meant(device.description()));
        meant.cloned().ok_or_else(|| self.why_not(id))
    }

    fn add(&mut self, name: &str, kind: OpenedKind<Arc<dyn Device>>) {
        match kind {
            Ok(devices) => {
                for device in devices {
                    match device {
                        Ok(device) => self.devices.push(device),
                        Err(missing) => self.missing.push(missing),
                    }
                }
            }
            Err(why) => self.missing.push((name.into(), why)),
        }
    }

    fn why_not(&self, id: &str) -> Missing {
        let kind = id.split(':').next().unwrap_or(id);
        let why = self.missing.iter().find(|(name, _)| name == id || name == kind);
        let of_device = |device: &Arc<dyn Device>| {
            let about = device.description();
            match about.uuid.as_ref().filter(|_| is_uuid(id)) {
                Some(uuid) => format!("{} ({uuid})", about.id),
                None => about.id.clone(),
            }
        };
        let ids: Vec<String> = self.devices.iter().map(of_device).collect();
        let mut known = if ids.is_empty() { "none".into() } else { ids.join(", ") };
        if id.contains("MIG-") {
            known += "; CUDA shows a process the first instance of CUDA_VISIBLE_DEVICES only";
        }
        match why {
            Some((_, why)) => Missing(format!("no device {id:?}: {why}; devices here: {known}")),
            None => Missing(format!("no device {id:?}; devices here: {known}")),
        }
    }
}

/// Whether a name was meant as a UUID.
fn is_uuid(id: &str) -> bool {
    id.contains("MIG-") || id.contains("GPU-")
}
