//! A small reader of IPFIX streams (RFC 7011), to check what an encoder writes.

use std::collections::HashMap;

/// packetDeltaCount.
const PACKETS: u16 = 2;

/// What a template says of a field: Information Element, without the enterprise bit, and bytes.
type Field = (u16, usize);

/// Data records of a stream, and the packets that they count in both directions; `None` where the stream
/// isn't one, or a sequence number is wrong.
pub fn totals(mut stream: &[u8]) -> Option<(u32, u64)> {
    let mut templates = HashMap::new();
    let (mut records, mut packets) = (0, 0);
    while !stream.is_empty() {
        let len = number(stream.get(2..4)?) as usize;
        let (message, rest) = stream.split_at_checked(len)?;
        stream = rest;
        let header = message.get(..16)?;
        if number(&header[..2]) != 10 || number(&header[8..12]) != u64::from(records) {
            return None;
        }
        let mut sets = &message[16..];
        while !sets.is_empty() {
            let (id, len) = (number(sets.get(..2)?) as u16, number(sets.get(2..4)?) as usize);
            let (set, rest) = sets.split_at_checked(len)?;
            sets = rest;
            match id {
                2 => learn(set.get(4..)?, &mut templates)?,
                _ => {
                    let counted = count(set.get(4..)?, templates.get(&id)?)?;
                    records += counted.0;
                    packets += counted.1;
                }
            }
        }
    }
    Some((records, packets))
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

fn count(mut set: &[u8], fields: &[Field]) -> Option<(u32, u64)> {
    let (mut records, mut packets) = (0, 0);
    while !set.is_empty() {
        for &(element, len) in fields {
            let (value, rest) = set.split_at_checked(len)?;
            set = rest;
            packets += if element == PACKETS { number(value) } else { 0 };
        }
        records += 1;
    }
    (records > 0).then_some((records, packets))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
