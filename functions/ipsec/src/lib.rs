//! The network function `ipsec`: ESP (RFC 4303) in tunnel and transport mode, for IPv4 and IPv6.
//!
#![doc = concat!(include_str!("manual.md"), "\n", include_str!("files/files.md"))]
#![forbid(unsafe_code)]

use core::any::Any;
use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpline_packet::wire::{ipv6, udp};
use warpline_packet::{
    Access, Batch, Division, FlowHasher, Headers, OwnKey, ScratchWord, Shard, StateKey, Tuple,
};

use warpline_nf::{
    Definition, Emits, Function, Growth, Kernels, Outputs, Ports, Report, Resources, Section,
    State, TableSize, Traits,
};
use warpline_rewrite::icmp_errors;

mod access;
mod at;
pub mod cipher;
mod config;
mod counters;
mod counts;
pub mod files;
mod forwarding;
mod kernel_table;
mod kernels;
mod lengthening;
pub mod nonce_state;
mod opener;
mod outbound;
mod outer;
pub mod replay;
mod report;
pub mod sa;
mod seal;
mod sealer;
mod shape;
mod spd;
mod strip;
mod successor;
mod tables;
mod traffic;
mod words;
mod work;

use at::At;
use cipher::Engine;
use config::{MTU_LEAST_V6, Options, Settings};
use lengthening::Lengthening;
use nonce_state::{Fingerprint, NonceKey, NonceState, Reserve};
use opener::{InState, Opener};
use sa::Direction;
use sealer::{OutState, Sealer};
use successor::Successor;
use tables::Tables;
use words::Words;

/// The function's definition.
pub const DEFINITION: Definition = Definition {
    name: "ipsec",
    summary: "IPsec gateway: ESP in tunnel and transport mode (RFC 4301, RFC 4303)",
    manual: concat!(include_str!("manual.md"), "\n", include_str!("files/files.md")),
    has_kernels: true,
    keys: config::KEYS,
    drops: &[
        "no-sa",
        "no-policy",
        "bad-icv",
        "replay",
        "bad-padding",
        "lifetime",
        "sequence-overflow",
        "too-big",
        "selector-mismatch",
        "malformed",
        "discard",
        "fragment",
        "snapped",
        "non-ip",
        "congestion",
        "link",
        "nonce-state",
        "misplaced",
    ],
    counters: counters::COUNTERS,
    access: access::Of::ALL.access(),
    build,
    build_pair: Some(build_pair),
};

/// Places in [`DEFINITION`]'s drops.
mod reason {
    use warpline_packet::Reason;

    pub(super) const NO_SA: Reason = Reason(0);
    pub(super) const NO_POLICY: Reason = Reason(1);
    pub(super) const BAD_ICV: Reason = Reason(2);
    pub(super) const REPLAY: Reason = Reason(3);
    pub(super) const BAD_PADDING: Reason = Reason(4);
    pub(super) const LIFETIME: Reason = Reason(5);
    pub(super) const SEQUENCE_OVERFLOW: Reason = Reason(6);
    pub(super) const TOO_BIG: Reason = Reason(7);
    pub(super) const SELECTOR_MISMATCH: Reason = Reason(8);
    pub(super) const MALFORMED: Reason = Reason(9);
    pub(super) const DISCARD: Reason = Reason(10);
    pub(super) const FRAGMENT: Reason = Reason(11);
    pub(super) const SNAPPED: Reason = Reason(12);
    pub(super) const NON_IP: Reason = Reason(13);
    pub(super) const CONGESTION: Reason = Reason(14);
    pub(super) const LINK: Reason = Reason(15);
    pub(super) const NONCE_STATE: Reason = Reason(16);
    pub(super) const MISPLACED: Reason = Reason(17);
}

/// How often reassembly checks the time without fragments.
const TICK: Duration = Duration::from_secs(1);

/// The longest tunnel header, UDP, ESP header, IV, padding, trailer and ICV together, for any SAs
/// that a reload brings.
const SEAL_GROWTH: Growth = Growth {
    head: ipv6::HEADER_LEN + udp::HEADER_LEN + tables::ESP_HEADER_LEN + 16,
    tail: 15 + tables::TRAILER_LEN + 16,
};

struct Ipsec {
    at: At,
    tables: Arc<Tables>,
    lengthening: Lengthening,
    key: StateKey,
    engine: Arc<Engine>,
    options: Options,
    words: Words,
    change_words: [ScratchWord; 1],
    ports: Ports,
    access: Access,
    nonce_path: Option<PathBuf>,
    /// Opened when a run starts, or taken over.
    nonces: OnceLock<Arc<NonceState>>,
    /// By row, until the state of its shard takes it.
    reserves: Mutex<Vec<Option<Reserve>>>,
    /// Whether one shard has everything, as recorded when state was made.
    whole: OnceLock<bool>,
    successor: Successor,
}

