//! A small IPFIX reader of its own: templates, data sets, sequence numbers (RFC 7011, RFC 5103).

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::model::{Direction, Row};

/// Values by enterprise and element.
type Values = BTreeMap<(u32, u16), Vec<u8>>;

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) len: usize,
    pub(super) export_s: u32,
    pub(super) sequence: u32,
    pub(super) domain: u32,
    pub(super) templates: usize,
    pub(super) records: Vec<Values>,
}

/// Knows the templates that came so far.
#[derive(Default)]
pub(super) struct Reader {
    templates: HashMap<u16, Vec<(u32, u16, usize)>>,
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len);
        self.0 = tail;
        head
    }

    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

impl Reader {
    /// The messages of a stream.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Message> {
        let (mut rest, mut messages) = (Cursor(bytes), Vec::new());
        while !rest.0.is_empty() {
            let len = usize::from(u16::from_be_bytes([rest.0[2], rest.0[3]]));
            messages.push(self.message(rest.take(len)));
        }
        messages
    }

    /// One message.
    pub(super) fn message(&mut self, bytes: &[u8]) -> Message {
        let mut rest = Cursor(bytes);
        assert_eq!(rest.number(2), 10, "the version");
        assert_eq!(rest.number(2), bytes.len() as u64);
        let mut message = Message {
            len: bytes.len(),
            export_s: rest.number(4) as u32,
            sequence: rest.number(4) as u32,
            domain: rest.number(4) as u32,
            templates: 0,
            records: Vec::new(),
        };
        while !rest.0.is_empty() {
            let (id, len) = (rest.number(2) as u16, rest.number(2) as usize);
            let set = Cursor(rest.take(len - 4));
            match id {
                2 => message.templates += self.learn(set),
                256.. => message.records.extend(self.records(id, set)),
                _ => panic!("set {id}"),
            }
        }
        message
    }

    fn learn(&mut self, mut set: Cursor<'_>) -> usize {
        let mut count = 0;
        while !set.0.is_empty() {
            let (id, fields) = (set.number(2) as u16, set.number(2));
            let mut field = || {
                let (element, len) = (set.number(2) as u16, set.number(2) as usize);
                let enterprise = if element >= 0x8000 { set.number(4) as u32 } else { 0 };
                (enterprise, element & 0x7fff, len)
            };
            let fields: Vec<_> = (0..fields).map(|_| field()).collect();
            let known = self.templates.entry(id).or_insert_with(|| fields.clone());
            assert_eq!(*known, fields, "a template changed");
            count += 1;
        }
        count
    }

    fn records(&self, id: u16, mut set: Cursor<'_>) -> Vec<Values> {
        let template = &self.templates[&id];
        let mut records = Vec::new();
        while !set.0.is_empty() {
            let value = |&(enterprise, element, len): &(u32, u16, usize)| {
                ((enterprise, element), set.take(len).to_vec())
            };
            records.push(template.iter().map(value).collect());
        }
        assert!(!records.is_empty(), "an empty set");
        records
    }
}

/// Converts the values of a record.
pub(super) fn row(values: &Values) -> Row {
    let number = |enterprise, id: u16| -> Option<u64> {
        let bytes = values.get(&(enterprise, id))?;
        Some(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let own = |id| number(0, id).unwrap();
    let address = |v4, v6| match values.get(&(0, v4)) {
        Some(bytes) => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[..]).unwrap())),
        None => Ipv6Addr::from(<[u8; 16]>::try_from(&values[&(0, v6)][..]).unwrap()).into(),
    };
    let half = |enterprise| {
        let value = |id| number(enterprise, id);
        value(2).map(|packets| Direction {
            packets,
            bytes: value(1).unwrap(),
            start_ms: value(152).unwrap(),
            end_ms: value(153).unwrap(),
            flags: value(6).unwrap() as u8,
        })
    };
    let icmp = number(0, 32).or(number(0, 139));
    Row {
        src: address(8, 27),
        dst: address(12, 28),
        protocol: own(4) as u8,
        ports: number(0, 7).map(|src| (src as u16, own(11) as u16)),
        icmp: icmp.map(|both| ((both >> 8) as u8, both as u8)),
        forward: half(0).unwrap(),
        reverse: half(29_305).unwrap_or_default(),
        reason: own(136) as u8,
        direction: number(0, 239).unwrap_or(0) as u8,
    }
}

/// The rows of all records of a stream; checks their sequence numbers.
pub(super) fn rows(bytes: &[u8]) -> Vec<Row> {
    let messages = Reader::default().read(bytes);
    let mut count = 0;
    for message in &messages {
        assert_eq!(message.sequence, count);
        count += message.records.len() as u32;
    }
    messages.iter().flat_map(|message| &message.records).map(row).collect()
}
