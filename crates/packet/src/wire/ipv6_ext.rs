//! The walk over IPv6 extension headers (RFC 8200, 4; RFC 4302 for AH) to the upper-layer header.
//!
//! It walks over hop-by-hop options, routing, fragment and destination options headers and AH. Any
//! other number ends the chain, including ESP and "no next header". Options inside are not read.
//! Hosts accept any number of headers (Linux 6.18 does), so only the packet's length bounds it:
//! whoever stopped earlier would let through what it must inspect.

use super::be::Value;
use super::{Malformed, ip_protocol, ipv6};

/// Bytes of the least extension header, and of every fragment header.
pub const HEADER_LEN: usize = 8;

/// Where each field of an extension header is; the last two, of the fragment header.
pub mod field {
    use core::ops::Range;

    /// The bytes after this header.
    pub const NEXT_HEADER: Range<usize> = 0..1;
    /// Length: in units of 8 bytes without the first; in AH, of 4 bytes without the first two.
    pub const LEN: Range<usize> = 1..2;
    /// Fragment offset in units of 8 bytes (13 bits), reserved (2), more fragments (1).
    pub const OFFSET_FLAGS: Range<usize> = 2..4;
    /// Identification, which the fragments of a packet share.
    pub const IDENT: Range<usize> = 4..8;
}

/// Types of options (RFC 8200, 4.2).
pub mod option {
    /// One byte of padding, which has no length.
    pub const PAD1: u8 = 0;
    /// Padding of any length.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// Security labels (RFC 5570).
    pub const CALIPSO: u8 = 7;
    /// Jumbo payload (RFC 2675).
    pub const JUMBO: u8 = 0xc2;
}

/// The options in the bytes of a hop-by-hop or destination options header after its first two: type
/// and value. They end before the first that exceeds the bytes.
pub fn options(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let (&kind, behind) = rest.split_first()?;
        let (len, behind) = match kind {
            option::PAD1 => (0, behind),
            _ => behind.split_first().map(|(&len, behind)| (usize::from(len), behind))?,
        };
        let (value, behind) = behind.split_at_checked(len)?;
        rest = behind;
        Some((kind, value))
    })
}

/// The content of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where the fragment header is, in bytes from the start of the IPv6 header.
    pub at: usize,
    /// Where the fragment's data belong, in bytes.
    pub offset: u16,
    /// Whether fragments follow this one.
    pub more: bool,
    /// Identification, which the fragments of a packet share.
    pub ident: u32,
}

/// The result of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol at the end of the chain. In a fragment that isn't the first, it is the one
    /// named by the fragment header, which may be another extension header.
    pub protocol: u8,
    /// Where that starts, in bytes from the start of the IPv6 header; never beyond the packet's
    /// end.
    pub offset: usize,
    /// How many extension headers were walked over.
    pub headers: u16,
    /// The fragment header, if there is one.
    pub fragment: Option<Fragment>,
    /// Whether the buffer ended before the chain, but the packet was longer: the capture cut it.
    /// Then `offset` is not in the buffer, or `protocol` is a header that isn't complete.
    pub cut: bool,
}

impl Chain {
    /// That of a packet whose header is not followed by extension headers.
    pub(super) fn of_none(next_header: u8) -> Self {
        let offset = ipv6::HEADER_LEN;
        Self { protocol: next_header, offset, headers: 0, fragment: None, cut: false }
    }

    /// Whether it is that of a later fragment, in which the middle of something follows.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset != 0)
    }
}

