//! The first mistake of a scenario.

use warpline_sched::Policy;

use super::{COST_PS, ChainModel, DeviceModel, DeviceSharing, LinkModel};
use super::{Scenario, ScenarioError, StageModel, StageSite};

impl Scenario {
    /// Names the first mistake.
    ///
    /// # Errors
    /// A cost, rate or index that is out of its range.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.lasts_ns == 0 || self.lasts_ns > Self::LASTS_NS_MAX {
            return Err(ScenarioError("the simulated time must be 1 ns to 1 h".into()));
        }
        if self.warm_up_ns >= self.lasts_ns {
            return Err(ScenarioError("the warm-up must be shorter than the simulation".into()));
        }
        if self.cores == Some(0) {
            return Err(ScenarioError("threads need a core".into()));
        }
        self.devices.iter().try_for_each(check_device)?;
        self.chains.iter().try_for_each(|chain| self.check_chain(chain))
    }

    fn check_chain(&self, chain: &ChainModel) -> Result<(), ScenarioError> {
        let fail = |why: &str| Err(ScenarioError(format!("chain {:?}: {why}", chain.name)));
        if chain.stages.is_empty() {
            return fail("it has no stage");
        }
        let rate = chain.traffic.rate().unwrap_or(1.0);
        if !(1e-3..=1e12).contains(&rate) {
            return fail("packets a second must be 0.001 to 10^12");
        }
        if !(0.0..=1.0).contains(&chain.unrouted) {
            return fail("the share of packets without a route must be 0 to 1");
        }
        for work in [&chain.reader, &chain.sender].into_iter().flatten() {
            if self.cores.is_none() || work.thread >= self.threads || !work.cost.is_sound() {
                return fail("its reader or sender has no core, no thread, or a cost out of range");
            }
        }
        for stage in &chain.stages {
            if let Some(why) = self.mistake_of(stage) {
                return fail(&format!("stage {:?}: {why}", stage.name));
            }
        }
        Ok(())
    }

    fn mistake_of(&self, stage: &StageModel) -> Option<&'static str> {
        if !(0.0..=1.0).contains(&stage.share) || stage.launch_packets == 0 {
            return Some("its share must be 0 to 1 and its launches have a packet");
        }
        let (lane, is_sound) = match &stage.place {
            StageSite::Cpu { lane, cost, .. } => (*lane, cost.is_sound()),
            StageSite::Device(work) => {
                let device = self.devices.get(work.device);
                if device.is_none_or(|device| work.tenant >= device.tenants) {
                    return Some("its device or tenant does not exist");
                }
                if !work.to_device.is_sound() || !work.to_host.is_sound() {
                    return Some("bytes that cross must be 0 to 10^9 a packet");
                }
                let is_sound = work.before.is_sound() && work.after.is_sound();
                (work.lane, is_sound && work.kernel.is_sound())
            }
        };
        if lane >= self.lanes {
            return Some("its lane does not exist");
        }
        (!is_sound).then_some("a cost is negative, no number, or above 1000 s")
    }
}

fn check_device(device: &DeviceModel) -> Result<(), ScenarioError> {
    let fail = |why: &str| Err(ScenarioError(format!("device {:?}: {why}", device.name)));
    if device.is_on_cores && device.sharing != DeviceSharing::InOrder {
        return fail("kernels on the CPU's cores run in order");
    }
    let links = [device.to_device, device.to_host].into_iter().flatten();
    let is_sound = |link: &LinkModel| {
        COST_PS.contains(&link.byte_ps) && (0.0..=1e12).contains(&link.copy_ns) && link.engines > 0
    };
    if !links.clone().all(|link| is_sound(&link)) {
        return fail("a link's costs are out of range");
    }
    match &device.sharing {
        DeviceSharing::InOrder => Ok(()),
        DeviceSharing::Slices { policy: Policy::RateProportional, .. } => {
            fail("`rate_proportional` is a policy of the arbiter, not of a device's own slices")
        }
        DeviceSharing::Slices { slice_ns, switch_ns, slots, .. } => {
            match *switch_ns < *slice_ns && *slots >= device.tenants {
                true => Ok(()),
                false => fail("a slice must be longer than a switch, and each tenant needs a slot"),
            }
        }
        DeviceSharing::Arbiter(sharing, slots) if slots.len() == device.tenants => {
            let arbiter = warpline_sched::Arbiter::new(sharing, slots);
            arbiter.map(drop).or_else(|why| fail(&why.to_string()))
        }
        DeviceSharing::Arbiter(..) => fail("each tenant needs its slots"),
        DeviceSharing::Instances(sevenths) => {
            let fits = sevenths.len() == device.tenants && sevenths.iter().all(|own| *own > 0);
            match fits && sevenths.iter().sum::<u32>() <= 7 {
                true => Ok(()),
                false => fail("instances need 1 to 7 sevenths each, and 7 in all"),
            }
        }
    }
}
