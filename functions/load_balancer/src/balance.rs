//! Which backend a flow goes to, and which VIP it comes back from: the directory and the
//! connections together.

use std::sync::Arc;

use warpline_packet::wire::tcp;
use warpline_packet::{Instant, Shard};

use super::Refusal;
use super::config::{Config, Mode};
use super::connections::{Client, Connections, Named, Progress};
use super::flow::Flow;
use super::former::Former;
use super::hash;
use warpline_rewrite::addresses::address_of;

/// The end of a flow that is ours.
pub(super) enum End {
    /// It is to the VIP of this number.
    Vip(usize),
    /// It is from the backend of this name.
    Backend(u64),
    Neither,
}

/// The directory as it is, and the connections of one shard.
pub(super) struct Balance {
    pub(super) config: Arc<Config>,
    pub(super) connections: Connections,
    pub(super) now: Instant,
    /// Whether backends were replaced, so that connections may have one that is no longer there.
    is_reloaded: bool,
    former: Former,
    /// Connections that went from a lost backend to another.
    pub(super) moved: u64,
    /// Packets whose connection found no place.
    pub(super) unremembered: u64,
}

impl Balance {
    pub(super) fn new(config: &Arc<Config>, shard: Shard) -> Self {
        let (capacity, both_ways) =
            (shard.share(config.fixed.connections), config.fixed.mode == Mode::Dnat);
        Self {
            connections: Connections::new(
                capacity,
                config.fixed.per_source,
                both_ways,
                config.fixed.timeouts,
            ),
            config: Arc::clone(config),
            now: Instant::ZERO,
            is_reloaded: false,
            former: Former::new(capacity, config.fixed.timeouts[Progress::Closing as usize]),
            moved: 0,
            unremembered: 0,
        }
    }

    /// Whether packets come back this way.
    pub(super) fn is_dnat(&self) -> bool {
        self.config.fixed.mode == Mode::Dnat
    }

    /// Which end of a flow is ours.
    #[inline]
    pub(super) fn end(&self, flow: &Flow) -> End {
        let Flow { version, protocol, src, dst, .. } = *flow;
        let directory = &self.config.directory;
        if let Some(vip) = directory.find_vip(version, protocol, dst) {
            return End::Vip(vip);
        }
        if !self.is_dnat() {
            return End::Neither;
        }
        let removed = || self.is_reloaded.then(|| self.removed_backend(flow)).flatten();
        let backend = directory.find_backend(version, protocol, src).or_else(removed);
        backend.map_or(End::Neither, End::Backend)
    }

    /// The name that a backend had at the source of a flow, if one may have been there.
    #[cold]
    fn removed_backend(&self, flow: &Flow) -> Option<u64> {
        let Flow { version, protocol, src, .. } = *flow;
        let key = self.config.key.as_ref()?;
        let name = || hash::endpoint(version, protocol, src.address, src.port);
        key.is_service(address_of(version, src.address)).then(name)
    }

    /// Takes another directory. Connections keep their backends until their client's next packet.
    pub(super) fn reload(&mut self, config: &Arc<Config>) {
        self.config = Arc::clone(config);
        self.is_reloaded = true;
    }

    /// The look-up key of a flow's connection, if one of the flow's ends is ours.
    #[inline]
    pub(super) fn key(&self, flow: &Flow, end: &End) -> u32 {
        match *end {
            End::Vip(vip) => {
                let name = self.config.directory.vip(vip).name;
                self.connections.key(&Client::new(flow.version, flow.src), name)
            }
            End::Backend(name) => self.connections.key(&Client::new(flow.version, flow.dst), name),
            End::Neither => 0,
        }
    }

