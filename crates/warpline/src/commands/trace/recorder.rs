//! Records the way of chosen packets while a chain runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_engine::{Chain, Control, Exits, Observer};
use warpline_native::packet_filter::PacketFilter;
use warpline_packet::{Batch, BatchKind, Instant, Packet, Verdict};

use super::snapshot::Snapshot;

/// Which packets are traced.
pub(super) enum Chosen {
    /// Those with these numbers.
    Numbers(BTreeSet<u64>),
    /// The first ones that match.
    Matches { filter: PacketFilter, most: usize },
}

/// A packet of the input.
pub(super) struct Traced {
    /// Its number in the input, from 1.
    pub(super) number: u64,
    pub(super) captured: Instant,
    /// The port at which it came.
    pub(super) port: u16,
    /// Its own way, then those of packets that functions made of it.
    pub(super) ways: Vec<Way>,
}

/// A packet's way through the chain.
pub(super) struct Way {
    /// The position of the function that made it.
    pub(super) maker: Option<usize>,
    /// The packet as it began.
    pub(super) start: Snapshot,
    pub(super) hops: Vec<Hop>,
    /// Its state after the last function so far.
    pub(super) state: State,
    /// The port by which it was sent, or why it was dropped at the end of the chain.
    pub(super) exit: Option<Result<u16, &'static str>>,
}

/// A function's turn.
pub(super) struct Hop {
    pub(super) position: usize,
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    pub(super) state: State,
}

/// A packet's state between functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) verdict: Verdict,
    /// The number of the drop reason, or of the header that lies.
    pub(super) reason: u8,
    /// The position of the function that decided.
    pub(super) by: u8,
    pub(super) next_hop: u16,
}

impl State {
    fn of(packet: &Packet<'_>) -> Self {
        let (verdict, reason) = (packet.verdict(), packet.reason().0);
        Self { verdict, reason, by: packet.settled_by(), next_hop: packet.next_hop() }
    }
}

/// See the module.
pub(super) struct Recorder {
    chosen: Chosen,
    /// The position of the chain's last function.
    last: usize,
    exits: Exits,
    control: Arc<Control>,
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    /// Packets that came to the first function.
    came: u64,
    packets: Vec<Traced>,
    /// The places of packets that are on their way, by the engine's numbers.
    on_way: HashMap<u64, usize>,
}

impl Recorder {
    /// For `chain`, which `control` stops after the last packet.
    pub(super) fn new(chosen: Chosen, chain: &Chain, control: Arc<Control>) -> Self {
        let last = chain.instances.len().saturating_sub(1);
        let (exits, recorded) = (Exits::of(chain), Mutex::default());
        Self { chosen, last, exits, control, recorded }
    }

    /// The packets of the input that there were, and those that were traced.
    pub(super) fn take(&self) -> (u64, Vec<Traced>) {
        let mut recorded = self.recorded();
        (recorded.came, std::mem::take(&mut recorded.packets))
    }

    /// Whether the packet of this number is traced.
    pub(super) fn has(&self, number: u64) -> bool {
        self.recorded().packets.iter().any(|traced| traced.number == number)
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no others are chosen.
    fn has_all(&self, recorded: &Recorded) -> bool {
        match &self.chosen {
            Chosen::Numbers(all) => recorded.packets.len() == all.len(),
            Chosen::Matches { most, .. } => recorded.packets.len() == *most,
        }
    }

    /// Chooses among packets that come to the first function.
    fn choose(&self, recorded: &mut Recorded, batch: &Batch) {
        for row in 0..batch.len() {
            recorded.came += 1;
            if self.has_all(recorded) {
                continue;
            }
            let packet = batch.packet(row);
            let is_chosen = match &self.chosen {
                Chosen::Numbers(all) => all.contains(&recorded.came),
                Chosen::Matches { filter, .. } => {
                    let wire_len = packet.wire_len() as u32;
                    filter.matches(packet.frame(), packet.link().0, wire_len)
                }
            };
            if is_chosen {
                recorded.on_way.insert(packet.ingress(), recorded.packets.len());
                recorded.packets.push(Traced {
                    number: recorded.came,
                    captured: packet.captured(),
                    port: packet.interface(),
                    ways: vec![Way::of(&packet, None)],
                });
            }
        }
    }
}

impl Way {
    fn of(packet: &Packet<'_>, maker: Option<usize>) -> Self {
        let start = Snapshot::of(packet);
        Self { maker, start, hops: Vec::new(), state: State::of(packet), exit: None }
    }

    /// The packet as it was after its last function.
    pub(super) fn end(&self) -> &Snapshot {
        self.hops.last().map_or(&self.start, |hop| &hop.after)
    }
}

impl Recorded {
    /// Calls `see` with each packet on its way that is in `batch`: its place, and that of its way.
    fn each(&mut self, batch: &Batch, mut see: impl FnMut(&mut Traced, usize, &Packet<'_>)) {
        if self.on_way.is_empty() {
            return;
        }
        let mut ways: HashMap<usize, usize> = HashMap::new();
        for row in 0..batch.len() {
            let packet = batch.packet(row);
            let Some(&place) = self.on_way.get(&packet.ingress()) else { continue };
            let way = ways.entry(place).or_default();
            see(&mut self.packets[place], *way, &packet);
            *way += 1;
        }
    }
}

impl Observer for Recorder {
    fn enters(&self, position: usize, batch: &Batch) {
        if batch.kind() != BatchKind::Packets {
            return;
        }
        let mut recorded = self.recorded();
        if position == 0 {
            self.choose(&mut recorded, batch);
        }
        recorded.each(batch, |traced, way, packet| {
            if packet.verdict() == Verdict::Forward {
                let (before, state) = (Snapshot::of(packet), State::of(packet));
                let after = before.clone();
                traced.ways[way].hops.push(Hop { position, before, after, state });
            }
        });
    }

    fn leaves(&self, position: usize, batch: &Batch) {
        if batch.kind() != BatchKind::Packets {
            return;
        }
        let mut recorded = self.recorded();
        recorded.each(batch, |traced, way, packet| {
            if way == traced.ways.len() {
                traced.ways.push(Way::of(packet, Some(position)));
            }
            let way = &mut traced.ways[way];
            if position == self.last && packet.verdict().is_sent() {
                way.exit = self.exits.exit(*packet);
            }
            way.state = State::of(packet);
            if let Some(hop) = way.hops.last_mut().filter(|hop| hop.position == position) {
                (hop.after, hop.state) = (Snapshot::of(packet), way.state);
            }
        });
        if position == self.last {
            let over: Vec<u64> = (0..batch.len()).map(|row| batch.packet(row).ingress()).collect();
            over.iter().for_each(|number| _ = recorded.on_way.remove(number));
            if self.has_all(&recorded) && recorded.on_way.is_empty() {
                self.control.stop();
            }
        }
    }
}
