//! The network function `ipsec`: ESP (RFC 4303) in tunnel and transport mode, for IPv4 and IPv6.
//!
#![doc = concat!(include_str!("manual.md"), "\n", include_str!("files/files.md"))]
#![forbid(unsafe_code)]

use core::any::Any;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpline_packet::wire::{ipv6, udp};
use warpline_packet::{
    Access, Batch, Division, FieldSet, FlowHasher, Headers, OwnKey, Shard, StateKey, Tuple,
};

use warpline_nf::{
    Definition, Diagnostic, Diagnostics, Emits, Function, Growth, Kernels, Key, Outputs, Report,
    Resources, Section, State, TableSize, Traits,
};
use warpline_rewrite::icmp_errors;

mod access;
pub mod cipher;
mod counts;
pub mod files;
mod kernel_table;
mod kernels;
mod lengthening;
pub mod nonce_state;
mod opener;
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

use cipher::{Choice, Engine};
use lengthening::Lengthening;
use nonce_state::{Fingerprint, NonceKey, NonceState, Reserve};
use opener::{InState, Opener};
use sa::{Direction, Mode};
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
    keys: KEYS,
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
    access: access::of((FieldSet::EMPTY, FieldSet::EMPTY), true, true, 0.0),
    build,
    build_pair: None,
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

const KEYS: &[Key] = &{
    let [sas, policies, local, insecure, unsupported] = files::KEYS;
    let [icmp, icmp_src_v4, icmp_src_v6, icmp_rate_pps] = icmp_errors::KEYS;
    [
        sas,
        policies,
        local,
        Key {
            name: "default",
            allowed: "discard | bypass",
            default: "discard",
            help: "the action for packets that match no policy",
        },
        Key {
            name: "non_ip",
            allowed: "forward | drop",
            default: "forward",
            help: "the action for packets that are not IP",
        },
        Key {
            name: "nonce_state",
            allowed: "a file; created if missing",
            default: "required with aes-ctr and aes-gcm",
            help: "reserves the sequence numbers of counter modes",
        },
        Key {
            name: "crypto",
            allowed: "auto | ipsec-mb | software",
            default: "auto",
            help: "auto: intel-ipsec-mb if it is installed, otherwise software",
        },
        Key {
            name: "reassembly",
            allowed: "0 to 65536",
            default: "256",
            help: "ESP datagrams reassembled at a time; 0: fragments of ESP are dropped",
        },
        Key {
            name: "reassembly_len",
            allowed: "576 to 65535",
            default: "2048",
            help: "the longest reassembled ESP datagram, in bytes",
        },
        icmp,
        icmp_src_v4,
        icmp_src_v6,
        icmp_rate_pps,
        insecure,
        unsupported,
    ]
};

/// How often reassembly checks the time without fragments.
const TICK: Duration = Duration::from_secs(1);

/// The longest link header before a reassembled packet: Ethernet with three tags takes 26 bytes.
const LINK_LEN_MAX: usize = 32;

/// The longest tunnel header, UDP, ESP header, IV, padding, trailer and ICV together, for any SAs
/// that a reload brings.
const SEAL_GROWTH: Growth = Growth {
    head: ipv6::HEADER_LEN + udp::HEADER_LEN + tables::ESP_HEADER_LEN + 16,
    tail: 15 + tables::TRAILER_LEN + 16,
};

/// What packets meet besides SAs and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    /// Packets that no policy is for go on.
    bypasses: bool,
    forwards_non_ip: bool,
    /// Datagrams at a time, of all shards.
    reassembly: usize,
    /// Bytes of the longest.
    reassembly_len: usize,
    icmp: Option<icmp_errors::Config>,
}

impl Options {
    fn frame_len_max(&self) -> usize {
        LINK_LEN_MAX + self.reassembly_len
    }
}