    /// The target that a client's packet goes to.
    pub(super) fn forward(&mut self, vip: usize, flow: &Flow, key: u32) -> Result<usize, Refusal> {
        let client = Client::new(flow.version, flow.src);
        let name = self.config.directory.vip(vip).name;
        if let Some(number) = self.connections.find(key, &client, name, self.now) {
            let progress = self.connections.progress(number);
            // The client's port again, for another connection.
            if progress != Progress::Closing || !flow.has(tcp::flags::SYN) {
                return self.remembered(number, vip, &client, flow);
            }
            self.connections.remove(number);
        }
        if let Some(key) = &self.config.key
            && key.is_service(address_of(flow.version, flow.src.address))
        {
            return Err(Refusal::Hairpin);
        }
        let (target, backend) = self.choose(vip, &client)?;
        if flow.has(tcp::flags::RST) {
            return Ok(target);
        }
        let (named, progress) = (Named { name, number: vip as u16 }, flow.next(None, true));
        match self.connections.create(client, named, backend, progress, self.now) {
            Err(Refusal::TableFull | Refusal::PerSource) if !self.is_dnat() => {
                self.unremembered += 1;
            }
            Err(refusal) => return Err(refusal),
            Ok(()) => {}
        }
        Ok(target)
    }

    /// The target of a connection that is remembered; another one where it lost its own.
    fn remembered(
        &mut self,
        number: u32,
        vip: usize,
        client: &Client,
        flow: &Flow,
    ) -> Result<usize, Refusal> {
        let backend = self.connections.backend(number);
        let hint = usize::from(backend.number);
        let target = match self.config.directory.kept_target(vip, backend.name, hint) {
            Some(target) => target,
            None => {
                let (target, backend) = self.choose(vip, client)?;
                let old = self.connections.backend(number).name;
                self.connections.hand_over(number, backend, self.now)?;
                let key = self.connections.key(client, old);
                self.former.insert(key, client, old, self.now);
                self.moved += 1;
                target
            }
        };
        if target != hint || vip != usize::from(self.connections.vip(number).number) {
            self.connections.note_numbers(number, vip, target);
        }
        self.used(number, flow, true);
        Ok(target)
    }

    /// The target of a new connection, and its name.
    fn choose(&self, vip: usize, client: &Client) -> Result<(usize, Named), Refusal> {
        let directory = &self.config.directory;
        let hash = client.hash(directory.vip(vip).name);
        let target = directory.choose(vip, hash).ok_or(Refusal::NoBackend)?;
        let name = directory.target(target).name;
        Ok((target, Named { name, number: target as u16 }))
    }

    /// The VIP that a backend's packet to a client is from; `None` where it is of no connection of
    /// ours. A packet of a connection that another backend has now is refused: its client would get
    /// it from the backend's own address.
    pub(super) fn back(
        &mut self,
        name: u64,
        flow: &Flow,
        key: u32,
    ) -> Result<Option<usize>, Refusal> {
        let client = Client::new(flow.version, flow.dst);
        let Some(number) = self.connections.find_back(key, &client, name, self.now) else {
            return match self.former.has(key, &client, name, self.now) {
                true => Err(Refusal::NoConnection),
                false => Ok(None),
            };
        };
        let Named { name, number: hint } = self.connections.vip(number);
        let vip = self.config.directory.vip_named(name, hint.into()).ok_or(Refusal::NoVip)?;
        self.used(number, flow, false);
        Ok(Some(vip))
    }

    fn used(&mut self, number: u32, flow: &Flow, from_client: bool) {
        if flow.tcp_flags.is_some() {
            let progress = flow.next(Some(self.connections.progress(number)), from_client);
            // If answers bypass the balancer, a client that continues after its SYN was answered.
            let goes_on = !self.is_dnat() && !flow.has(tcp::flags::SYN);
            self.connections.touch(number, progress, !from_client || goes_on, self.now);
        }
    }

    /// The target that a client's packets go to; an error makes and changes nothing.
    pub(super) fn known_target(&mut self, vip: usize, flow: &Flow) -> Result<usize, Refusal> {
        let client = Client::new(flow.version, flow.src);
        let directory = &self.config.directory;
        let name = directory.vip(vip).name;
        let key = self.connections.key(&client, name);
        let found = self.connections.find(key, &client, name, self.now);
        let target = found.and_then(|number| {
            let Named { name, number } = self.connections.backend(number);
            directory.kept_target(vip, name, number.into())
        });
        match target {
            Some(target) => Ok(target),
            None if self.is_dnat() => Err(Refusal::NoConnection),
            None => Ok(self.choose(vip, &client)?.0),
        }
    }
}
