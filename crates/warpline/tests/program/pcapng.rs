//! pcapng by hand, little-endian, apart from the program's own.

use crate::pcap::Record;

/// A packet with the name of its interface and its comment; empty where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) record: Record,
    pub(crate) interface: String,
    pub(crate) comment: String,
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = body.len() as u32 + 12;
    [&kind.to_le_bytes(), &len.to_le_bytes(), body, &len.to_le_bytes()].concat()
}

/// A capture in microseconds whose interfaces bear `names`, of up to four letters, and whose
/// packets are each of the interface with that number.
pub(crate) fn capture(names: &[&str], records: &[(u32, Record)]) -> Vec<u8> {
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut file = block(0x0a0d_0d0a, &section);
    for name in names {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, name.len() as u8, 0];
        body.extend(name.bytes());
        body.resize(16, 0);
        file.extend(block(1, &body));
    }
    for (interface, record) in records {
        let us = record.at_ns / 1000;
        let len = record.bytes.len() as u32;
        let words = [*interface, (us >> 32) as u32, us as u32, len, record.wire_len];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend_from_slice(&record.bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
    }
    file
}

/// The value of an option, as text.
fn option(mut options: &[u8], wanted: u16) -> Option<String> {
    while options.len() >= 4 {
        let [code, len] = [0, 2].map(|at| u16::from_le_bytes([options[at], options[at + 1]]));
        let (value, end) = (&options[4..4 + usize::from(len)], 4 + usize::from(len));
        if code == wanted {
            return Some(String::from_utf8(value.to_vec()).unwrap());
        }
        options = &options[end.next_multiple_of(4)..];
    }
    None
}

/// The packets of a whole file whose interfaces count nanoseconds.
#[track_caller]
pub(crate) fn parse(file: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut names, mut packets) = (0, Vec::new(), Vec::new());
    while at < file.len() {
        let len = word(at + 4) as usize;
        assert_eq!((len % 4, word(at + len - 4) as usize), (0, len));
        let body = &file[at + 8..at + len - 4];
        match word(at) {
            0x0a0d_0d0a => assert_eq!((at, word(8)), (0, 0x1a2b_3c4d)),
            1 => {
                assert_eq!(option(&body[8..], 9), Some("\t".to_owned()), "nanoseconds");
                names.push(option(&body[8..], 2).unwrap());
            }
            6 => {
                let [interface, high, low, captured, wire_len] =
                    [0, 4, 8, 12, 16].map(|field| word(at + 8 + field));
                let end = 20 + captured as usize;
                let at_ns = u64::from(high) << 32 | u64::from(low);
                let record = Record { at_ns, wire_len, bytes: body[20..end].to_vec() };
                let comment = option(&body[end.next_multiple_of(4)..], 1).unwrap_or_default();
                let interface = names[interface as usize].clone();
                packets.push(Packet { record, interface, comment });
            }
            other => panic!("block {other:#x}"),
        }
        at += len;
    }
    packets
}
