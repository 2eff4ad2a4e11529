//! The errors that a router sends back: the half of its state that works after `run`.

use warpline_packet::wire::icmp_error::{Icmpv4Error, Icmpv6Error};
use warpline_packet::{Batch, Reason};

use super::fib::reason;
use crate::icmp_errors::{Errors, Problem};
use crate::{After, Emit};

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
pub(super) struct Answers(pub(super) Errors);

impl After for Answers {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            let packet = batch.packet(usize::from(index));
            if packet.is_flagged() {
                self.0.answer(&packet, problem(packet.reason()), emit);
            }
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(visit);
    }
}
