//! How packets use their binding: how long they keep it, and which segments of TCP may pass.

use super::super::Refusal;
use super::super::binding::Class;
use super::super::config::Dependence;
use super::super::content::Flow;
use super::super::remotes::{Followed, PacketDirection, SegmentTimes, Sent};
use super::NatShard;
use warpline_rewrite::{Endpoint, Protocol};
use warpline_tables::tcp::PickUp;

/// The way of a packet through its binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Out by a binding that inside hosts open.
    Out,
    /// In by such a binding.
    In,
    /// Out by the connection to a forwarded port.
    Answer,
    /// In by the connection to a forwarded port.
    Forward,
}

impl Use {
    fn way(self) -> PacketDirection {
        match self {
            Self::Out | Self::Answer => PacketDirection::Out,
            Self::In | Self::Forward => PacketDirection::In,
        }
    }

    /// Which segments begin a conversation that is not known. No packet from outside keeps a
    /// binding before the inside host sends.
    fn pick_up(self) -> Option<PickUp> {
        match self {
            Self::Out | Self::Answer => Some(PickUp::OneSided),
            Self::In => None,
            Self::Forward => Some(PickUp::FromAck),
        }
    }

    /// Whether it answers the packet that opened the binding.
    fn answers(self) -> bool {
        matches!(self, Self::In | Self::Answer)
    }
}

impl NatShard {
    /// A packet uses its binding. RFC 4787, REQ-6: "The NAT mapping Refresh Direction MUST have a
    /// "NAT Outbound refresh behavior" of "True"".
    #[inline(always)]
    pub(super) fn uses(
        &mut self,
        number: u32,
        flow: &Flow<'_>,
        remote: Endpoint,
        by: Use,
    ) -> Result<(), Refusal> {
        if flow.segment.is_some() {
            return self.follow(number, flow, remote, by);
        }
        let is_first = by.answers() && self.bindings.answer(number);
        // The first answer begins the time of answered UDP, whichever way it goes.
        let outlasts = is_first && self.bindings.get(number).class == Class::UdpOpening;
        if by != Use::In || outlasts || self.config.inbound_refresh {
            self.keep(number, flow.protocol, remote);
        }
        Ok(())
    }

    /// The same of the connection to a forwarded port, out of the way of usual packets.
    #[inline(never)]
    pub(super) fn uses_forwarded(
        &mut self,
        number: u32,
        flow: &Flow<'_>,
        remote: Endpoint,
        by: Use,
    ) -> Result<(), Refusal> {
        self.uses(number, flow, remote, by)
    }

    #[inline]
    fn keep(&mut self, number: u32, protocol: Protocol, remote: Endpoint) {
        let class = match protocol {
            Protocol::Udp => self.bindings.get(number).udp_class(remote.port),
            Protocol::Other => self.bindings.get(number).class,
            _ => Class::Icmp,
        };
        let port = match self.config.filtering {
            Dependence::AddressAndPortDependent => remote.port,
            _ => 0,
        };
        if self.config.filtering != Dependence::EndpointIndependent {
            let (now, expiry) = (self.bindings.now().as_nanos(), self.bindings.expiry(class));
            let remote = Endpoint { port, ..remote };
            if !self.bindings.keeps_first(number, remote, now, expiry) {
                self.bindings.remotes(number).remember(remote, now, expiry);
            }
        }
        self.bindings.refresh(number, class);
    }

    /// A segment that is refused leaves the binding as it was.
    #[inline(never)]
    fn follow(
        &mut self,
        number: u32,
        flow: &Flow<'_>,
        remote: Endpoint,
        by: Use,
    ) -> Result<(), Refusal> {
        let Some(segment) = &flow.segment else { return Ok(()) };
        let times = SegmentTimes {
            now: self.bindings.now().as_nanos(),
            established: self.bindings.expiry(Class::Established),
            transitory: self.bindings.expiry(Class::Transitory),
        };
        let (way, pick_up) = (by.way(), by.pick_up());
        let sent = Sent { remote, segment, way, pick_up, policy: self.config.tcp };
        let class = match self.bindings.remotes(number).follow(&sent, times) {
            Followed::Used { is_established: true } => Some(Class::Established),
            Followed::Used { is_established: false } => Some(Class::Transitory),
            Followed::Passed => None,
            Followed::Unexpected => return Err(Refusal::Invalid),
            Followed::OutOfWindow => {
                self.counts.out_of_window += 1;
                return Err(Refusal::Invalid);
            }
        };
        if by.answers() {
            self.bindings.answer(number);
        }
        class.into_iter().for_each(|class| self.bindings.refresh(number, class));
        Ok(())
    }
}
