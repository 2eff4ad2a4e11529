//! Captures by hand: a writer and a reader of pcap that share nothing with the program's own.

/// One record of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) at_ns: u64,
    pub(crate) wire_len: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Record {
    pub(crate) fn new(at_ns: u64, bytes: Vec<u8>) -> Self {
        Self { at_ns, wire_len: bytes.len() as u32, bytes }
    }
}

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// A nanosecond pcap of link type `link`.
pub(crate) fn capture(link: u32, records: &[Record]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [MAGIC_NANOS, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    for Record { at_ns, wire_len, bytes } in records {
        let (seconds, nanos) = ((at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32);
        for word in [seconds, nanos, bytes.len() as u32, *wire_len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    file
}

/// The link type and the records of a whole nanosecond pcap, with no bytes after them.
#[track_caller]
pub(crate) fn parse(file: &[u8]) -> (u32, Vec<Record>) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), MAGIC_NANOS);
    assert_eq!(word(4), 0x0004_0002);
    let (mut at, mut records) = (24, Vec::new());
    while at < file.len() {
        let [seconds, nanos, len, wire_len] = [0, 4, 8, 12].map(|field| word(at + field));
        assert!(nanos < 1_000_000_000 && len <= wire_len);
        let bytes = file[at + 16..at + 16 + len as usize].to_vec();
        let at_ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanos);
        records.push(Record { at_ns, wire_len, bytes });
        at += 16 + len as usize;
    }
    (word(20), records)
}

/// An Ethernet frame with a UDP datagram of `payload` bytes from 192.0.2.7 port 1000 to the demo's
/// name server; `edit` changes the IP packet before its header checksum is made. The UDP checksum
/// is absent, which is allowed.
pub(crate) fn udp(payload: usize, edit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 7, 203, 0, 113, 18];
    let udp_len = 8 + payload as u16;
    ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    for word in [1000, 53, udp_len, 0] {
        ip.extend(word.to_be_bytes());
    }
    ip.resize(28 + payload, 0x2e);
    edit(&mut ip);
    let header_len = usize::from(ip[0] & 15) * 4;
    if let Some(header) = ip.get(..header_len).filter(|header| header.len() >= 20) {
        let sum: u32 = header.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip].concat()
}

/// A TCP segment to port 80 of 203.0.113.18 or from there, with a wrong checksum if `is_unfilled`.
pub(crate) fn tcp(
    (client, to_server): (u8, bool),
    [seq, ack]: [u32; 2],
    flags: u8,
    payload: &[u8],
    is_unfilled: bool,
) -> Vec<u8> {
    let (mut ends, mut ports) = ([[192, 0, 2, client], [203, 0, 113, 18]], [1000_u16, 80]);
    if !to_server {
        ends.reverse();
        ports.reverse();
    }
    let len = 20 + payload.len() as u16;
    let mut segment: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    segment.extend([seq, ack].iter().flat_map(|number| number.to_be_bytes()));
    segment.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    let covered = [&ends.concat()[..], &[0, 6], &len.to_be_bytes(), &segment].concat();
    let sum: u32 =
        covered.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let right = !((sum & 0xffff) + (sum >> 16)) as u16;
    let sum = if is_unfilled { right ^ 0x5555 } else { right };
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    udp(0, |ip| {
        ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        ip[9] = 6;
        ip[12..20].copy_from_slice(&ends.concat());
        ip.truncate(20);
        ip.extend(&segment);
    })
}
