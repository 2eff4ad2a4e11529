//! The function's table in the chain file: its keys, their values and mistakes.

use std::path::PathBuf;
use std::sync::Arc;

use super::cipher::{Choice, Engine};
use super::files;
use super::forwarding::Forwarding;
use super::sa::{Database, Direction, Mode, Sa};
use super::tables::Tables;
use super::words::Words;
use warpline_nf::{Diagnostic, Diagnostics, Key, Ports, Resources, Section};
use warpline_rewrite::icmp_errors;

pub(super) const KEYS: &[Key] = &{
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

/// The longest link header before a reassembled packet: Ethernet with three tags takes 26 bytes.
const LINK_LEN_MAX: usize = 32;

/// The treatment of packets besides SAs and policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Packets that no policy is for go on.
    pub(super) bypasses: bool,
    pub(super) forwards_non_ip: bool,
    /// Datagrams at a time, of all shards.
    pub(super) reassembly: usize,
    /// Bytes of the longest.
    pub(super) reassembly_len: usize,
    pub(super) icmp: Option<icmp_errors::Config>,
}

impl Options {
    pub(super) fn frame_len_max(&self) -> usize {
        LINK_LEN_MAX + self.reassembly_len
    }
}

/// A table of the chain file, with the contents of its files.
pub(super) struct Settings {
    pub(super) tables: Arc<Tables>,
    pub(super) engine: Arc<Engine>,
    pub(super) options: Options,
    pub(super) words: Words,
    pub(super) nonce_path: Option<PathBuf>,
    /// The chain's ports, for the sides that packets come from.
    pub(super) ports: Ports,
    /// Which packets that are opened the policies send on, where there are two places.
    pub(super) forwarding: Forwarding,
}

/// Reads the table of an instance with as many places; `None` after mistakes, which are noted.
pub(super) fn read(
    section: &mut Section<'_>,
    resources: &mut Resources,
    places: usize,
) -> Option<Settings> {
    let database = files::read(section, resources);
    let options = options(section);
    let nonce_path = section.output("nonce_state");
    let engines =
        [("auto", Choice::Auto), ("ipsec-mb", Choice::IpsecMb), ("software", Choice::Software)];
    let engine = section.choice("crypto", &engines, Choice::Auto);
    let database = database?;
    if nonce_path.is_none() {
        refuse_counters(&database, section);
    }
    if section.is_broken() {
        return None;
    }
    let forwarding = if places == 2 { Forwarding::of(&database) } else { Forwarding::default() };
    let Ok(tables) = Tables::build(database, resources.seed()) else {
        section.mistake("policies", "these policies are too many and too different to be searched");
        return None;
    };
    resources.remarks_of(&narrow(&tables));
    resources.remarks_of(&forwarding.remarks(&tables.sas));
    let tables = Arc::new(tables);
    let words = Words::from(resources, section)?;
    match Engine::new(engine, &tables.keys) {
        Ok(engine) => {
            let engine = Arc::new(engine);
            let ports = resources.ports().clone();
            Some(Settings { tables, engine, options, words, nonce_path, ports, forwarding })
        }
        Err(why) => {
            section.mistake("crypto", format!("there is no intel-ipsec-mb here: {why}"));
            None
        }
    }
}

fn options(section: &mut Section<'_>) -> Options {
    Options {
        bypasses: section.choice("default", &[("discard", false), ("bypass", true)], false),
        forwards_non_ip: section.choice("non_ip", &[("forward", true), ("drop", false)], true),
        reassembly: section.integer("reassembly", 0..=65_536, 256) as usize,
        reassembly_len: section.integer("reassembly_len", 576..=65_535, 2048) as usize,
        icmp: icmp_errors::Config::read(section),
    }
}

/// Counter modes need a file of the numbers that were used.
fn refuse_counters(database: &Database, section: &mut Section<'_>) {
    let counts_up = |sa: &&Sa| sa.direction == Direction::Out && sa.cipher.is_counter();
    if let Some(sa) = database.sas.iter().find(counts_up) {
        let why = "AES-CTR and AES-GCM with keys from a file need `nonce_state`, or a restart \
                   would use nonces again, which reveals the key stream";
        section.mistake("sas", format!("SA {:?}: {why}", sa.name));
    }
}

/// The MTU that every link of IPv6 carries (RFC 8200, 5).
pub(super) const MTU_LEAST_V6: usize = 1280;

/// Tunnels in which a packet of that length does not fit, though IPv6 may go there.
fn narrow(tables: &Tables) -> Diagnostics {
    let mut reported = Diagnostics::default();
    for (sa, shape) in tables.sas.iter().zip(&tables.shapes) {
        let carries_v6 = sa.selectors.is_empty()
            || sa.selectors.iter().any(|selector| selector.src.address().is_ipv6());
        let sealed = shape.sealed_len(0, MTU_LEAST_V6);
        let mtu = usize::from(sa.outer.mtu);
        let is_out = sa.direction == Direction::Out && sa.mode == Mode::Tunnel;
        if is_out && carries_v6 && sealed > mtu {
            let most = shape.len_max(0, mtu);
            reported.push(Diagnostic::bare(format!(
                "SA {:?}: `mtu` {mtu} is too small for IPv6, whose senders make no packet shorter \
                 than {MTU_LEAST_V6} for it: with ESP that has {sealed}, and IPv6 longer than \
                 {most} is `too-big`",
                sa.name
            )));
        }
    }
    reported
}
