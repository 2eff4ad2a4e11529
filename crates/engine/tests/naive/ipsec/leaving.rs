//! The second place of the naive gateway, from its manual and RFC 4301, 5.1 and 6.2: the policies
//! decide about every packet that leaves.

use super::sa::{Action, Port, Traffic};
use super::{Gateway, Policy};
use crate::function::Fate;
use crate::second::Mark;
use crate::wire::{Frame, ICMP, ICMPV6, View, link, view};

/// The decision of the policies about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Protect(usize),
    Bypass,
    Discard,
    /// A policy asks for what another fragment has.
    Hidden,
    None,
}

/// Where a packet goes.
enum Way {
    Sealed(usize),
    /// In the clear, as it came.
    Clear,
    /// The same, by a policy.
    Bypassed,
    Nowhere(&'static str),
}

impl Gateway {
    pub(super) fn leave(
        &mut self,
        frame: &mut Frame,
        found: &View,
        first: usize,
        back: &mut Vec<Frame>,
    ) -> Fate {
        let was_opened = frame.marks.remove(&first) == Some(Mark::Opened);
        let own = self.decision(&Traffic::of(frame, found));
        let way = match (frame.is_answer, own) {
            (true, _) => self.way_of_answer(frame, found, own, was_opened),
            (false, Decision::Protect(_)) if found.snapped => Way::Nowhere("snapped"),
            // Its SA admitted it.
            (false, Decision::None) if was_opened => Way::Clear,
            (false, _) => self.way(own),
        };
        // Later functions would show in the clear what came sealed.
        let shows = was_opened || matches!(way, Way::Sealed(_));
        match way {
            Way::Sealed(row) => {
                // No later place would seal an answer to an opened packet.
                frame.closed |= was_opened;
                self.send(frame, found, row, back)
            }
            Way::Nowhere(why) => Fate::Drop(why),
            Way::Clear | Way::Bypassed => {
                self.bypassed += u64::from(!was_opened || matches!(way, Way::Bypassed));
                frame.closed |= shows;
                Fate::Forward
            }
        }
    }

    /// The first policy that may match decides.
    fn decision(&self, traffic: &Traffic) -> Decision {
        let found = self.config.policies.iter().find(|own| own.selector.may_match(traffic));
        match found {
            None => Decision::None,
            Some(Policy { selector, .. }) if selector.asks_hidden(traffic) => Decision::Hidden,
            Some(Policy { action, .. }) => match *action {
                Action::Protect(row) => Decision::Protect(row),
                Action::Bypass => Decision::Bypass,
                Action::Discard => Decision::Discard,
            },
        }
    }

    fn way(&self, decision: Decision) -> Way {
        match decision {
            Decision::Protect(row) => Way::Sealed(row),
            Decision::Bypass => Way::Bypassed,
            Decision::Discard => Way::Nowhere("discard"),
            Decision::Hidden => Way::Nowhere("fragment"),
            Decision::None if self.config.bypasses => Way::Bypassed,
            Decision::None => Way::Nowhere("no-policy"),
        }
    }

    /// The way of an answer that a function between the places made.
    fn way_of_answer(&self, frame: &Frame, found: &View, own: Decision, was_opened: bool) -> Way {
        let Some(cause) = cause(frame, found) else { return Way::Nowhere("no-policy") };
        if was_opened {
            return match (own, self.decision(&cause.reversed())) {
                (Decision::Protect(_) | Decision::Discard, _) => self.way(own),
                // RFC 4301, 6.2: the SA for the return traffic.
                (_, Decision::Protect(row)) => Way::Sealed(row),
                _ => Way::Nowhere("no-policy"),
            };
        }
        match (self.decision(&cause), own) {
            // The sender of a packet that was about to be sealed is inside.
            (Decision::Protect(_), _) => Way::Clear,
            (Decision::Bypass, Decision::None) => Way::Clear,
            _ => self.way(own),
        }
    }
}

/// The packet that an answer is about: the one that an error quotes, or the reverse of the answer.
fn cause(frame: &Frame, found: &View) -> Option<Traffic> {
    let is_error = match (found.protocol, frame.bytes.get(found.l4)) {
        (ICMP, Some(kind)) => [3, 4, 5, 11, 12].contains(kind),
        (ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    };
    if !is_error {
        return Some(Traffic::of(frame, found).reversed());
    }
    let bytes = frame.bytes.get(found.l4 + 8..found.end)?.to_vec();
    // A quote may end before its packet does.
    let quote =
        Frame { wire_len: usize::from(u16::MAX), bytes, link: link::RAW, ..Frame::default() };
    let quoted = view(&quote);
    (quoted.version > 0).then(|| Traffic::of(&quote, &quoted))
}

impl Traffic {
    /// Of packets the other way. An ICMP message has the same type and code.
    fn reversed(&self) -> Self {
        let [one, other] = self.ports;
        let is_icmp = matches!(self.protocol, Some(ICMP | ICMPV6));
        let ports: [Port; 2] = if is_icmp { [one, other] } else { [other, one] };
        Self { src: self.dst, dst: self.src, protocol: self.protocol, ports }
    }
}
