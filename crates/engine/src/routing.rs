//! Packets on the routes of their chain ([`warpline_sched::Routes`]).

use std::sync::Arc;

use warpline_packet::{Batch, Hop, Packet, REASONS_MAX, Reason};
use warpline_sched::{Destination, RouteTo, Routes};

use crate::{Chain, Place};

/// The reason that no function names: the packet had no route on.
pub const NO_CHAIN_ROUTE: Reason = Reason(REASONS_MAX as u8 - 2);
/// Its name.
pub const NO_CHAIN_ROUTE_NAME: &str = "no-chain-route";

/// The routes of a chain, applied to batches.
#[derive(Clone)]
pub(crate) struct Routing {
    routes: Arc<Routes>,
    /// By function, whether answers pass it.
    takes_answers: Arc<[bool]>,
}

impl Routing {
    pub(crate) fn of(chain: &Chain) -> Option<Self> {
        let takes_answers = chain.instances.iter().map(|one| one.place == Place::Second);
        let routes = Arc::clone(chain.routes()?);
        Some(Self { routes, takes_answers: takes_answers.collect() })
    }

    /// Sends packets from ingress on their way. Returns how many have none.
    pub(crate) fn enter(&self, batch: &mut Batch) -> u64 {
        let hop = |packet: &Packet<'_>, _| {
            let entry = self.routes.ingress(packet.interface()).find(destination(packet));
            (hop_to(entry.to), entry.step)
        };
        u64::from(batch.route(None, NO_CHAIN_ROUTE, hop))
    }

    /// Sends packets on from function `position`, made ones among them. Returns how many have no
    /// route.
    pub(crate) fn leave(&self, position: u8, batch: &mut Batch) -> u64 {
        let exit = self.routes.exit(position);
        if exit.is_none() && !batch.has_answers() {
            return 0;
        }
        let hop = |packet: &Packet<'_>, is_answer| {
            let destination = destination(packet);
            let (mut at, mut path) = (position, 0);
            loop {
                let (to, step) = self.next(at, destination);
                path += step;
                match hop_to(to) {
                    // Answers skip all functions on their way except second places.
                    Hop::Function(next) if is_answer && !self.takes_answers[usize::from(next)] => {
                        at = next;
                    }
                    hop => return (hop, path),
                }
            }
        };
        u64::from(batch.route(Some(position), NO_CHAIN_ROUTE, hop))
    }

    /// Whether packets go different ways from function `position`, so that the lane looks at their
    /// destinations.
    pub(crate) fn parts(&self, position: u8) -> bool {
        self.routes.exit(position).is_some()
    }

    fn next(&self, position: u8, destination: Destination) -> (Option<RouteTo>, u32) {
        match self.routes.exit(position) {
            Some(exit) => {
                let entry = exit.find(destination);
                (entry.to, entry.step)
            }
            None => {
                let next = position + 1;
                let is_last = usize::from(next) >= self.takes_answers.len();
                (Some(if is_last { RouteTo::Egress } else { RouteTo::Function(next) }), 0)
            }
        }
    }

    /// The number of a path that begins at function `position`.
    pub(crate) fn start(&self, position: u8) -> u32 {
        self.routes.start(position)
    }

    /// Counters for all paths.
    pub(crate) fn counters(&self) -> Vec<u64> {
        vec![0; self.routes.paths()]
    }
}

fn hop_to(to: Option<RouteTo>) -> Hop {
    match to {
        Some(RouteTo::Function(next)) => Hop::Function(next),
        Some(RouteTo::Egress) => Hop::Egress,
        None => Hop::None,
    }
}

#[inline]
fn destination(packet: &Packet<'_>) -> Destination {
    match packet.version() {
        4 => Destination::V4(packet.dst_v4()),
        6 => Destination::V6(packet.dst_v6()),
        _ => Destination::None,
    }
}
