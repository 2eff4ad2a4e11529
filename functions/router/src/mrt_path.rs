//! The path attributes of an entry of a dump (RFC 4271, 4.3; RFC 4760, 3; RFC 6396, 4.3.4): the
//! next hop and the length of the AS path. All others are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The fields of a record, one after the other.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    /// Where they begin in the record.
    at: usize,
}

type Fault = (usize, String);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next field begins in the record.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The remaining bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `len` bytes.
    pub(super) fn part(&mut self, len: usize) -> Result<Self, Fault> {
        let Some((part, rest)) = self.bytes.split_at_checked(len) else {
            let left = self.bytes.len();
            return Err((self.at, format!("{len} bytes are required here, {left} are left")));
        };
        let at = self.at;
        (self.bytes, self.at) = (rest, at + len);
        Ok(Self { bytes: part, at })
    }

    pub(super) fn skip(&mut self, len: usize) -> Result<(), Fault> {
        self.part(len).map(drop)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.part(1)?.bytes[0])
    }

    pub(super) fn be16(&mut self) -> Result<u16, Fault> {
        let part = self.part(2)?.bytes;
        Ok(u16::from_be_bytes([part[0], part[1]]))
    }
}

/// The next hop and path length from an entry's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) next_hop: Option<IpAddr>,
    /// Of the AS path: a set counts as one (RFC 4271, 9.1.2.2), a confederation as none (RFC 5065,
    /// 5.3).
    pub(super) len: usize,
}

mod attribute {
    pub(super) const EXTENDED_LENGTH: u8 = 0x10;
    pub(super) const AS_PATH: u8 = 2;
    pub(super) const NEXT_HOP: u8 = 3;
    pub(super) const MP_REACH_NLRI: u8 = 14;
}

impl Path {
    /// Reads the attributes of an entry for a prefix of IP `version`. NEXT_HOP has the next hop of
    /// IPv4, MP_REACH_NLRI that of IPv6 (RFC 4760, 3). If one is missing, the other is used.
    pub(super) fn read(attributes: &mut Fields<'_>, version: u8) -> Result<Self, Fault> {
        let mut path = Self::default();
        let (mut plain, mut reached) = (None, None);
        while !attributes.is_empty() {
            let (flags, kind) = (attributes.u8()?, attributes.u8()?);
            let len = match flags & attribute::EXTENDED_LENGTH {
                0 => attributes.u8()?.into(),
                _ => attributes.be16()?,
            };
            let mut value = attributes.part(len.into())?;
            match kind {
                attribute::AS_PATH => path.len = as_path_len(&mut value)?,
                attribute::NEXT_HOP => plain = Some(address(&value)?),
                attribute::MP_REACH_NLRI => reached = Some(mp_next_hop(&mut value)?),
                _ => {}
            }
        }
        path.next_hop = if version == 4 { plain.or(reached) } else { reached.or(plain) };
        Ok(path)
    }
}

/// RFC 6396, 4.3.4: "All AS numbers in the AS_PATH attribute MUST be encoded as 4-byte AS numbers."
fn as_path_len(value: &mut Fields<'_>) -> Result<usize, Fault> {
    const AS_SET: u8 = 1;
    const AS_SEQUENCE: u8 = 2;
    let mut len = 0;
    while !value.is_empty() {
        let (kind, count) = (value.u8()?, usize::from(value.u8()?));
        value.skip(count * 4)?;
        len += match kind {
            AS_SET => 1,
            AS_SEQUENCE => count,
            _ => 0,
        };
    }
    Ok(len)
}

/// RFC 6396, 4.3.4: only the length and the address of the next hop are there. Some write all of
/// the attribute (RFC 4760, 3): an address family comes first, whose upper byte is 0, as no length
/// is.
fn mp_next_hop(value: &mut Fields<'_>) -> Result<IpAddr, Fault> {
    let mut len = value.u8()?;
    if len == 0 {
        value.skip(2)?;
        len = value.u8()?;
    }
    address(&value.part(len.into())?)
}

/// An address; of IPv6 a link-local one may follow it (RFC 2545, 3).
fn address(value: &Fields<'_>) -> Result<IpAddr, Fault> {
    let bytes = value.rest();
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    match bytes.first_chunk::<16>() {
        Some(octets) if matches!(bytes.len(), 16 | 32) => Ok(Ipv6Addr::from(*octets).into()),
        _ => Err((value.at(), format!("a next hop of {} bytes", bytes.len()))),
    }
}
