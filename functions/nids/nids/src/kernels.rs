//! The scan on a device, with one item per packet. Small sets are one dense automaton of the
//! literals of all groups, searched as on the CPU. Larger ones have a filter by grams before a
//! comparison ([`GramTables`]). The packet's group keeps its own hits, with its own ids, so `after`
//! sees the same results as from `run`.

use warpline_packet::wire::ip_protocol;

use super::groups::{FlatGroups, Groups};
use super::{Nids, scan};
use warpline_nf::kernels::{
    BYTES, Element, FINDINGS, KernelStep, KernelTable, Kernels, Text, number_of,
};
use warpline_search::{Error, Flat, GramTables};

/// Work-items of a group.
const GROUP: u32 = 128;
const SCAN: &[KernelStep] =
    &[KernelStep { name: "scan_payloads", group: GROUP, shared_big: 0, items_per_packet: 1 }];
const FILTER: &[KernelStep] =
    &[KernelStep { name: "filter_payloads", group: GROUP, shared_big: 0, items_per_packet: 1 }];

const PAYLOAD: Text = ("payload.h", include_str!("kernel/payload.h"));
const LITERALS: Text = ("literals.h", include_str!("kernel/literals.h"));

const HEADERS: &[Text] = &[FINDINGS, BYTES, PAYLOAD, LITERALS];

/// The longest cells of an automaton, in bytes: a part of a GPU's second-level cache, as each byte
/// of a payload waits for one of them.
const CELLS_LEN_MAX: usize = 16 << 20;
/// The longest tables that are given to a device, in bytes.
const TABLES_LEN_MAX: usize = 64 << 20;
/// Steps beyond one for each byte that a payload has before it is left to the CPU.
const STEPS_MIN: u64 = 256;

/// How a set is searched on a device.
pub(super) enum Form {
    /// By one automaton, whose cells take so many bytes.
    Automaton(usize),
    /// By a filter of grams, buckets, and an automaton of the remaining literals.
    Grams(Box<GramTables>),
}

impl Form {
    /// The form for `groups`. The error gives the reason why devices are not used.
    pub(super) fn of(groups: &Groups) -> Result<Self, String> {
        let patterns = groups.patterns();
        let cells_len = Flat::cells_len(patterns);
        let form = match cells_len <= CELLS_LEN_MAX {
            true => Self::Automaton(cells_len),
            false => {
                Self::Grams(GramTables::new(patterns, TABLES_LEN_MAX).map_err(too_long)?.into())
            }
        };
        match form.tables_len(groups) <= TABLES_LEN_MAX {
            true => Ok(form),
            false => Err(too_long(Error::TooLong)),
        }
    }

    /// Bytes of those of its tables that grow with the rules.
    pub(super) fn tables_len(&self, groups: &Groups) -> usize {
        let own_len = match self {
            Self::Automaton(cells_len) => *cells_len,
            Self::Grams(tables) => tables.memory_len(),
        };
        own_len + 4 * groups.patterns().len() * groups.len() + FlatGroups::PORT_CLASSES_LEN
    }
}

fn too_long(_: Error) -> String {
    format!("a device's tables of these literals would take more than {} MiB", TABLES_LEN_MAX >> 20)
}

