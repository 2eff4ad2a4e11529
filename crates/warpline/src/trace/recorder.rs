//! Records the way of chosen packets while a chain runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpline_engine::{Chain, Control, Exits, Observer};
use warpline_native::packet_filter::PacketFilter;
use warpline_packet::{Batch, BatchKind, Instant, Packet, Verdict};

use super::snapshot::Snapshot;

/// Which packets are traced.
pub(crate) enum Chosen {
    /// Those with these numbers.
    Numbers(BTreeSet<u64>),
    /// The first ones that match.
    Matches { filter: Arc<PacketFilter>, most: usize },
}

/// A packet of the input.
pub(crate) struct Traced {
    /// Its number among those that came, from 1.
    pub(crate) number: u64,
    pub(crate) captured: Instant,
    /// The port at which it came.
    pub(crate) port: u16,
    /// Its own way, then those of packets that functions made of it.
    pub(crate) ways: Vec<Way>,
    /// Whether it and they have left the chain.
    pub(crate) is_over: bool,
}

/// A packet's way through the chain.
pub(crate) struct Way {
    /// The position of the function that made it.
    pub(crate) maker: Option<usize>,
    /// The packet as it began.
    pub(crate) start: Arc<Snapshot>,
    pub(crate) hops: Vec<Hop>,
    /// Its state after the last function so far.
    pub(crate) state: State,
    /// The port by which it was sent, or why it was dropped at the end of the chain.
    pub(crate) exit: Option<Result<u16, &'static str>>,
}

/// A function's turn.
pub(crate) struct Hop {
    pub(crate) position: usize,
    pub(crate) before: Arc<Snapshot>,
    pub(crate) after: Arc<Snapshot>,
    pub(crate) state: State,
}

/// A packet's state between functions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) verdict: Verdict,
    /// The number of the drop reason, or of the header that lies.
    pub(crate) reason: u8,
    /// The position of the function that decided.
    pub(crate) by: u8,
    pub(crate) next_hop: u16,
}

impl State {
    fn of(packet: &Packet<'_>) -> Self {
        let (verdict, reason) = (packet.verdict(), packet.reason().0);
        Self { verdict, reason, by: packet.settled_by(), next_hop: packet.next_hop() }
    }
}

/// See the module.
pub(crate) struct Recorder {
    chosen: Chosen,
    /// The position of the chain's last function.
    last: usize,
    exits: Exits,
    /// Stops the chain after the last packet; none of a chain that runs on.
    control: Option<Arc<Control>>,
    /// Packets that came to the first function.
    came: AtomicU64,
    /// Whether no others are chosen.
    has_all: AtomicBool,
    /// Chosen packets that have not left the chain.
    on_way: AtomicUsize,
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    packets: Vec<Traced>,
    /// The places of packets that are on their way, by lane and number.
    on_way: HashMap<(usize, u64), usize>,
}

impl Recorder {
    /// For `chain`, which `control` stops after the last packet.
    pub(crate) fn new(chosen: Chosen, chain: &Chain, control: Option<Arc<Control>>) -> Self {
        Self {
            chosen,
            last: chain.instances.len().saturating_sub(1),
            exits: Exits::of(chain),
            control,
            came: AtomicU64::new(0),
            has_all: AtomicBool::new(false),
            on_way: AtomicUsize::new(0),
            recorded: Mutex::default(),
        }
    }

    /// The packets that came, and those that were traced. It is over then, though lanes may call
    /// it for a moment more.
    pub(crate) fn take(&self) -> (u64, Vec<Traced>) {
        let mut recorded = self.recorded();
        self.has_all.store(true, Ordering::Release);
        self.on_way.store(0, Ordering::Release);
        let Recorded { packets, .. } = std::mem::take(&mut *recorded);
        (self.came.load(Ordering::Relaxed), packets)
    }

