//! The keys by which bindings are found from inside, and their hashes.

use warpline_packet::hash::mix32;

use super::config::{Config, Dependence};
use warpline_rewrite::{Endpoint, Protocol};
use warpline_tables::HashKey;

/// The key of a binding for packets from inside. The remote is zero as far as the mapping does not
/// depend on it. Without ports, the mapping always depends on the remote address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    inside: Endpoint,
    remote: Endpoint,
    pub(super) protocol: Protocol,
    pub(super) version: u8,
    /// Of the connection to a forwarded port with these ends. The inside host may have one of its
    /// own with the same ends.
    pub(super) is_forwarded: bool,
}

impl Key {
    pub(super) fn new(
        version: u8,
        protocol: Protocol,
        inside: Endpoint,
        remote: Endpoint,
        mapping: Dependence,
    ) -> Self {
        let (remote, remote_port) = match mapping {
            _ if protocol == Protocol::Other => (remote.address, 0),
            Dependence::EndpointIndependent => (0, 0),
            Dependence::AddressDependent => (remote.address, 0),
            Dependence::AddressAndPortDependent => (remote.address, remote.port),
        };
        let remote = Endpoint { address: remote, port: remote_port };
        Self::of(version, protocol, inside, remote)
    }

    /// With so much of the remote as the mapping depends on.
    pub(super) fn of(version: u8, protocol: Protocol, inside: Endpoint, remote: Endpoint) -> Self {
        Self { inside, remote, protocol, version, is_forwarded: false }
    }

    /// The same, of the connection to a forwarded port.
    pub(super) fn forwarded(self) -> Self {
        Self { is_forwarded: true, ..self }
    }

    /// The inside address.
    pub(super) fn inside_address(&self) -> u128 {
        self.inside.address
    }

    /// The inside endpoint.
    pub(super) fn inside(&self) -> Endpoint {
        self.inside
    }

    /// So much of the remote as the mapping depends on.
    pub(super) fn remote(&self) -> Endpoint {
        self.remote
    }

    /// Where its binding is looked for in a table of this key, or where its outside port is.
    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let ports = u64::from(self.inside.port) << 16 | u64::from(self.remote.port);
        let kind = u64::from(self.is_forwarded) << 12
            | u64::from(self.protocol as u8) << 8
            | u64::from(self.version);
        key.of([self.inside.address, self.remote.address], ports << 16 ^ kind)
    }

    /// The number of the outside address that its host should have.
    pub(super) fn home(&self, config: &Config) -> u64 {
        config.outside.named(self.version, self.home_hash())
    }

    /// A hash of the inside address alone, without a key: hosts keep their outside address by it,
    /// from run to run too.
    fn home_hash(&self) -> u64 {
        let inside = self.inside_address();
        let folded = match self.version {
            4 => inside as u32,
            _ => {
                let word = |at: u32| mix32((inside >> (32 * at)) as u32 ^ at);
                word(0) ^ word(1) ^ word(2) ^ word(3)
            }
        };
        let (high, low) = (mix32(folded ^ 0x5bd1_e995), mix32(folded ^ 0x9e37_79b9));
        u64::from(high) << 32 | u64::from(low)
    }
}
