//! Whether a plan ever has anyone read what is stale. Written from what copies mean, not from how plans are made: every field has a
//! version in each memory, which grows when it is written and crosses when it is copied.

use warpline_packet::{Field, FieldSet};

use super::super::problem::{Problem, Touch};
use super::super::{Plan, Way};

const FIELDS: usize = Field::ALL.len();

struct Memories {
    newest: [u32; FIELDS],
    host: [u32; FIELDS],
    /// What a mirror or the buffers of a direct kernel hold, if anything.
    devices: Vec<[Option<u32>; FIELDS]>,
}

impl Memories {
    fn touch(&mut self, device: Option<usize>, touch: Touch, who: &str) -> Result<(), String> {
        for field in touch.needs.iter() {
            let at = field.bit() as usize;
            let has = match device {
                None => Some(self.host[at]),
                Some(device) => self.devices[device][at],
            };
            if has != Some(self.newest[at]) {
                return Err(format!("{who} reads `{}`, which is stale there", field.name()));
            }
        }
        for field in touch.writes.iter() {
            let at = field.bit() as usize;
            self.newest[at] += 1;
            match device {
                None => self.host[at] = self.newest[at],
                Some(device) => self.devices[device][at] = Some(self.newest[at]),
            }
        }
        Ok(())
    }

    /// What a device has goes to the host, whether it is new or not.
    fn bring_back(&mut self, device: usize, fields: FieldSet, who: &str) -> Result<(), String> {
        for field in fields.iter() {
            let at = field.bit() as usize;
            let Some(version) = self.devices[device][at] else {
                return Err(format!("{who} copies `{}`, which is not on the device", field.name()));
            };
            if version < self.host[at] {
                return Err(format!("{who} overwrites `{}` of the host", field.name()));
            }
            self.host[at] = version;
        }
        Ok(())
    }
}

/// Follows a packet through the plan.
pub(super) fn follow(problem: &Problem, plan: &Plan) -> Result<(), String> {
    let mut at = Memories {
        newest: [1; FIELDS],
        host: [1; FIELDS],
        devices: vec![[None; FIELDS]; problem.links.len()],
    };
    for (position, function) in problem.functions.iter().enumerate() {
        let name = &function.name;
        at.touch(None, function.before, &format!("before of {name}"))?;
        let Some(device) = function.device else {
            at.touch(None, function.run, &format!("run of {name}"))?;
            at.touch(None, function.after, &format!("after of {name}"))?;
            at.touch(None, function.after_flagged, &format!("after of {name}, flagged"))?;
            continue;
        };
        let step = plan.step(position).ok_or_else(|| format!("no step for {name}"))?;
        bring(&mut at, step.first_to_host.fields, name)?;
        for field in step.to_device.fields.iter() {
            let bit = field.bit() as usize;
            at.devices[device][bit] = Some(at.host[bit]);
        }
        at.touch(Some(device), function.run, &format!("run of {name}"))?;
        at.bring_back(device, step.to_host.fields, name)?;
        // A flagged packet: what it takes along, and then `after`, apart from all others.
        let others = at.host;
        let newest = at.newest;
        bring(&mut at, step.flagged.fields, name)?;
        at.touch(None, function.after_flagged, &format!("after of {name}, flagged"))?;
        (at.host, at.newest) = (others, newest);
        at.touch(None, function.after, &format!("after of {name}"))?;
        if !step.mirror_after {
            at.devices[device] = [None; FIELDS];
        } else if step.to_device.way == Way::Direct {
            return Err(format!("{name} works without a mirror, and has one afterwards"));
        }
        if problem.is_recoverable {
            lost(problem, &at, position)?;
        }
    }
    at.touch(None, Touch { needs: problem.end_reads, writes: FieldSet::EMPTY }, "the sink")
}

/// Brings fields from whichever device has the newest.
fn bring(at: &mut Memories, fields: FieldSet, who: &str) -> Result<(), String> {
    for field in fields.iter() {
        let bit = field.bit() as usize;
        let newest = Some(at.newest[bit]);
        let Some(device) = at.devices.iter().position(|own| own[bit] == newest) else {
            return Err(format!("{who} brings `{}`, which no device has", field.name()));
        };
        at.bring_back(device, FieldSet::of(&[field]), who)?;
    }
    Ok(())
}

/// Whether the host could go on alone.
fn lost(problem: &Problem, at: &Memories, position: usize) -> Result<(), String> {
    let later = &problem.functions[position + 1..];
    let needs = later.iter().fold(problem.end_reads, |all, function| {
        all | function.before.needs | function.run.needs | function.after.needs
    });
    let is_stale = |field: &Field| at.host[field.bit() as usize] != at.newest[field.bit() as usize];
    match needs.iter().find(is_stale) {
        Some(field) => Err(format!("`{}` would be lost behind {position}", field.name())),
        None => Ok(()),
    }
}
