//! A small reader of IPFIX streams (RFC 7011), to check what an encoder writes.

use std::collections::HashMap;

/// packetDeltaCount.
const PACKETS: u16 = 2;
/// flowStartMilliseconds and flowEndMilliseconds.
const TIMES: [u16; 2] = [152, 153];

/// A field of a template: Information Element, without the enterprise bit, and bytes.
type Field = (u16, usize);

/// The totals of a stream's data records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many there are.
    pub records: u32,
    /// The packets that they count in both directions.
    pub packets: u64,
    /// The earliest and the latest time, in milliseconds.
    pub times: Option<(u64, u64)>,
}

/// The totals of a stream; `None` where it isn't one, or a sequence number is wrong.
pub fn totals(mut stream: &[u8]) -> Option<Totals> {
    let mut templates = HashMap::new();
    let mut totals = Totals::default();
    while !stream.is_empty() {
        let len = number(stream.get(2..4)?) as usize;
        let (message, rest) = stream.split_at_checked(len)?;
        stream = rest;
        let header = message.get(..16)?;
        if number(&header[..2]) != 10 || number(&header[8..12]) != u64::from(totals.records) {
            return None;
        }
        let mut sets = &message[16..];
        while !sets.is_empty() {
            let (id, len) = (number(sets.get(..2)?) as u16, number(sets.get(2..4)?) as usize);
            let (set, rest) = sets.split_at_checked(len)?;
            sets = rest;
            match id {
                2 => learn(set.get(4..)?, &mut templates)?,
                _ => totals.count(set.get(4..)?, templates.get(&id)?)?,
            }
        }
    }
    Some(totals)
}

fn learn(mut set: &[u8], templates: &mut HashMap<u16, Vec<Field>>) -> Option<()> {
    while !set.is_empty() {
        let (id, count) = (number(set.get(..2)?) as u16, number(set.get(2..4)?));
        set = &set[4..];
        let mut fields = Vec::new();
        for _ in 0..count {
            let (element, len) = (number(set.get(..2)?) as u16, number(set.get(2..4)?) as usize);
            set = set.get(if element & 0x8000 != 0 { 8 } else { 4 }..)?;
            fields.push((element & 0x7fff, len));
        }
        templates.insert(id, fields);
    }
    Some(())
}

impl Totals {
    /// Counts the records of a set.
    fn count(&mut self, mut set: &[u8], fields: &[Field]) -> Option<()> {
        let before = self.records;
        while !set.is_empty() {
            for &(element, len) in fields {
                let (value, rest) = set.split_at_checked(len)?;
                set = rest;
                let value = number(value);
                if element == PACKETS {
                    self.packets += value;
                }
                if TIMES.contains(&element) {
                    let (first, last) = self.times.unwrap_or((value, value));
                    self.times = Some((first.min(value), last.max(value)));
                }
            }
            self.records += 1;
        }
        (self.records > before).then_some(())
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