/// Walks the chain that starts with `next_header`, after the IPv6 header at the start of `packet`.
/// The packet had `total_len` bytes on the wire by its own header.
///
/// # Errors
/// [`Malformed::Ipv6Extension`] if the chain exceeds the packet's end, has a second fragment
/// header, or hop-by-hop options that are not first.
/// [`Malformed::FragmentBounds`] if the reassembled datagram would exceed 65,535 bytes.
pub fn walk(next_header: u8, packet: &[u8], total_len: usize) -> Result<Chain, Malformed> {
    let mut chain = Chain::of_none(next_header);
    while ip_protocol::is_extension(chain.protocol) && !chain.is_later_fragment() {
        let misplaced = chain.protocol == ip_protocol::HOP_BY_HOP && chain.headers > 0;
        if misplaced || chain.offset + HEADER_LEN > total_len {
            return Err(Malformed::Ipv6Extension);
        }
        let Some(header) = packet.get(chain.offset..chain.offset + HEADER_LEN) else {
            chain.cut = true;
            break;
        };
        step(&mut chain, header, total_len)?;
    }
    chain.cut |= chain.offset > packet.len();
    Ok(chain)
}

/// The chain of the packet that an ICMPv6 error quotes, if the quote has all of it. Quotes may be
/// shorter than their packet, so the quoted bytes alone limit the chain.
pub fn of_quote(next_header: u8, quote: &[u8]) -> Option<Chain> {
    walk(next_header, quote, quote.len()).ok().filter(|chain| !chain.cut)
}

/// Walks over one header, given its first 8 bytes.
fn step(chain: &mut Chain, header: &[u8], total_len: usize) -> Result<(), Malformed> {
    if chain.protocol == ip_protocol::FRAGMENT {
        if chain.fragment.is_some() {
            return Err(Malformed::Ipv6Extension);
        }
        chain.fragment = Some(fragment(chain.offset, header, total_len)?);
    }
    let end = chain.offset + header_len(chain.protocol, header)?;
    if end > total_len {
        return Err(Malformed::Ipv6Extension);
    }
    chain.protocol = header[field::NEXT_HEADER.start];
    chain.offset = end;
    chain.headers += 1;
    Ok(())
}

fn header_len(protocol: u8, header: &[u8]) -> Result<usize, Malformed> {
    let units = usize::from(header[field::LEN.start]);
    match protocol {
        ip_protocol::FRAGMENT => Ok(HEADER_LEN),
        // RFC 4302, 2.2: 32-bit words minus 2; the fixed part alone has 3.
        ip_protocol::AH if units == 0 => Err(Malformed::Ipv6Extension),
        ip_protocol::AH => Ok((units + 2) * 4),
        _ => Ok((units + 1) * 8),
    }
}

fn fragment(at: usize, header: &[u8], total_len: usize) -> Result<Fragment, Malformed> {
    let word = u16::get(header, field::OFFSET_FLAGS);
    let offset = word & !7;
    // RFC 8200, 4.5: the payload length of the whole must not exceed 65,535. It is the headers
    // before the fragment header and the data up to the end of this fragment.
    let before = at - ipv6::HEADER_LEN;
    let data = total_len - at - HEADER_LEN;
    if before + usize::from(offset) + data > usize::from(u16::MAX) {
        return Err(Malformed::FragmentBounds);
    }
    Ok(Fragment { at, offset, more: word & 1 != 0, ident: Value::get(header, field::IDENT) })
}

#[cfg(test)]
mod tests {
    use super::super::Ipv6;
    use super::*;