/// The share of SAs that open whose packets are checked.
fn share_checked(tables: &Tables) -> f32 {
    let both = || tables.sas.iter().zip(&tables.shapes);
    let opening = || both().filter(|(sa, _)| sa.direction == Direction::In);
    let checked = opening().filter(|(_, shape)| shape.is_checked).count();
    checked as f32 / opening().count().max(1) as f32
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let settings = config::read(section, resources, 1)?;
    let key = settings.state_key();
    Some(Box::new(Ipsec::new(&settings, key, At::Only)))
}

fn build_pair(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<[Box<dyn Function>; 2]> {
    let settings = config::read(section, resources, 2)?;
    let key = settings.state_key();
    let place = |at| -> Box<dyn Function> { Box::new(Ipsec::new(&settings, key.clone(), at)) };
    Some([place(At::First), place(At::Second)])
}

impl Settings {
    /// By peers, unless packets go from one to another.
    fn state_key(&self) -> StateKey {
        match self.forwarding.between_peers {
            Some(_) => StateKey::Whole,
            None => StateKey::Own(OwnKey(Arc::new(Peers(Arc::clone(&self.tables))))),
        }
    }
}

/// State is divided by the two ends of a tunnel: their SAs, both ways, with all flows inside.
#[derive(Debug)]
struct Peers(Arc<Tables>);

impl Division for Peers {
    fn name(&self) -> &'static str {
        "IPsec peers"
    }

    fn shard(&self, hasher: &FlowHasher, _: &Tuple, frame: &[u8], headers: &Headers) -> Option<u8> {
        self.0.hash(frame, headers).map(|pair| hasher.shard(pair))
    }

    fn keeps_flows(&self) -> bool {
        true
    }
}

impl Ipsec {
    fn new(settings: &Settings, key: StateKey, at: At) -> Self {
        let Settings { tables, engine, options, words, nonce_path, .. } = settings;
        let (reassembles, answers) = (options.reassembly > 0, options.icmp.is_some());
        let access = access::Of {
            words: words.fields(),
            outcome: words.outcome(),
            reassembles: reassembles && at.opens(),
            answers: answers && at.seals(),
            checked: share_checked(tables),
            asks_sides: !settings.ports.is_empty() && at.opens(),
            at,
        };
        Self {
            at,
            lengthening: Lengthening::of(tables, at),
            tables: Arc::clone(tables),
            key,
            engine: Arc::clone(engine),
            options: *options,
            words: *words,
            change_words: [words.change()],
            ports: settings.ports.clone(),
            access: access.access(),
            nonce_path: nonce_path.clone().filter(|_| at.seals()),
            nonces: OnceLock::new(),
            reserves: Mutex::default(),
            whole: OnceLock::new(),
            successor: Successor::default(),
        }
    }

    /// Takes over the file of used numbers, or opens it if necessary, and reserves numbers for new
    /// SAs.
    fn open_nonces(
        &self,
        old: Option<&Arc<NonceState>>,
        is_new: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let nonces = match (old, &self.nonce_path) {
            (Some(nonces), _) => Arc::clone(nonces),
            (None, Some(path)) if self.tables.counters().next().is_some() => {
                Arc::new(NonceState::open(path)?)
            }
            _ => return Ok(()),
        };
        self.reserve(&nonces, is_new)?;
        let _ = self.nonces.set(nonces);
        Ok(())
    }

    /// Gets the right to numbers of the counter modes' keys of these rows.
    fn reserve(&self, nonces: &NonceState, is_new: impl Fn(usize) -> bool) -> Result<(), String> {
        let rows: Vec<_> = self.tables.counters().filter(|(row, _)| is_new(*row)).collect();
        let key = |sa: &sa::Sa| NonceKey {
            fingerprint: Fingerprint::of(&sa.enc_key.0),
            first: sa.sequence.saturating_add(1),
            last: if sa.esn { u64::MAX - 1 } else { u32::MAX.into() },
        };
        let keys: Vec<NonceKey> = rows.iter().map(|(_, sa)| key(sa)).collect();
        let reserves = nonces.add(&keys)?;
        let mut own = self.reserves.lock().unwrap_or_else(PoisonError::into_inner);
        own.resize_with(self.tables.sas.len(), || None);
        for ((row, _), reserve) in rows.iter().zip(reserves) {
            own[*row] = Some(reserve);
        }
        Ok(())
    }

