//! What bindings are found by from inside, and the hashes of that.

use warpline_packet::hash::{fold_v6, mix32};

use super::addresses::Endpoint;
use super::config::Dependence;
use crate::keyed::HashKey;

/// What has ports, or identifiers, of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    /// Echoes of ICMP and ICMPv6.
    Icmp,
}

impl Protocol {
    pub(super) const COUNT: usize = 3;
}

/// What a binding is found by from inside. The remote is zero as far as the mapping does not
/// depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) inside: u128,
    remote: u128,
    pub(super) inside_port: u16,
    remote_port: u16,
    pub(super) protocol: Protocol,
    pub(super) version: u8,
}

impl Key {
    /// Of no binding.
    pub(super) const UNUSED: Self = Self {
        inside: 0,
        remote: 0,
        inside_port: 0,
        remote_port: 0,
        protocol: Protocol::Tcp,
        version: 0,
    };

    pub(super) fn new(
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
        mapping: Dependence,
    ) -> Self {
        let (remote, remote_port) = match mapping {
            Dependence::EndpointIndependent => (0, 0),
            Dependence::AddressDependent => (remote.address, 0),
            Dependence::AddressAndPortDependent => (remote.address, remote.port),
        };
        let Endpoint { address, port } = inside;
        Self { inside: address, remote, inside_port: port, remote_port, protocol, version }
    }

    /// The inside endpoint.
    pub(super) fn inside(&self) -> Endpoint {
        Endpoint { address: self.inside, port: self.inside_port }
    }

    /// Where its binding is looked for in a table of this key.
    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let ports = u64::from(self.inside_port) << 16 | u64::from(self.remote_port);
        let kind = u64::from(self.protocol as u8) << 8 | u64::from(self.version);
        key.of([self.inside, self.remote], ports << 16 ^ kind)
    }

    /// What its outside port is looked for by: the same in every run.
    pub(super) fn name(&self) -> u32 {
        let ports = u32::from(self.inside_port) << 16 | u32::from(self.remote_port);
        let kind = (self.protocol as u32) << 8 | u32::from(self.version);
        let remote = if self.remote == 0 { 0 } else { fold_v6(self.remote) };
        mix32(mix32(self.home_hash() ^ ports.wrapping_mul(0x9e37_79b1)) ^ remote ^ kind)
    }

    /// A hash of the inside address alone: hosts keep their outside address by it.
    pub(super) fn home_hash(&self) -> u32 {
        let folded = match self.version {
            4 => self.inside as u32,
            _ => fold_v6(self.inside),
        };
        mix32(folded ^ 0x5bd1_e995)
    }
}
