//! The errors that a router sends back: the half of its state that works after `run`.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use warpline_packet::wire::icmp_error::{Icmpv4Error, Icmpv6Error};
use warpline_packet::{Batch, Packet, Reason};

use super::Router;
use super::checks::Checks;
use super::fib::{Fib, is_forbidden, reason};
use warpline_nf::{After, Emit, Function, StateHalf};
use warpline_rewrite::icmp_errors::{Errors, Problem};

/// Whether packets that are dropped for `reason` are answered.
pub(super) fn is_answered(reason: Reason) -> bool {
    problem(reason).is_some()
}

fn problem(reason: Reason) -> Option<Problem> {
    let (v4, v6) = match reason {
        reason::NO_ROUTE => (Icmpv4Error::NetUnreachable, Icmpv6Error::NoRoute),
        reason::TTL_EXCEEDED => (Icmpv4Error::TtlExceeded, Icmpv6Error::HopLimitExceeded),
        // RFC 1812, 5.2.7.1: a next hop that is not reachable.
        reason::UNREACHABLE | reason::NO_NEIGHBOUR => {
            (Icmpv4Error::HostUnreachable, Icmpv6Error::AddressUnreachable)
        }
        reason::PROHIBITED => (Icmpv4Error::AdminProhibited, Icmpv6Error::AdminProhibited),
        _ => return None,
    };
    Some(Problem { v4, v6 })
}

/// One shard's answers.
pub(super) struct Answers {
    errors: Errors,
    /// Addresses that mean every host of a connected prefix.
    broadcasts: Arc<[u32]>,
}

impl Answers {
    pub(super) fn new(errors: Errors, fib: &Fib) -> Self {
        Self { errors, broadcasts: Arc::clone(&fib.broadcasts) }
    }

    /// RFC 1812, 4.3.2.7: none is sent about a packet that is no valid one, or to or from many.
    /// Packets that the chain file lets through are no exception.
    fn is_answerable(&self, packet: &Packet<'_>) -> bool {
        let is_broadcast = |address: u32| self.broadcasts.binary_search(&address).is_ok();
        let is_to_many = packet.version() == 4
            && (is_broadcast(packet.src_v4()) || is_broadcast(packet.dst_v4()));
        let dst = match packet.version() {
            4 => IpAddr::from(packet.dst_v4().to_be_bytes()),
            _ => IpAddr::from(packet.dst_v6().to_be_bytes()),
        };
        !is_to_many && !is_forbidden(dst) && Checks::EVERY.objection(packet).is_none()
    }
}

impl After for Answers {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            let packet = batch.packet(usize::from(index));
            if packet.is_flagged() {
                let problem = problem(packet.reason()).filter(|_| self.is_answerable(&packet));
                self.errors.answer(&packet, problem, emit);
            }
        }
    }
}

impl StateHalf for Answers {
    fn reload(&mut self, function: &dyn Function) {
        if let Some(router) = (function as &dyn Any).downcast_ref::<Router>() {
            self.broadcasts = Arc::clone(&router.fib.broadcasts);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.errors.counters(visit);
    }
}