    fn out_states(&self, shard: Shard) -> Box<[OutState]> {
        if !self.at.seals() {
            return Box::default();
        }
        let mut reserves = self.reserves.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |row: usize| {
            let reserve = reserves.get_mut(row).and_then(Option::take);
            OutState::new(&self.tables.sas[row], reserve)
        };
        self.tables.rows(shard, Direction::Out).map(state).collect()
    }

    fn in_states(&self, shard: Shard) -> Box<[InState]> {
        if !self.at.opens() {
            return Box::default();
        }
        let state = |row: usize| InState::new(&self.tables.sas[row]);
        self.tables.rows(shard, Direction::In).map(state).collect()
    }
}

impl Function for Ipsec {
    fn access(&self) -> &Access {
        &self.access
    }

    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        let ends = self.tables.sas.iter().filter(|sa| sa.direction == Direction::In);
        ends.map(|sa| (sa.dst, sa.dst)).collect()
    }

    fn run(&self, batch: &mut Batch) {
        work::run(batch, &self.tables, &self.engine, &self.words);
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self).declaring(self.kernel_access()))
    }

    fn traits(&self) -> Traits {
        Traits { deciphers: self.at.opens(), wraps: self.at.seals(), ..Traits::NONE }
    }

    fn state_key(&self) -> StateKey {
        self.key.clone()
    }

    fn change_words(&self) -> &[ScratchWord] {
        &self.change_words
    }

    fn state(&self, shard: Shard) -> State {
        let _ = self.whole.set(shard == Shard::WHOLE);
        State {
            before: Some(Box::new(Sealer::new(self, shard, self.out_states(shard)))),
            after: Some(Box::new(Opener::new(self, shard, self.in_states(shard)))),
        }
    }

    fn tables(&self) -> Vec<TableSize> {
        match self.at.opens() {
            true => vec![TableSize::divided("datagrams", self.options.reassembly)],
            false => Vec::new(),
        }
    }

    fn growth(&self) -> Growth {
        if self.at.seals() { SEAL_GROWTH } else { Growth::NONE }
    }

    fn lengthens(&self, frame_len: usize) -> [i32; 2] {
        self.lengthening.bytes(frame_len)
    }

    fn emits(&self) -> Emits {
        let Options { icmp, reassembly, .. } = self.options;
        let reassembles = reassembly > 0 && self.at.opens();
        let replace_len_max = if reassembles { self.options.frame_len_max() } else { 0 };
        let answers = icmp.filter(|_| self.at.seals());
        Emits { replace_len_max, ..answers.map_or(Emits::NONE, |_| icmp_errors::EMITS) }
    }

    /// Opens the file of used numbers, too: from here on they are used.
    fn report(&self, _: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        if self.at.seals() && self.nonces.get().is_none() {
            self.open_nonces(None, |_| true)?;
        }
        Ok(Some(Box::new(report::SaReport::new(&self.engine))))
    }

    fn keeps(&self) -> Vec<PathBuf> {
        self.nonce_path.iter().cloned().collect()
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        let Some(old) = (old as &dyn Any).downcast_ref::<Self>() else {
            return Err("it is another function".into());
        };
        let fixed = |ipsec: &Self| {
            let Options { reassembly, reassembly_len, icmp, .. } = ipsec.options;
            let words = (ipsec.words, ipsec.at);
            (reassembly, reassembly_len, icmp, ipsec.nonce_path.clone(), words)
        };
        if fixed(self) != fixed(old) {
            return Err(
                "`reassembly`, `icmp` and `nonce_state` can't be changed while packets flow".into(),
            );
        }
        let old_rows = self.successor.pair(&self.tables, &old.tables);
        if let Some(sa) = successor::starts_over(&self.tables, &old.tables, old_rows) {
            let why = "has its SPI and keys from before, but other ends, mode, algorithms, `esn`, \
                       `encap` or window: it needs new keys";
            return Err(format!("SA {} {why}", sa.name));
        }
        if self.at.seals() {
            // A key that the reload before removed may come back.
            old.successor.out.free_old();
            self.open_nonces(old.nonces.get(), |row| old_rows[row].is_none())?;
        }
        let whole = *self.whole.get_or_init(|| old.whole.get().copied().unwrap_or(false));
        self.successor.out.make(whole, |shard| self.out_states(shard));
        self.successor.inward.make(whole, |shard| self.in_states(shard));
        Ok(())
    }

    fn reloaded(&self) {
        self.successor.out.free_old();
        self.successor.inward.free_old();
    }

    fn tick(&self) -> Option<Duration> {
        self.at.opens().then_some(TICK)
    }
}

#[cfg(test)]
mod tests;
