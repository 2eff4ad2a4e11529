//! Records as the CSV file has them, by the names of its columns.

use std::collections::BTreeMap;
use std::path::Path;

use super::flow::{Flow, Half, Key};

/// A line of the file.
pub(crate) type Row = BTreeMap<String, String>;

/// Why a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Idle,
    Active,
    Closed,
    Forced,
    LackOfResources,
}

impl End {
    const ALL: [(Self, &str); 5] = [
        (Self::Idle, "idle"),
        (Self::Active, "active"),
        (Self::Closed, "end"),
        (Self::Forced, "forced"),
        (Self::LackOfResources, "lack-of-resources"),
    ];
}

/// An exported record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exported {
    /// All but why it ended.
    pub(super) row: Row,
    pub(crate) end: End,
    /// Another end that is equally right.
    pub(super) or: Option<End>,
    /// Whether only the totals of its flow are known.
    pub(super) apart: bool,
    /// Whether the next packet of its flow ended it.
    pub(super) is_here: bool,
}

impl Exported {
    pub(super) fn of(key: &Key, flow: &Flow, end: End) -> Self {
        Self { row: row(key, flow), end, or: None, apart: false, is_here: false }
    }
}

/// A record's source is who sent something.
fn row(key: &Key, flow: &Flow) -> Row {
    let (mut ends, mut halves, mut message) = (flow.ends, flow.halves, key.message);
    let is_turned = halves[0].packets == 0;
    if is_turned {
        ends.reverse();
        halves.reverse();
        // The source of a turned record of an echo sent the replies.
        message = message.map(|(kind, code)| match kind {
            8 if key.is_echo => (0, code),
            128 if key.is_echo => (129, code),
            other => (other, code),
        });
    }
    let [(src, src_port), (dst, dst_port)] = ends;
    let some = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let port = |port: u16| some((!key.is_icmp()).then_some(port.into()));
    let mut row: Row = [
        ("src", src.to_string()),
        ("dst", dst.to_string()),
        ("protocol", key.protocol.to_string()),
        ("src_port", port(src_port)),
        ("dst_port", port(dst_port)),
        ("icmp_type", some(message.map(|(kind, _)| kind.into()))),
        ("icmp_code", some(message.map(|(_, code)| code.into()))),
        ("direction", if is_turned { "reverse-initiator" } else { "initiator" }.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    row.extend(columns("", &halves[0]));
    row.extend(columns("reverse_", &halves[1]));
    row
}

fn columns(way: &str, half: &Half) -> [(String, String); 5] {
    let seconds = |micros: u64| match half.packets {
        0 => String::new(),
        _ => format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000),
    };
    [
        ("first", seconds(half.first)),
        ("last", seconds(half.last)),
        ("packets", half.packets.to_string()),
        ("bytes", half.bytes.to_string()),
        ("tcp_flags", half.flags.to_string()),
    ]
    .map(|(name, value)| (format!("{way}{name}"), value))
}

/// The records in a file, if it exists.
pub(crate) fn read(path: &Path) -> Vec<Exported> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(|line| exported(&names, line)).collect()
}

fn exported(names: &[&str], line: &str) -> Exported {
    let values: Vec<&str> = line.split(',').collect();
    assert_eq!(values.len(), names.len(), "{line}");
    let pairs = names.iter().zip(&values);
    let mut row: Row = pairs.map(|(&name, &value)| (name.to_owned(), value.to_owned())).collect();
    let why = row.remove("end").expect("a column for why it ended");
    let end = End::ALL.iter().find(|(_, name)| *name == why);
    let end = end.unwrap_or_else(|| panic!("no record ends by {why}")).0;
    Exported { row, end, or: None, apart: false, is_here: false }
}
