//! Packets built from descriptions, and expected results that do not depend on the function.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use warpline_packet::LinkType;
use warpline_packet::hash::mix32;

use warpline_verify::Input;

/// A packet, and where in it compression is to begin.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) link: LinkType,
    pub(super) frame: Vec<u8>,
    pub(super) l3: usize,
    /// The byte that names what is at `body`.
    pub(super) next_at: usize,
    pub(super) body: usize,
}

/// Ones' complement sum of big-endian words, one after the other.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0u32, |sum, pair| {
        let sum = sum + u32::from(pair[0]) * 256 + pair.get(1).map_or(0, |&b| u32::from(b));
        (sum & 0xffff) + (sum >> 16)
    }) as u16
}

impl Case {
    /// IPv4 with these options, in Ethernet.
    pub(super) fn v4(options: &[u8], protocol: u8, body: &[u8]) -> Self {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let header_len = 20 + options.len();
        frame.extend([0x40 | (header_len / 4) as u8, 0]);
        frame.extend(((header_len + body.len()) as u16).to_be_bytes());
        frame.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
        frame.extend(options);
        frame.extend(body);
        let case =
            Self { link: LinkType::ETHERNET, frame, l3: 14, next_at: 23, body: 14 + header_len };
        case.summed()
    }

    /// IPv6 with these extension headers, each with its number; the last `behind` of them are
    /// compressed.
    pub(super) fn v6(headers: &[(u8, Vec<u8>)], behind: usize, protocol: u8, body: &[u8]) -> Self {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
        let len = headers.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() + body.len();
        let first = headers.first().map_or(protocol, |(number, _)| *number);
        frame.extend([0x60, 1, 2, 3]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([first, 64]);
        frame.extend([[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]; 2].concat());
        let mut case = Self { link: LinkType::ETHERNET, frame, l3: 14, next_at: 20, body: 54 };
        for (place, (_, bytes)) in headers.iter().enumerate() {
            let at = case.frame.len();
            case.frame.extend(bytes);
            case.frame[at] = headers.get(place + 1).map_or(protocol, |(number, _)| *number);
            if place + behind < headers.len() {
                (case.next_at, case.body) = (at, case.frame.len());
            }
        }
        case.frame.extend(body);
        case
    }

    /// With another link header before the IP header.
    pub(super) fn behind(mut self, link: LinkType, header: &[u8]) -> Self {
        let shift = |at: usize| at - self.l3 + header.len();
        (self.next_at, self.body, self.link) = (shift(self.next_at), shift(self.body), link);
        self.frame.splice(..self.l3, header.iter().copied());
        self.l3 = header.len();
        self
    }

    /// With the IPv4 header checksum set right.
    pub(super) fn summed(mut self) -> Self {
        if self.frame[self.l3] >> 4 == 4 {
            let header = self.l3..self.l3 + 4 * usize::from(self.frame[self.l3] & 15);
            self.frame[self.l3 + 10..self.l3 + 12].fill(0);
            let check = !sum(&self.frame[header]);
            self.frame[self.l3 + 10..self.l3 + 12].copy_from_slice(&check.to_be_bytes());
        }
        self
    }

    pub(super) fn input(&self) -> Input {
        Input { link: self.link, ..Input::at(0, &self.frame) }
    }

    fn is_v4(&self) -> bool {
        self.frame[self.l3] >> 4 == 4
    }

    /// The packet with another payload after its headers.
    pub(super) fn with_body(&self, protocol: u8, body: &[u8]) -> Self {
        let mut made = self.clone();
        made.frame.truncate(self.body);
        made.frame.extend(body);
        made.frame[self.next_at] = protocol;
        let (at, less) = if self.is_v4() { (self.l3 + 2, 0) } else { (self.l3 + 4, 40) };
        let len = (made.frame.len() - self.l3 - less) as u16;
        made.frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
        made.summed()
    }

    /// The packet as another library compresses it, with this index.
    pub(super) fn compressed(&self, cpi: u16) -> Self {
        self.carrying(cpi, &compress_to_vec(&self.frame[self.body..], 6))
    }

    /// The packet with an IPComp header followed by these bytes.
    pub(super) fn carrying(&self, cpi: u16, stream: &[u8]) -> Self {
        let [high, low] = cpi.to_be_bytes();
        let header = [self.frame[self.next_at], 0, high, low];
        self.with_body(108, &[&header, stream].concat())
    }

    /// Whether `out` is this packet compressed by whatever library, and nothing else about it
    /// changed.
    pub(super) fn is_compressed_in(&self, out: &[u8], cpi: u16) -> bool {
        let Some((header, stream)) = out.get(self.body..).and_then(|b| b.split_first_chunk::<4>())
        else {
            return false;
        };
        let payload = decompress_to_vec_with_limit(stream, 70_000);
        out.len() < self.frame.len()
            && header[..2] == [self.frame[self.next_at], 0]
            && payload.is_ok_and(|payload| payload == self.frame[self.body..])
            && self.carrying(cpi, stream).frame == out
    }
}

/// A UDP header and its payload; the checksum is anything.
pub(super) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x13, 0x89];
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0xab, 0xcd]);
    bytes.extend(payload);
    bytes
}

/// Content that compresses well for a small `kind`, and not at all from 250 on.
pub(super) fn content(len: usize, kind: u32) -> Vec<u8> {
    (0..len as u32).map(|i| (mix32(i ^ kind << 16) % (1 + kind).min(256)) as u8).collect()
}

/// Hop-by-hop or destination options, or a routing header, of `units` times 8 bytes.
pub(super) fn extension(number: u8, units: usize) -> (u8, Vec<u8>) {
    let mut bytes = vec![0; 8 * units];
    bytes[1] = units as u8 - 1;
    // PadN over the rest; for a routing header, a type without segments left.
    bytes[2] = if number == 43 { 4 } else { 1 };
    bytes[3] = if number == 43 { 0 } else { 8 * units as u8 - 4 };
    (number, bytes)
}

/// Every shape of headers, each with this payload.
pub(super) fn shapes(payload: &[u8]) -> Vec<Case> {
    let udp = udp(payload);
    let (hop, routing, options) = (extension(0, 1), extension(43, 3), extension(60, 2));
    let v4 = Case::v4(&[], 17, &udp);
    let vlan = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 0];
    vec![
        v4.clone(),
        v4.clone().behind(LinkType::RAW, &[]),
        v4.behind(LinkType::ETHERNET, &vlan),
        Case::v4(&[1, 1, 1, 0], 17, &udp),
        Case::v4(&[], 253, payload),
        Case::v6(&[], 0, 17, &udp),
        Case::v6(std::slice::from_ref(&hop), 0, 17, &udp),
        Case::v6(std::slice::from_ref(&options), 1, 17, &udp),
        Case::v6(&[hop.clone(), routing.clone()], 0, 17, &udp),
        Case::v6(&[hop, options.clone(), routing, options], 1, 17, &udp),
    ]
}
