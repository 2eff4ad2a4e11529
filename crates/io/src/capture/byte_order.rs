//! Integers in the byte order of the machine that wrote a capture.

/// The order of a file or a pcapng section.
///
/// Its readers take a place that the caller knows to lie within `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let value = array(bytes, at);
        match self {
            Self::Little => u16::from_le_bytes(value),
            Self::Big => u16::from_be_bytes(value),
        }
    }

    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let value = array(bytes, at);
        match self {
            Self::Little => u32::from_le_bytes(value),
            Self::Big => u32::from_be_bytes(value),
        }
    }

    #[inline]
    pub(super) fn i64(self, bytes: &[u8], at: usize) -> i64 {
        let value = array(bytes, at);
        match self {
            Self::Little => i64::from_le_bytes(value),
            Self::Big => i64::from_be_bytes(value),
        }
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}