/// `None` where the tables would be too long.
pub(super) fn kernels(nids: &Nids) -> Option<Kernels> {
    let groups = &nids.tables.groups;
    let own = match Form::of(groups).ok()? {
        Form::Automaton(_) => of_automaton(Flat::new(groups.patterns()).ok()?),
        Form::Grams(tables) => of_grams(*tables),
    };
    let Own { text: (name, text), steps, mut defines, mut tables, patterns } = own;
    let by_group = FlatGroups::new(groups);
    let ids = by_group.ids.iter();
    let ids = ids.flat_map(|ids| patterns.iter().map(|&pattern| ids[pattern as usize]));
    tables.extend([
        table("ids", Element::U32, words(ids)),
        table("port_classes", Element::U8, by_group.port_classes),
        table("numbers", Element::U32, words(by_group.numbers)),
    ]);
    defines.extend([
        ("WORD", number_of(nids.word)),
        ("KEPT_MAX", scan::KEPT_MAX as u64),
        ("ENTRIES", patterns.len() as u64),
        ("PORT_CLASSES", FlatGroups::CLASSES as u64),
        ("IP_PROTOCOL_ICMP", ip_protocol::ICMP.into()),
        ("IP_PROTOCOL_TCP", ip_protocol::TCP.into()),
        ("IP_PROTOCOL_UDP", ip_protocol::UDP.into()),
        ("IP_PROTOCOL_ICMPV6", ip_protocol::ICMPV6.into()),
        ("IP_PROTOCOL_SCTP", ip_protocol::SCTP.into()),
    ]);
    Some(
        Kernels::builder(name, text, steps)
            .headers(HEADERS)
            .defines(defines)
            .public_tables(tables)
            .findings(nids.word)
            .build(),
    )
}

/// The parts specific to a form.
struct Own {
    text: Text,
    steps: &'static [KernelStep],
    defines: Vec<(&'static str, u64)>,
    tables: Vec<KernelTable>,
    /// The pattern of each entry.
    patterns: Vec<u32>,
}

fn of_automaton(mut flat: Flat) -> Own {
    let mut tables = vec![
        table("entries", Element::U32, words(core::mem::take(&mut flat.entries))),
        table("exact", Element::U8, core::mem::take(&mut flat.exact)),
    ];
    let patterns = core::mem::take(&mut flat.patterns);
    let (defines, own) = automaton(flat);
    tables.extend(own);
    let text = ("nids.cl", include_str!("kernel.cl"));
    Own { text, steps: SCAN, defines: defines.into(), tables, patterns }
}

fn of_grams(grams: GramTables) -> Own {
    let mut tables = vec![
        table("entries", Element::U32, words(grams.entries)),
        table("exact", Element::U8, grams.exact),
        table("filter", Element::U32, words(grams.filter)),
        table("starts", Element::U32, words(grams.starts)),
        table("rows", Element::U32, words(grams.rows)),
        table("folded", Element::U8, grams.folded),
    ];
    let mut all_defines = vec![
        ("HAS_REST", grams.rest.is_some().into()),
        ("GROUP", GROUP.into()),
        ("STEPS_MIN", STEPS_MIN),
        ("HASH_FACTOR", GramTables::HASH_FACTOR.into()),
        ("FILTER_SHIFT", grams.filter_shift.into()),
        ("BUCKET_SHIFT", grams.bucket_shift.into()),
    ];
    let (defines, own) = automaton(grams.rest.unwrap_or_else(Flat::empty));
    all_defines.extend(defines);
    tables.extend(own);
    let text = ("nids_grams.cl", include_str!("kernel/grams.cl"));
    Own { text, steps: FILTER, defines: all_defines, tables, patterns: grams.patterns }
}

/// The constants and tables of an automaton that `kernel/literals.h` needs.
fn automaton(flat: Flat) -> ([(&'static str, u64); 3], [KernelTable; 3]) {
    let cell = if flat.cell_len == 2 { Element::U16 } else { Element::U32 };
    let defines = [
        ("CELL_BITS", 8 * flat.cell_len as u64),
        ("BYTE_CLASSES", flat.class_count as u64),
        ("ACCEPTING", flat.accepting as u64),
    ];
    let tables = [
        table("byte_classes", Element::U8, flat.classes.to_vec()),
        table("cells", cell, flat.cells),
        table("outputs", Element::U32, words(flat.outputs)),
    ];
    (defines, tables)
}

fn words(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// No device takes a table without a byte: one that nothing refers to gets some.
fn table(name: &'static str, element: Element, mut bytes: Vec<u8>) -> KernelTable {
    if bytes.is_empty() {
        bytes.resize(16, 0);
    }
    KernelTable { name, element, bytes }
}
