//! Fragments: the first one of a packet is like a whole packet, and the others follow it.

use warpline_packet::wire::ip_protocol;
use warpline_packet::{Flags, PacketMut};

use super::Refusal;
use super::flow::Flow;
use super::shard::{BalancerShard, Change};
use warpline_rewrite::Endpoint;
use warpline_rewrite::translate::{Action, Rewrite};

impl BalancerShard {
    #[cold]
    #[inline(never)]
    pub(super) fn fragment(&mut self, packet: &mut PacketMut<'_>) -> Result<(), Refusal> {
        let (src, dst) = packet.addresses();
        let is_near = self.is_near(packet.version(), src, dst);
        if packet.has(Flags::LATER_FRAGMENT) {
            return self.later(packet, is_near);
        }
        let done = self.first(packet);
        match done {
            Ok(change) if is_near || change.is_some() => {
                self.fragments.remember(packet, change, self.balance.now);
            }
            _ => self.fragments.forget(packet),
        }
        done.map(|_| ())
    }

    /// The change of a first fragment.
    fn first(&mut self, packet: &mut PacketMut<'_>) -> Result<Option<Change>, Refusal> {
        let step = match Flow::shown(packet) {
            Some(flow) => {
                let end = self.balance.end(&flow);
                let key = self.balance.key(&flow, &end);
                self.flow(&flow, &end, key)?
            }
            None => self.other(packet)?,
        };
        let change = step.as_ref().map(|step| self.change(step));
        if let (Some(step), Some(change)) = (&step, &change) {
            self.prepare(packet, change)?;
            self.counts.add(step);
        }
        Ok(change)
    }

    fn later(&mut self, packet: &mut PacketMut<'_>, is_near: bool) -> Result<(), Refusal> {
        match self.fragments.find(packet, self.balance.now) {
            Some(Some(change)) => self.follow(packet, change),
            None if is_near && may_be_balanced(packet) => Err(Refusal::Fragment),
            Some(None) | None => self.pass().map(|_| ()),
        }
    }

    /// A later fragment goes where the first one went, which had `change`.
    fn follow(&mut self, packet: &mut PacketMut<'_>, change: Change) -> Result<(), Refusal> {
        let (change, is_to_client) = without_ports(change);
        self.prepare(packet, &change)?;
        match is_to_client {
            true => self.counts.to_clients += 1,
            false => self.counts.to_backends += 1,
        }
        Ok(())
    }
}

/// The change of a packet without ports, and whether it goes to a client.
fn without_ports(change: Change) -> (Change, bool) {
    let Change::Rewrite(Rewrite { action, to }) = change else { return (change, false) };
    let is_to_client = matches!(action, Action::Source | Action::ErrorOut);
    let action = if is_to_client { Action::SourceAddress } else { Action::DestinationAddress };
    let to = Endpoint { port: 0, ..to };
    (Change::Rewrite(Rewrite { action, to }), is_to_client)
}

/// Whether a later fragment may be of a packet that has ports, or is an error about one. In IPv6
/// a further header may hide them.
fn may_be_balanced(packet: &PacketMut<'_>) -> bool {
    match (packet.protocol(), packet.version()) {
        (ip_protocol::TCP | ip_protocol::UDP, _) => true,
        (protocol, 4) => protocol == ip_protocol::ICMP,
        (protocol, _) => protocol == ip_protocol::ICMPV6 || ip_protocol::is_extension(protocol),
    }
}