    /// A packet with the payload `payload`, and `next` after the IPv6 header.
    fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes.extend(payload);
        let mut ipv6 = Ipv6::new_unchecked(&mut bytes[..]);
        ipv6.set_class_and_flow(0, 0);
        ipv6.set_payload_len(payload.len() as u16);
        ipv6.set_next_header(next);
        bytes
    }

    fn chain(next: u8, payload: &[u8]) -> Result<Chain, Malformed> {
        Ipv6::new_checked(packet(next, payload))?.extensions()
    }

    #[test]
    fn walks_over_every_kind() {
        let payload = [
            &[43, 1, 5, 2, 0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0][..], // hop-by-hop, 16 bytes
            &[44, 0, 0, 0, 0, 0, 0, 0],                              // routing, 8 bytes
            &[51, 99, 0, 1, 0xde, 0xad, 0xbe, 0xef],                 // fragment, first of more
            &[60, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9],                  // AH without ICV, 12 bytes
            &[6, 0, 1, 4, 0, 0, 0, 0],                               // destination options
            &[0; 20],                                                // TCP
        ]
        .concat();
        let fragment = Fragment { at: 64, offset: 0, more: true, ident: 0xdead_beef };
        let found =
            Chain { protocol: 6, offset: 92, headers: 5, fragment: Some(fragment), cut: false };
        assert_eq!(chain(0, &payload), Ok(found));
    }

    #[test]
    fn ends_at_once_without_extensions() {
        for protocol in [6, 17, 50, 58, 59, 200] {
            let found = chain(protocol, &[0; 8]).unwrap();
            assert_eq!((found.protocol, found.offset, found.headers), (protocol, 40, 0));
        }
    }

    #[test]
    fn nothing_follows_a_header_that_says_no_payload() {
        let found = chain(60, &[]).unwrap();
        assert_eq!((found.protocol, found.offset, found.headers), (60, 40, 0));
        assert_eq!(chain(0, &[]).map(|chain| chain.headers), Ok(0));
    }

    #[test]
    fn a_later_fragment_ends_the_chain() {
        let found = chain(44, &[60, 0, 0x05, 0xa8, 0, 0, 0, 1, 0xff, 0xff]).unwrap();
        assert_eq!((found.protocol, found.offset), (60, 48));
        let fragment = Fragment { at: 40, offset: 1448, more: false, ident: 1 };
        assert_eq!(found.fragment, Some(fragment));
    }

    #[test]
    fn refuses_what_lies() {
        let lies: [(u8, &[u8]); 6] = [
            (60, &[6, 0, 0, 0, 0, 0, 0]),    // one byte short
            (60, &[6, 1, 0, 0, 0, 0, 0, 0]), // longer than the packet
            (51, &[6, 0, 0, 0, 0, 0, 0, 0]), // AH shorter than its fixed part
            (51, &[6, 1, 0, 0, 0, 0, 0, 0]), // AH over the end
            (60, &[0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]), // hop-by-hop second
            (44, &[44, 0, 0, 1, 0, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 0]), // fragment twice
        ];
        for (next, payload) in lies {
            assert_eq!(chain(next, payload), Err(Malformed::Ipv6Extension), "{next} {payload:?}");
        }
    }

    #[test]
    fn walks_over_any_number_of_headers() {
        for count in [16, 17, 187, 8_191] {
            let mut payload = [60, 0, 0, 0, 0, 0, 0, 0].repeat(count);
            payload[(count - 1) * 8] = 17;
            let found = chain(60, &payload).unwrap();
            assert_eq!((usize::from(found.headers), found.protocol), (count, 17));
        }
    }

    #[test]
    fn refuses_a_fragment_that_ends_too_late() {
        let fragment = |offset: u16, data: usize| {
            let mut payload = vec![17, 0, 0, 0, 0, 0, 0, 0];
            payload[2..4].copy_from_slice(&offset.to_be_bytes());
            payload.resize(8 + data, 0);
            chain(44, &payload)
        };
        assert!(fragment(65_528, 7).is_ok());
        assert_eq!(fragment(65_528, 8), Err(Malformed::FragmentBounds));
    }

    #[test]
    fn distinguishes_truncation_from_a_false_length() {
        let whole = packet(60, &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        for kept in 40..whole.len() {
            let view = Ipv6::new_unchecked(&whole[..kept]);
            assert_eq!(view.check_within(whole.len()), Ok(()));
            let found = view.extensions_within(whole.len()).unwrap();
            assert_eq!(found.cut, kept < 56, "{kept}");
            assert_eq!(found.protocol, if kept < 48 { 60 } else { 17 });
        }
    }
}
