//! Values at a field's byte range, big-endian, read and written.

use core::convert::identity;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// A value of a field of as many bytes.
pub(super) trait Value: Sized {
    fn get(data: &[u8], field: Range<usize>) -> Self;
    fn set(self, data: &mut [u8], field: Range<usize>);
}

macro_rules! values {
    ($($value:ty: $from:path, $to:path;)*) => {$(
        impl Value for $value {
            #[inline]
            fn get(data: &[u8], field: Range<usize>) -> Self {
                $from(get_array(data, field))
            }

            #[inline]
            fn set(self, data: &mut [u8], field: Range<usize>) {
                data[field].copy_from_slice(&$to(self));
            }
        }
    )*};
}

values! {
    u8: Self::from_be_bytes, Self::to_be_bytes;
    u16: Self::from_be_bytes, Self::to_be_bytes;
    u32: Self::from_be_bytes, Self::to_be_bytes;
    [u8; 6]: identity, identity;
    Ipv4Addr: Self::from_octets, octets_v4;
    Ipv6Addr: Self::from_octets, octets_v6;
}

#[inline]
const fn octets_v4(address: Ipv4Addr) -> [u8; 4] {
    address.octets()
}

#[inline]
const fn octets_v6(address: Ipv6Addr) -> [u8; 16] {
    address.octets()
}

#[inline]
fn get_array<const N: usize>(data: &[u8], field: Range<usize>) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[field]);
    bytes
}

/// The bytes from `start` up to `end`, or to where `data` ends if that is sooner; empty if `start`
/// is after that.
#[inline]
pub(super) fn clamped(data: &[u8], start: usize, end: usize) -> &[u8] {
    data.get(start..end.min(data.len())).unwrap_or_default()
}

/// As [`clamped`], to write.
#[inline]
pub(super) fn clamped_mut(data: &mut [u8], start: usize, end: usize) -> &mut [u8] {
    let end = end.min(data.len());
    data.get_mut(start..end).unwrap_or_default()
}
