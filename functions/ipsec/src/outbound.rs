//! The outcome of a packet at the second place, where the policies are asked about every packet
//! that leaves (RFC 4301, 5.1).
//!
//! No answer to an opened packet leaves in the clear: it quotes what ESP protected.

use warpline_packet::wire::{icmpv4, icmpv6, ip_protocol};
use warpline_packet::{Flags, Headers, LinkType, Packet, Reason};

use super::access::ASKED;
use super::reason;
use super::sa::Action;
use super::spd::Decision;
use super::tables::Tables;
use super::traffic::Traffic;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The SA of this row seals it.
    Seal(u16),
    /// It continues unchanged.
    Pass,
    /// The same, because a policy or the default bypasses it.
    Bypass,
    /// It is not IP, or cut inside its IP header.
    NotIp,
    Drop(Reason),
}

/// The outcome of `packet`. `bypasses`: packets that no policy is for go on.
#[inline(always)]
pub(super) fn fate(tables: &Tables, bypasses: bool, packet: Packet<'_>, was_opened: bool) -> Fate {
    let headers = packet.headers();
    let frame = packet.into_frame_for(ASKED);
    let decision = tables.decide_outbound(frame, &headers, was_opened);
    let Some(decision) = decision else { return Fate::NotIp };
    if headers.flags.has(Flags::ANSWER) {
        let cause = cause(frame, &headers);
        return fate_of_answer(tables, bypasses, decision, cause, was_opened);
    }
    match decision {
        Decision::Is(Action::Protect(_)) if headers.flags.has(Flags::SNAPPED) => {
            Fate::Drop(reason::SNAPPED)
        }
        // Its SA admitted an opened packet, so the default is not for it.
        Decision::None if was_opened => Fate::Pass,
        decision => by_policy(decision, bypasses),
    }
}

fn by_policy(decision: Decision, bypasses: bool) -> Fate {
    match decision {
        Decision::Is(Action::Protect(row)) => Fate::Seal(row as u16),
        Decision::Is(Action::Bypass) => Fate::Bypass,
        Decision::Is(Action::Discard) => Fate::Drop(reason::DISCARD),
        Decision::Uncertain => Fate::Drop(reason::FRAGMENT),
        Decision::None if bypasses => Fate::Bypass,
        Decision::None => Fate::Drop(reason::NO_POLICY),
    }
}

/// The fate of an answer to the packet that `cause` describes.
#[cold]
fn fate_of_answer(
    tables: &Tables,
    bypasses: bool,
    own: Decision,
    cause: Option<Traffic>,
    was_opened: bool,
) -> Fate {
    let by_own = by_policy(own, bypasses);
    let Some(cause) = cause else { return Fate::Drop(reason::NO_POLICY) };
    if was_opened {
        return match (by_own, tables.decide(&cause.reversed())) {
            (Fate::Seal(_) | Fate::Drop(reason::DISCARD), _) => by_own,
            // RFC 4301, 6.2: by "the SA that would carry the return traffic".
            (_, Decision::Is(Action::Protect(row))) => Fate::Seal(row as u16),
            _ => Fate::Drop(reason::NO_POLICY),
        };
    }
    match tables.decide(&cause) {
        // It was on its way out, so its sender is inside.
        Decision::Is(Action::Protect(_)) => Fate::Pass,
        Decision::Is(Action::Bypass) if own == Decision::None => Fate::Pass,
        _ => by_own,
    }
}

/// The packet that an answer is about: the one that an ICMP error quotes, else the reverse.
fn cause(frame: &[u8], headers: &Headers) -> Option<Traffic> {
    let end = (headers.end as usize).min(frame.len());
    let message = frame.get(usize::from(headers.l4)..end)?;
    let is_error = match (headers.protocol, message.first()) {
        (ip_protocol::ICMP, Some(&kind)) => icmpv4::message::is_error(kind),
        (ip_protocol::ICMPV6, Some(&kind)) => icmpv6::message::is_error(kind),
        _ => false,
    };
    if !is_error {
        return Traffic::of(frame, headers).map(|traffic| traffic.reversed());
    }
    let quote = message.get(icmpv4::HEADER_LEN..)?;
    // Most quotes end before their packet does.
    let quoted = Headers::parse(quote, LinkType::RAW, usize::from(u16::MAX));
    Traffic::of(quote, &quoted)
}
