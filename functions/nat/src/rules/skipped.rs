//! Rules of destinations that can only be skipped. Then no rule after one may let its packets in.

use warpline_packet::Prefix;
use warpline_rewrite::PortSet;

use super::NatRules;
use super::scope::Scope;

/// A skipped rule, as far as its conditions are known.
#[derive(Clone, Debug)]
pub(super) struct Skipped {
    pub(super) scope: Scope,
    /// Where it stands.
    pub(super) place: String,
}

impl Skipped {
    fn has(
        &self,
        version: u8,
        outside: Option<Prefix>,
        service: Option<(u8, (u16, u16))>,
        came_by: PortSet,
    ) -> bool {
        let overlaps = |own: &Prefix| outside.is_none_or(|one| overlap(*own, one));
        let has_ports = |ports: (u16, u16)| {
            self.scope.ports.is_empty()
                || self.scope.ports.iter().any(|own| own.0 <= ports.1 && ports.0 <= own.1)
        };
        self.scope.version.is_none_or(|own| own == version)
            && !self.scope.came_by.and(came_by).is_empty()
            && (self.scope.destinations.is_empty() || self.scope.destinations.iter().any(overlaps))
            && service.is_none_or(|(protocol, ports)| {
                self.scope.protocol.is_none_or(|own| own == protocol) && has_ports(ports)
            })
    }
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    one.contains(other.address()) || other.contains(one.address())
}

impl NatRules {
    /// Refuses what would let in packets of a skipped rule, to `outside` or to any address of
    /// `version`, to ports of a protocol or to all, by these ports of the chain.
    pub(super) fn check_skipped(
        &self,
        version: u8,
        outside: Option<Prefix>,
        service: Option<(u8, (u16, u16))>,
        came_by: PortSet,
    ) -> Result<(), String> {
        match self.skipped.iter().find(|rule| rule.has(version, outside, service, came_by)) {
            Some(rule) => Err(format!("lets in packets of {}, which is not supported", rule.place)),
            None => Ok(()),
        }
    }
}
