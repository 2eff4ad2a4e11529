//! Fragments as the tests describe them, and as bytes, written from RFC 791, 3.1 and RFC 8200, 3
//! and 4.

use warpline_packet::LinkType;

/// A fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) link: Link,
    pub(super) version: u8,
    pub(super) src: u8,
    pub(super) ident: u32,
    pub(super) protocol: u8,
    pub(super) hops: u8,
    pub(super) dscp: u8,
    pub(super) ecn: u8,
    pub(super) dont_fragment: bool,
    /// Words of IPv4 options.
    pub(super) options: u8,
    /// IPv6 extension headers before the fragment header.
    pub(super) before: Vec<u8>,
    pub(super) offset: usize,
    pub(super) more: bool,
    pub(super) data: Vec<u8>,
    /// Bytes after the packet in the frame.
    pub(super) trailer: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    Tagged,
    Raw,
}

impl Link {
    pub(super) fn kind(self) -> LinkType {
        if self == Self::Raw { LinkType::RAW } else { LinkType::ETHERNET }
    }
}

impl Fragment {
    pub(super) fn new(version: u8, offset: usize, more: bool, data: &[u8]) -> Self {
        Self {
            link: Link::Ethernet,
            version,
            src: 1,
            ident: 7,
            protocol: 200,
            hops: 64,
            dscp: 10,
            ecn: 0,
            dont_fragment: false,
            options: 0,
            before: Vec::new(),
            offset,
            more,
            data: data.to_vec(),
            trailer: 0,
        }
    }

    pub(super) fn end(&self) -> usize {
        self.offset + self.data.len()
    }

    /// The key of its datagram.
    pub(super) fn key(&self) -> (u8, u8, u32, u8) {
        let protocol = if self.version == 4 { self.protocol } else { 0 };
        (self.version, self.src, self.ident, protocol)
    }

    /// Whose it is, where a table is full.
    pub(super) fn source(&self) -> u64 {
        if self.version == 4 { 0x0a00_0000 | u64::from(self.src) } else { 0x2001_0db8_0000_0000 }
    }

    /// Its frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut frame = self.headers(&self.data, self.ecn, true);
        frame.extend(std::iter::repeat_n(0xee, self.trailer));
        frame
    }

    /// The frame of the whole datagram, of which this is the first fragment.
    pub(super) fn whole(&self, data: &[u8], ecn: u8) -> Vec<u8> {
        self.headers(data, ecn, false)
    }

    /// Bytes before the data in the whole frame.
    pub(super) fn head_len(&self) -> usize {
        self.whole(&[], 0).len()
    }

    fn headers(&self, data: &[u8], ecn: u8, is_fragment: bool) -> Vec<u8> {
        let kind: [u8; 2] = if self.version == 4 { [8, 0] } else { [0x86, 0xdd] };
        let mut frame = match self.link {
            Link::Raw => Vec::new(),
            Link::Ethernet => [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, self.src][..], &kind].concat(),
            Link::Tagged => {
                [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, self.src, 0x81, 0, 0, 5][..], &kind].concat()
            }
        };
        let class = self.dscp << 2 | ecn;
        let ip = match self.version {
            4 => self.v4(data.len(), class, is_fragment),
            _ => self.v6(data.len(), class, is_fragment),
        };
        frame.extend(ip);
        frame.extend_from_slice(data);
        frame
    }

    fn v4(&self, data_len: usize, class: u8, is_fragment: bool) -> Vec<u8> {
        let words = 5 + self.options;
        let len = (usize::from(words) * 4 + data_len) as u16;
        let mut bits = if self.dont_fragment { 0x4000 } else { 0 };
        if is_fragment {
            bits |= if self.more { 0x2000 } else { 0 } | (self.offset / 8) as u16;
        }
        let mut ip = vec![0x40 | words, class];
        ip.extend(len.to_be_bytes());
        ip.extend((self.ident as u16).to_be_bytes());
        ip.extend(bits.to_be_bytes());
        ip.extend([self.hops, self.protocol, 0, 0, 10, 0, 0, self.src, 10, 0, 1, 1]);
        ip.extend(std::iter::repeat_n(1, usize::from(self.options) * 4));
        let mut sum: u32 = ip.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        ip
    }

    fn v6(&self, data_len: usize, class: u8, is_fragment: bool) -> Vec<u8> {
        let mut kinds = self.before.clone();
        kinds.extend(is_fragment.then_some(44));
        kinds.push(self.protocol);
        let mut rest = Vec::new();
        for pair in kinds.windows(2) {
            let (kind, next) = (pair[0], pair[1]);
            match kind {
                44 => {
                    rest.extend([next, 0]);
                    rest.extend(((self.offset as u16) | u16::from(self.more)).to_be_bytes());
                    rest.extend(self.ident.to_be_bytes());
                }
                // 16 bytes of AH: its length is in words, without two.
                51 => rest.extend([&[next, 2][..], &[0x51; 14]].concat()),
                // 16 bytes of options, all padding.
                60 => rest.extend([&[next, 1][..], &[0; 14]].concat()),
                _ => rest.extend([next, 0, 1, 4, 0, 0, 0, 0]),
            }
        }
        let word = 6_u32 << 28 | u32::from(class) << 20 | 0x1_2345;
        let mut ip = word.to_be_bytes().to_vec();
        ip.extend(((rest.len() + data_len) as u16).to_be_bytes());
        ip.extend([kinds[0], self.hops, 0x20, 1, 0xd, 0xb8]);
        ip.extend([0; 11]);
        ip.extend([self.src, 0x20, 1, 0xd, 0xb8]);
        ip.extend([1; 12]);
        ip.extend(rest);
        ip
    }
}