    /// Whether the packet of this number is traced.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.recorded().packets.iter().any(|traced| traced.number == number)
    }

    /// Whether all chosen packets came and left.
    pub(crate) fn is_done(&self) -> bool {
        self.has_all.load(Ordering::Acquire) && self.on_way.load(Ordering::Acquire) == 0
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses among packets that come to the first function.
    fn choose(&self, lane: usize, batch: &Batch) {
        let before = self.came.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if self.has_all.load(Ordering::Acquire) {
            return;
        }
        let number = |row: usize| before + row as u64 + 1;
        let chosen: Vec<usize> = match &self.chosen {
            Chosen::Numbers(all) => {
                (0..batch.len()).filter(|row| all.contains(&number(*row))).collect()
            }
            Chosen::Matches { filter, .. } => {
                let mut filter = filter.matcher();
                let mut matches = |row: &usize| {
                    let packet = batch.packet(*row);
                    filter.matches(packet.frame(), packet.link().0, packet.wire_len() as u32)
                };
                (0..batch.len()).filter(&mut matches).collect()
            }
        };
        if chosen.is_empty() {
            return;
        }
        let most = match &self.chosen {
            Chosen::Numbers(all) => all.len(),
            Chosen::Matches { most, .. } => *most,
        };
        let mut recorded = self.recorded();
        // It may be over meanwhile.
        if self.has_all.load(Ordering::Acquire) {
            return;
        }
        for row in chosen.into_iter().take(most - recorded.packets.len()) {
            let packet = batch.packet(row);
            let place = recorded.packets.len();
            recorded.on_way.insert((lane, packet.ingress()), place);
            recorded.packets.push(Traced {
                number: number(row),
                captured: packet.captured(),
                port: packet.interface(),
                ways: vec![Way::of(&packet, None)],
                is_over: false,
            });
        }
        self.on_way.store(recorded.on_way.len(), Ordering::Release);
        if recorded.packets.len() == most {
            self.has_all.store(true, Ordering::Release);
        }
    }
}

impl Way {
    fn of(packet: &Packet<'_>, maker: Option<usize>) -> Self {
        let start = Arc::new(Snapshot::of(packet));
        Self { maker, start, hops: Vec::new(), state: State::of(packet), exit: None }
    }

    /// The packet as it was after its last function.
    pub(crate) fn end(&self) -> &Arc<Snapshot> {
        self.hops.last().map_or(&self.start, |hop| &hop.after)
    }

    /// The packet as it is. An unchanged frame is kept once.
    fn now(&self, packet: &Packet<'_>) -> Arc<Snapshot> {
        let now = Snapshot::of(packet);
        if **self.end() == now { Arc::clone(self.end()) } else { Arc::new(now) }
    }
}

impl Recorded {
    /// Calls `see` with each packet on its way that is in `batch`: its place, and that of its way.
    fn each(
        &mut self,
        lane: usize,
        batch: &Batch,
        mut see: impl FnMut(&mut Traced, usize, &Packet<'_>),
    ) {
        let mut ways: HashMap<usize, usize> = HashMap::new();
        for row in 0..batch.len() {
            let packet = batch.packet(row);
            let Some(&place) = self.on_way.get(&(lane, packet.ingress())) else { continue };
            let way = ways.entry(place).or_default();
            see(&mut self.packets[place], *way, &packet);
            *way += 1;
        }
    }

    /// The packets of `batch` have left the chain.
    fn end(&mut self, lane: usize, batch: &Batch) {
        for row in 0..batch.len() {
            if let Some(place) = self.on_way.remove(&(lane, batch.packet(row).ingress())) {
                self.packets[place].is_over = true;
            }
        }
    }
}

impl Observer for Recorder {
    fn enters(&self, lane: usize, position: usize, batch: &Batch) {
        if batch.kind() != BatchKind::Packets {
            return;
        }
        if position == 0 {
            self.choose(lane, batch);
        }
        if self.on_way.load(Ordering::Acquire) == 0 {
            return;
        }
        self.recorded().each(lane, batch, |traced, way, packet| {
            // A packet that was made in a turn that a trace did not see has no way.
            let Some(way) = traced.ways.get_mut(way) else { return };
            if packet.verdict() == Verdict::Forward {
                let (before, state) = (way.now(packet), State::of(packet));
                let after = Arc::clone(&before);
                way.hops.push(Hop { position, before, after, state });
            }
        });
    }

