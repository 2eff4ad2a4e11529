//! A profile: measurements of a machine, from which plans take their costs. A missing value keeps
//! its default, and is marked as such.

use crate::{FieldCosts, LinkCosts};

/// Copies between the host's memory and that of a device, as they were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpeeds {
    /// The device, as chain files name it.
    pub device: String,
    /// Bytes a second to the device while as much comes from it.
    pub to_device: f64,
    /// Bytes a second to the host while as much goes to the device.
    pub to_host: f64,
    /// Seconds that a copy takes however short it is.
    pub each_copy: f64,
}

/// Seconds that the host needs for a packet's fields one way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSpeeds {
    /// Of a packet, whatever its fields.
    pub packet: f64,
    /// Of a field, whatever its width.
    pub field: f64,
}

/// Seconds that the host needs to gather a packet's fields and to put them back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatherSpeeds {
    /// To gather them.
    pub gather: FieldSpeeds,
    /// To put them back.
    pub put: FieldSpeeds,
    /// For each byte, either way.
    pub byte: f64,
}

/// See the module. Without anything measured it is [`Profile::default`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// By device.
    pub links: Vec<LinkSpeeds>,
    /// On the host.
    pub gather: Option<GatherSpeeds>,
}

/// Packets that share a transfer, for which costs are computed.
const PACKETS_OF_LAUNCH: f64 = 1000.0;

const NS: f64 = 1e9;

impl FieldSpeeds {
    fn costs(self) -> FieldCosts {
        FieldCosts { packet_ns: NS * self.packet, field_ns: NS * self.field }
    }
}

impl Profile {
    /// Costs of the link to `device` for a chain with this many lanes: measured ones, and
    /// [`LinkCosts::PCIE_4`] for the rest. Lanes gather in parallel and share the link.
    pub fn costs(&self, device: &str, lanes: usize) -> LinkCosts {
        let mut costs = LinkCosts::PCIE_4;
        costs.traffic *= lanes.max(1) as f64;
        if let Some(link) = self.link(device) {
            costs.to_device_ns_per_byte = NS / link.to_device;
            costs.to_host_ns_per_byte = NS / link.to_host;
            costs.transfer_ns = NS * link.each_copy / PACKETS_OF_LAUNCH;
        }
        if let Some(gather) = self.gather {
            costs.host_copy_ns_per_byte = NS * gather.byte;
            costs.gather = gather.gather.costs();
            costs.put = gather.put.costs();
        }
        costs
    }

    /// The measurements of the link to `device`.
    pub fn link(&self, device: &str) -> Option<&LinkSpeeds> {
        self.links.iter().find(|link| link.device == device)
    }

    /// Whether every number can become a cost: rates from a byte to 10^15 bytes a second, times up
    /// to a second.
    pub fn is_sound(&self) -> bool {
        let is_rate = |rate: f64| (1.0..=1e15).contains(&rate);
        let is_time = |time: f64| (0.0..=1.0).contains(&time);
        let is_link = |link: &LinkSpeeds| {
            is_rate(link.to_device) && is_rate(link.to_host) && is_time(link.each_copy)
        };
        self.links.iter().all(is_link)
            && self.gather.is_none_or(|own| {
                let [gather, put] = [own.gather, own.put];
                [gather.packet, gather.field, put.packet, put.field, own.byte]
                    .into_iter()
                    .all(is_time)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(device: &str, to_device: f64) -> LinkSpeeds {
        LinkSpeeds { device: device.into(), to_device, to_host: 10e9, each_copy: 2e-6 }
    }

    #[test]
    fn costs_are_what_was_measured_and_defaults_for_the_rest() {
        let profile = Profile { links: vec![link("cuda:0", 50e9)], gather: None };
        let costs = profile.costs("cuda:0", 1);
        let expected = LinkCosts {
            to_device_ns_per_byte: 0.02,
            to_host_ns_per_byte: 0.1,
            transfer_ns: 2.0,
            ..LinkCosts::PCIE_4
        };
        assert_eq!(costs, expected);
        assert_eq!(profile.costs("cuda:1", 1), LinkCosts::PCIE_4);
        let speeds = |packet, field| FieldSpeeds { packet, field };
        let (gather, put) = (speeds(1e-9, 3e-9), speeds(4e-9, 2e-9));
        let gather = Some(GatherSpeeds { gather, put, byte: 0.5e-9 });
        let costs = Profile { gather, ..profile }.costs("cuda:1", 4);
        assert_eq!(costs.gather, FieldCosts { packet_ns: 1.0, field_ns: 3.0 });
        assert_eq!(costs.put, FieldCosts { packet_ns: 4.0, field_ns: 2.0 });
        assert_eq!(costs.host_copy_ns_per_byte, 0.5);
        assert_eq!(costs.traffic, 4.0 * LinkCosts::PCIE_4.traffic, "four lanes share a link");
    }

    #[test]
    fn numbers_have_bounds() {
        let sound = |rate| Profile { links: vec![link("host", rate)], gather: None }.is_sound();
        assert!(
            sound(1.0) && !sound(0.0) && !sound(-1.0) && !sound(1e-300) && !sound(f64::INFINITY)
        );
        let [none, wrong] = [0.0, -1.0].map(|field| FieldSpeeds { packet: 0.0, field });
        for (gather, put, is_sound) in
            [(none, none, true), (wrong, none, false), (none, wrong, false)]
        {
            let gather = Some(GatherSpeeds { gather, put, byte: 0.0 });
            assert_eq!(Profile { links: vec![], gather }.is_sound(), is_sound);
        }
    }
}
