//! New bindings, and their outside endpoints.

use warpline_packet::prefetch;

use super::super::Refusal;
use super::super::binding::{Binding, Class, Outside, Upper};
use super::super::config::Config;
use super::super::key::Key;
use super::super::ports::{TRIED_IN_TURN, Wanted};
use super::Bindings;
use super::ahead::OPENING_BATCHES;
use warpline_rewrite::{Endpoint, Protocol};
use warpline_tables::list::NONE;

impl Bindings {
    /// Makes a binding and gives its number. It ends with the class it is refreshed in next.
    pub(in super::super) fn create(
        &mut self,
        key: Key,
        class: Class,
        config: &Config,
    ) -> Result<u32, Refusal> {
        if key.protocol == Protocol::Other {
            return self.create_portless(key, class, config);
        }
        if config.outside.len(key.version) == 0 {
            return Err(Refusal::PortsExhausted);
        }
        let source = (key.version, key.inside_address());
        if self.sources.as_ref().is_some_and(|sources| sources.is_full(source.0, source.1)) {
            return Err(Refusal::PerSource);
        }
        let is_shared = config.shares(key.protocol);
        let outside = match is_shared {
            true => self.free_port(&key, config),
            false => {
                self.take_port(&key, config).or_else(|| self.take_port_of_another(&key, config))
            }
        };
        let outside = outside.ok_or(Refusal::PortsExhausted)?;
        if self.len == self.capacity && self.evict(None).is_none() {
            if !is_shared {
                self.ports.release(&outside);
            }
            return Err(Refusal::TableFull);
        }
        let number = self.insert(&key, Binding::new(&key, &outside, class), class);
        self.index_later(outside.hash(self.hash_key), number);
        self.opening = OPENING_BATCHES;
        if let Some(sources) = &mut self.sources {
            sources.add(source.0, source.1);
        }
        Ok(number)
    }

    /// Makes a binding of a protocol without ports: the only one by which an outside address has
    /// this protocol with this remote.
    fn create_portless(&mut self, key: Key, class: Class, config: &Config) -> Result<u32, Refusal> {
        let outside = self.free_outside(&key, config).ok_or(Refusal::RemoteInUse)?;
        if self.len == self.capacity && self.evict(None).is_none() {
            return Err(Refusal::TableFull);
        }
        let number = self.insert(&key, Binding::new(&key, &outside, class), class);
        self.by_outside.insert(outside.hash(self.hash_key), number);
        Ok(number)
    }

    /// The first outside address without the protocol and the remote of `key`, from the host's own
    /// one on.
    fn free_outside(&mut self, key: &Key, config: &Config) -> Option<Outside> {
        self.index_late();
        let (version, protocol, port) = (key.version, key.protocol, key.inside().port);
        let (addresses, home) = (config.outside.len(version), u128::from(key.home(config)));
        let forwards = |address| {
            let to = Endpoint { address: config.outside.address(version, address), port };
            u8::try_from(port).is_ok_and(|own| self.fixed.forward(version, own, to).is_some())
        };
        (0..addresses.min(TRIED_IN_TURN)).find_map(|step| {
            let address = ((home + step) % addresses) as u64;
            let outside = Outside { version, protocol, address, port, remote: key.remote() };
            let is_free = !forwards(address) && self.find_indexed(&outside).is_none();
            is_free.then_some(outside)
        })
    }

    /// An outside port without a binding to the remote of `key`.
    fn free_port(&mut self, key: &Key, config: &Config) -> Option<Outside> {
        self.index_late();
        let wanted = self.wanted(key, config);
        self.ports.candidates(&wanted).find_map(|(address, port)| {
            let (version, protocol) = (key.version, key.protocol);
            let outside = Outside { version, protocol, address, port, remote: key.remote() };
            let is_free =
                !self.is_forwarded(&outside, config) && self.find_indexed(&outside).is_none();
            is_free.then_some(outside)
        })
    }

    /// Whether a forward has this port.
    fn is_forwarded(&self, outside: &Outside, config: &Config) -> bool {
        let &Outside { version, protocol, address, port, .. } = outside;
        let to = Endpoint { address: config.outside.address(version, address), port };
        let forward = |number| self.fixed.forward(version, number, to);
        protocol.number().and_then(forward).is_some()
    }

    /// Puts a new binding in the table.
    fn insert(&mut self, key: &Key, binding: Binding, class: Class) -> u32 {
        let number = self.place(key, binding);
        self.move_used();
        self.link(number, class);
        self.by_inside.insert(key.hash(self.hash_key), number);
        self.len += 1;
        self.peak = self.peak.max(self.len as u64);
        self.created += 1;
        number
    }

    /// A port of a binding that gives way. A binding of a forwarded port has none to give.
    fn take_port_of_another(&mut self, key: &Key, config: &Config) -> Option<Outside> {
        loop {
            self.evict(Some(key))?;
            if let Some(taken) = self.take_port(key, config) {
                return Some(taken);
            }
        }
    }

    /// Makes the binding of a connection to a forwarded port and gives its number.
    pub(in super::super) fn create_forwarded(
        &mut self,
        key: Key,
        class: Class,
        outside: &Outside,
    ) -> Result<u32, Refusal> {
        if self.len == self.capacity && self.evict(None).is_none() {
            return Err(Refusal::TableFull);
        }
        Ok(self.insert(&key, Binding::new(&key, outside, class).forwarded(), class))
    }

    /// Puts a binding in a free place.
    fn place(&mut self, key: &Key, binding: Binding) -> u32 {
        let number = if self.free == NONE { self.slab.len() as u32 } else { self.free };
        match self.slab.get_mut(number as usize) {
            Some(place) => {
                self.free = place.by_class.newer();
                *place = binding;
            }
            None => {
                self.slab.push(binding);
                self.slab.spare_capacity_mut().first().into_iter().for_each(prefetch);
            }
        }
        if binding.is_v6() {
            let len = self.uppers.len().max(number as usize + 1);
            self.uppers.resize(len, Upper::default());
            self.uppers[number as usize] = Upper::of(key);
        }
        number
    }

    fn wanted(&self, key: &Key, config: &Config) -> Wanted {
        Wanted {
            version: key.version,
            protocol: key.protocol,
            home: key.home(config),
            hash: key.hash(config.port_key),
            // RFC 4787, REQ-4: "It is RECOMMENDED that a NAT have a "Port parity preservation"
            // behavior of "Yes"": RTP over UDP has even ports and RTCP the next odd ones.
            like: (key.protocol == Protocol::Udp).then_some(key.inside().port),
        }
    }

    /// A free outside port for a binding with this key, taken. A forwarded port stays taken.
    fn take_port(&mut self, key: &Key, config: &Config) -> Option<Outside> {
        let wanted = self.wanted(key, config);
        loop {
            let taken = self.ports.take(&wanted)?;
            if !self.is_forwarded(&taken, config) {
                return Some(taken);
            }
        }
    }
}