    fn leaves(&self, lane: usize, position: usize, batch: &Batch) {
        if batch.kind() != BatchKind::Packets {
            return;
        }
        if self.on_way.load(Ordering::Acquire) > 0 {
            let mut recorded = self.recorded();
            let see = |traced: &mut Traced, way: usize, packet: &Packet<'_>| {
                self.leave(traced, way, packet, position);
            };
            recorded.each(lane, batch, see);
            if position == self.last {
                recorded.end(lane, batch);
                self.on_way.store(recorded.on_way.len(), Ordering::Release);
            }
        }
        if position == self.last && self.is_done() {
            self.control.iter().for_each(|control| control.stop());
        }
    }
}

impl Recorder {
    /// A turn of a packet is over.
    fn leave(&self, traced: &mut Traced, way: usize, packet: &Packet<'_>, position: usize) {
        if way == traced.ways.len() {
            traced.ways.push(Way::of(packet, Some(position)));
        }
        let Some(way) = traced.ways.get_mut(way) else { return };
        if position == self.last && packet.verdict().is_sent() {
            way.exit = self.exits.exit(*packet);
        }
        way.state = State::of(packet);
        let (now, state) = (way.now(packet), way.state);
        if let Some(hop) = way.hops.last_mut().filter(|hop| hop.position == position) {
            (hop.after, hop.state) = (now, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpline_packet::{Arena, ArenaLayout, Arrival, HeapMemory, LinkType};

    use super::*;

    const LAYOUT: ArenaLayout = ArenaLayout {
        slabs: 1,
        emit_slabs: 0,
        tables: 1,
        slots: 8,
        scratch_words: 2,
        headroom: 64,
        tailroom: 32,
    };

    fn recorder(numbers: impl IntoIterator<Item = u64>) -> Recorder {
        let chain = Chain::new("none", Vec::new(), 0).expect("a chain");
        Recorder::new(Chosen::Numbers(numbers.into_iter().collect()), &chain, None)
    }

    /// Calls `see` with a batch of one packet.
    fn with_batch(see: impl FnOnce(&Batch)) {
        let memory = HeapMemory::new(LAYOUT.memory_len()).expect("memory");
        let mut arena = Arena::new(Box::new(memory), &LAYOUT).expect("an arena");
        let mut batch = Batch::new(arena.tables.remove(0));
        let arrival = Arrival {
            timestamp: Instant::from_nanos(7),
            captured: Instant::from_nanos(8),
            ingress: 9,
            wire_len: 60,
            link: LinkType::ETHERNET,
            interface: 3,
            shard: 4,
            flow_hash: 5,
        };
        let headers = warpline_packet::Headers::parse(&[0; 60], LinkType::ETHERNET, 60);
        batch.push(&[0; 60], &headers, &arrival, &mut arena.ingress).expect("room");
        see(&batch);
    }

    #[test]
    fn lanes_may_call_when_it_is_over() {
        with_batch(|batch| {
            let recorder = recorder([1, 2]);
            recorder.enters(0, 0, batch);
            let (came, packets) = recorder.take();
            assert_eq!((came, packets.len(), packets[0].is_over), (1, 1, false));
            recorder.leaves(0, 0, batch);
            recorder.enters(0, 0, batch);
            assert!(recorder.is_done() && recorder.take().1.is_empty());
        });
    }

    #[test]
    fn lanes_number_their_packets_apart() {
        with_batch(|batch| {
            let recorder = recorder([1, 2]);
            [0, 1].iter().for_each(|&lane| recorder.enters(lane, 0, batch));
            recorder.leaves(1, 0, batch);
            assert!(!recorder.is_done());
            let over: Vec<bool> = recorder.take().1.iter().map(|packet| packet.is_over).collect();
            assert_eq!(over, [false, true]);
        });
    }
}