struct Ipsec {
    tables: Arc<Tables>,
    lengthening: Lengthening,
    key: OwnKey,
    engine: Arc<Engine>,
    options: Options,
    words: Words,
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

/// The share of SAs that open that have selectors.
fn share_with_selectors(tables: &Tables) -> f32 {
    let opening = || tables.sas.iter().filter(|sa| sa.direction == Direction::In);
    let with = opening().filter(|sa| !sa.selectors.is_empty()).count();
    with as f32 / opening().count().max(1) as f32
}

/// What every link of IPv6 carries (RFC 8200, 5).
const MTU_LEAST_V6: usize = 1280;

/// Tunnels in which a packet of that length does not fit, though IPv6 may go there.
fn narrow(tables: &Tables) -> Diagnostics {
    let mut told = Diagnostics::default();
    for (sa, shape) in tables.sas.iter().zip(&tables.shapes) {
        let carries_v6 = sa.selectors.is_empty()
            || sa.selectors.iter().any(|selector| selector.src.address().is_ipv6());
        let sealed = shape.sealed_len(0, MTU_LEAST_V6);
        let mtu = usize::from(sa.outer.mtu);
        let is_out = sa.direction == Direction::Out && sa.mode == Mode::Tunnel;
        if is_out && carries_v6 && sealed > mtu {
            let most = shape.len_max(0, mtu);
            told.push(Diagnostic::bare(format!(
                "SA {:?}: `mtu` {mtu} is too small for IPv6, whose senders make no packet shorter than \
                 {MTU_LEAST_V6} for it: with ESP that has {sealed}, and IPv6 longer than {most} is `too-big`",
                sa.name
            )));
        }
    }
    told
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let database = files::read(section, resources);
    let options = Options {
        bypasses: section.choice("default", &[("discard", false), ("bypass", true)], false),
        forwards_non_ip: section.choice("non_ip", &[("forward", true), ("drop", false)], true),
        reassembly: section.integer("reassembly", 0..=65_536, 256) as usize,
        reassembly_len: section.integer("reassembly_len", 576..=65_535, 2048) as usize,
        icmp: icmp_errors::Config::read(section),
    };
    let nonce_path = section.output("nonce_state");
    let engines =
        [("auto", Choice::Auto), ("ipsec-mb", Choice::IpsecMb), ("software", Choice::Software)];
    let engine = section.choice("crypto", &engines, Choice::Auto);
    let database = database?;
    let counts_up = |sa: &sa::Sa| sa.direction == Direction::Out && sa.cipher.is_counter();
    if nonce_path.is_none()
        && let Some(sa) = database.sas.iter().find(|sa| counts_up(sa))
    {
        let why = "AES-CTR and AES-GCM with keys from a file need `nonce_state`, or a restart would use nonces \
                   again, which gives the key stream away";
        section.mistake("sas", format!("SA {:?}: {why}", sa.name));
    }
    if section.is_broken() {
        return None;
    }
    let Ok(tables) = Tables::build(database, resources.seed()) else {
        section.mistake("policies", "these policies are too many and too different to be searched");
        return None;
    };
    resources.remarks_of(&narrow(&tables));
    let tables = Arc::new(tables);
    let words = Words::from(resources, section)?;
    let engine = match Engine::new(engine, &tables.keys) {
        Ok(engine) => Arc::new(engine),
        Err(why) => {
            section.mistake("crypto", format!("there is no intel-ipsec-mb here: {why}"));
            return None;
        }
    };
    let (reassembles, answers) = (options.reassembly > 0, options.icmp.is_some());
    let own = (words.fields(), words.outcome());
    let access = access::of(own, reassembles, answers, share_with_selectors(&tables));
    Some(Box::new(Ipsec {
        key: OwnKey(Arc::new(Peers(Arc::clone(&tables)))),
        lengthening: Lengthening::of(&tables),
        tables,
        engine,
        options,
        words,
        access,
        nonce_path,
        nonces: OnceLock::new(),
        reserves: Mutex::default(),
        whole: OnceLock::new(),
        successor: Successor::default(),
    }))
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
        let mut reserves = self.reserves.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |row: usize| {
            let reserve = reserves.get_mut(row).and_then(Option::take);
            OutState::new(&self.tables.sas[row], reserve)
        };
        self.tables.rows(shard, Direction::Out).map(state).collect()
    }

    fn in_states(&self, shard: Shard) -> Box<[InState]> {
        let state = |row: usize| InState::new(&self.tables.sas[row]);
        self.tables.rows(shard, Direction::In).map(state).collect()
    }
}

impl Function for Ipsec {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        work::run(batch, &self.tables, &self.engine, &self.words);
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self).declaring(self.kernel_access()))
    }

    fn traits(&self) -> Traits {
        Traits { deciphers: true, ..Traits::NONE }
    }

    fn state_key(&self) -> StateKey {
        StateKey::Own(self.key.clone())
    }

    fn state(&self, shard: Shard) -> State {
        let _ = self.whole.set(shard == Shard::WHOLE);
        State {
            before: Some(Box::new(Sealer::new(self, shard, self.out_states(shard)))),
            after: Some(Box::new(Opener::new(self, shard, self.in_states(shard)))),
        }
    }

    fn tables(&self) -> Vec<TableSize> {
        vec![TableSize::divided("datagrams", self.options.reassembly)]
    }

    fn growth(&self) -> Growth {
        SEAL_GROWTH
    }

    fn lengthens(&self, frame_len: usize) -> [i32; 2] {
        self.lengthening.bytes(frame_len)
    }

    fn emits(&self) -> Emits {
        let Options { icmp, reassembly, .. } = self.options;
        let replace_len_max = if reassembly > 0 { self.options.frame_len_max() } else { 0 };
        Emits { replace_len_max, ..icmp.map_or(Emits::NONE, |_| icmp_errors::EMITS) }
    }

    /// Opens the file of used numbers, too: from here on they are used.
    fn report(&self, _: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        if self.nonces.get().is_none() {
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
            (reassembly, reassembly_len, icmp, ipsec.nonce_path.clone(), ipsec.words)
        };
        if fixed(self) != fixed(old) {
            return Err(
                "`reassembly`, `icmp` and `nonce_state` can't be changed while packets flow".into(),
            );
        }
        let old_rows = self.successor.pair(&self.tables, &old.tables);
        if let Some(sa) = successor::starts_over(&self.tables, &old.tables, old_rows) {
            let why = "has its SPI and keys from before, but other ends, mode, algorithms, `esn`, `encap` or window: \
                       it needs new keys";
            return Err(format!("SA {} {why}", sa.name));
        }
        self.open_nonces(old.nonces.get(), |row| old_rows[row].is_none())?;
        let whole = *self.whole.get_or_init(|| old.whole.get().copied().unwrap_or(false));
        self.successor.out.make(whole, |shard| self.out_states(shard));
        self.successor.inward.make(whole, |shard| self.in_states(shard));
        Ok(())
    }

    fn tick(&self) -> Option<Duration> {
        Some(TICK)
    }
}

#[cfg(test)]
mod tests;
