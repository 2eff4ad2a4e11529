//! A function with a small table that both directions of a flow share: binds a port to each flow.

use core::time::Duration;

use warpline_nf::{Before, Emit, Function, State, StateHalf};
use warpline_packet::{
    Access, AddressBlocks, Batch, Field, FieldSet, Instant, ReadWrite, Reason, SHARDS, ScratchWord,
    Shard, StateKey,
};
use warpline_rewrite::{InsideKey, JointKey};

/// The first port that is bound; shard `s` binds those from `PORT_FIRST + s * PORTS_PER_SHARD` on.
pub(crate) const PORT_FIRST: u16 = 1024;
/// Ports of a shard.
pub(crate) const PORTS_PER_SHARD: u16 = 1000;
/// How long a binding lives without packets.
pub(crate) const IDLE: Duration = Duration::from_millis(20);
/// Drop reason: no binding was free.
pub(crate) const EXHAUSTED: usize = 0;

/// The key of a NAT whose inside is 10.0.0.0/8 and whose ports begin at `port_first`.
pub(crate) fn inside_key(port_first: u16) -> StateKey {
    let key = InsideKey {
        inside: AddressBlocks::new(&["10.0.0.0/8".parse().expect("a prefix")]),
        outside: AddressBlocks::new(&["198.51.100.1/32".parse().expect("a prefix")]),
        port_first,
        ports_per_shard: PORTS_PER_SHARD,
        fixed: std::sync::Arc::default(),
    };
    JointKey::of_translator(key).state_key()
}

/// The function.
pub(crate) struct NatLike {
    access: Access,
    bindings: usize,
    key: StateKey,
    word: ScratchWord,
}

impl NatLike {
    pub(crate) fn new(bindings: usize, key: StateKey, word: ScratchWord) -> Self {
        let ports = FieldSet::of(&[Field::SrcPort, Field::DstPort]);
        let port = FieldSet::EMPTY.with(word.field());
        let access = Access {
            before: ReadWrite::new(
                FieldSet::HEADERS.with(Field::Timestamp).with(Field::FlowHash),
                port.with(Field::Verdict),
            ),
            run: ReadWrite::new(
                port.with(Field::SrcAddr).with(Field::DstAddr) | FieldSet::HEADERS,
                ports.with(Field::Verdict),
            ),
            ..Access::run_only(ReadWrite::NONE)
        };
        Self { access, bindings, key, word }
    }
}

impl Function for NatLike {
    fn access(&self) -> &Access {
        &self.access
    }

    /// The lower address's port becomes the bound one, in both directions.
    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| {
            let port = packet.scratch(self.word) as u16;
            let is_low = match packet.version() {
                4 => packet.src_v4() < packet.dst_v4(),
                _ => packet.src_v6() < packet.dst_v6(),
            };
            match port {
                0 => packet.drop(Reason(EXHAUSTED as u8)),
                port if is_low => packet.set_src_port(port),
                port => packet.set_dst_port(port),
            }
        });
    }

    fn state_key(&self) -> StateKey {
        self.key.clone()
    }

    fn state(&self, shard: Shard) -> State {
        let per_shard = self.bindings / SHARDS * (SHARDS / shard.of());
        let rest = (shard.index() < self.bindings % SHARDS) as usize;
        State::before(Table {
            bindings: vec![None; per_shard + rest],
            port_first: PORT_FIRST + shard.index() as u16 * PORTS_PER_SHARD,
            word: self.word,
            reclaimed: 0,
            full: 0,
        })
    }

    fn tick(&self) -> Option<Duration> {
        Some(Duration::from_millis(5))
    }
}

#[derive(Clone, Copy)]
struct Binding {
    flow: u32,
    last: Instant,
}

struct Table {
    bindings: Vec<Option<Binding>>,
    port_first: u16,
    word: ScratchWord,
    reclaimed: u64,
    full: u64,
}

impl Table {
    fn bind(&mut self, flow: u32, now: Instant) -> Option<u16> {
        let lives = |b: &Binding| now.since(b.last) < IDLE;
        let own = |b: &Option<Binding>| b.is_some_and(|b| b.flow == flow && lives(&b));
        let free = |b: &Option<Binding>| !b.is_some_and(|b| lives(&b));
        let place = self.bindings.iter().position(own);
        let place = place.or_else(|| self.bindings.iter().position(free))?;
        self.bindings[place] = Some(Binding { flow, last: now });
        Some(self.port_first + place as u16)
    }
}

impl Before for Table {
    fn before(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &index in picks {
            let mut packet = batch.packet_mut(usize::from(index));
            if packet.reject_malformed() {
                continue;
            }
            let port = self.bind(packet.flow_hash(), packet.timestamp());
            self.full += u64::from(port.is_none());
            packet.set_scratch(self.word, u32::from(port.unwrap_or(0)));
        }
    }
}

impl StateHalf for Table {
    fn handle_timeout(&mut self, now: Instant, _: &mut Emit<'_>) {
        for binding in &mut self.bindings {
            if binding.is_some_and(|b| now.since(b.last) >= IDLE) {
                *binding = None;
                self.reclaimed += 1;
            }
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("bound", self.bindings.iter().flatten().count() as u64);
        visit("reclaimed", self.reclaimed);
        visit("full", self.full);
    }
}
