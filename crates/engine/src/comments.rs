//! Comments for sinks that show dropped packets. They are built once per run, so that nothing is
//! formatted per packet.

use warpline_launch::DEVICE_LOST;
use warpline_packet::{Malformed, Packet, Verdict};

use crate::Chain;
use crate::routing::NO_CHAIN_ROUTE;

/// The comments of a chain.
pub(crate) struct Comments {
    /// By instance.
    functions: Vec<FunctionComments>,
}

struct FunctionComments {
    /// By the place of the reason in the function's list.
    dropped: Vec<String>,
    /// By the number of the lie.
    rejected: Vec<String>,
}

impl Comments {
    pub(crate) fn new(chain: &Chain) -> Self {
        let functions = chain.instances.iter().map(|instance| {
            let name = &instance.name;
            let reasons = instance.definition.drops.iter();
            let lies = (0..=Malformed::ALL.len())
                .map(|number| Malformed::from_u8(number as u8).map_or("header", Malformed::name));
            FunctionComments {
                dropped: reasons.map(|reason| format!("dropped by {name}: {reason}")).collect(),
                rejected: lies.map(|lie| format!("rejected by {name}: malformed: {lie}")).collect(),
            }
        });
        Self { functions: functions.collect() }
    }

    /// Why `packet` is not sent; nothing where it is, or went into another.
    pub(crate) fn of(&self, packet: Packet<'_>) -> Option<&str> {
        let function = self.functions.get(usize::from(packet.settled_by()));
        let reason = usize::from(packet.reason().0);
        match packet.verdict() {
            Verdict::Forward | Verdict::Bypass | Verdict::Return | Verdict::Absorbed => None,
            Verdict::Dropped => {
                if packet.reason() == DEVICE_LOST {
                    return Some("lost with a device");
                }
                if packet.reason() == NO_CHAIN_ROUTE {
                    return Some("dropped: no route in the chain");
                }
                let comment = function.and_then(|function| function.dropped.get(reason));
                Some(comment.map_or("dropped", String::as_str))
            }
            Verdict::Malformed => {
                let comment = function.and_then(|function| function.rejected.get(reason));
                Some(comment.map_or("rejected: malformed", String::as_str))
            }
            Verdict::Overload => Some("lost: no room"),
        }
    }
}
