//! The devices that failed in a run, by lane. A lane does not use such a device again, neither
//! after a move. Other lanes continue on it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Why a lane does not use one of its devices any more; empty while it does.
pub(crate) type DeviceFailure = Arc<OnceLock<String>>;

/// See the module. Deployments that follow each other share it.
#[derive(Default)]
pub struct FailedDevices(Mutex<Devices>);

#[derive(Default)]
struct Devices {
    /// By device and lane, for those that were used.
    used: Vec<(String, usize, DeviceFailure)>,
    /// Devices that no lane uses any more.
    retired: Vec<String>,
}

impl Devices {
    /// Whether each lane that used `device` has lost it.
    fn of(&self, device: &str) -> impl Iterator<Item = (usize, bool)> {
        let own = self.used.iter().filter(move |(own, ..)| own == device);
        own.map(|(_, lane, failure)| (*lane, failure.get().is_some()))
    }

    fn is_retired(&self, device: &str) -> bool {
        self.retired.iter().any(|own| own == device)
    }
}

impl FailedDevices {
    fn all(&self) -> MutexGuard<'_, Devices> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lane `lane` uses `device`: the place for its failure, the same for all stages and moves.
    pub(crate) fn of(&self, device: &str, lane: usize) -> DeviceFailure {
        let mut all = self.all();
        let mut used = all.used.iter();
        if let Some((.., own)) = used.find(|(own, at, _)| *at == lane && own == device) {
            return Arc::clone(own);
        }
        let failure = DeviceFailure::default();
        all.used.push((device.into(), lane, Arc::clone(&failure)));
        failure
    }

    /// A reload brought what is not on `device`.
    pub(crate) fn retire(&self, device: &str) {
        let mut all = self.all();
        if !all.is_retired(device) {
            all.retired.push(device.into());
        }
    }

    /// Whether lane `lane` does not use `device` again.
    pub fn is_lost(&self, device: &str, lane: usize) -> bool {
        let all = self.all();
        all.is_retired(device) || all.of(device).any(|(own, is_lost)| own == lane && is_lost)
    }

    /// Whether any lane does not use `device` again.
    pub fn has_failed(&self, device: &str) -> bool {
        let all = self.all();
        all.is_retired(device) || all.of(device).any(|(_, is_lost)| is_lost)
    }

    /// Whether no lane that used `device` does so again.
    pub fn is_lost_everywhere(&self, device: &str) -> bool {
        let all = self.all();
        let mut own = all.of(device).peekable();
        all.is_retired(device) || own.peek().is_some() && own.all(|(_, is_lost)| is_lost)
    }

    /// A run starts.
    pub fn clear(&self) {
        *self.all() = Devices::default();
    }
}
