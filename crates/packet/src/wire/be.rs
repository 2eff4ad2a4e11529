//! Big-endian integers at a field's byte range, read and written.

use core::ops::Range;

#[inline]
pub(super) fn get16(data: &[u8], field: Range<usize>) -> u16 {
    let mut bytes = [0; 2];
    bytes.copy_from_slice(&data[field]);
    u16::from_be_bytes(bytes)
}

#[inline]
pub(super) fn get32(data: &[u8], field: Range<usize>) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&data[field]);
    u32::from_be_bytes(bytes)
}

#[inline]
pub(super) fn get_array<const N: usize>(data: &[u8], field: Range<usize>) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[field]);
    bytes
}

#[inline]
pub(super) fn set16(data: &mut [u8], field: Range<usize>, value: u16) {
    data[field].copy_from_slice(&value.to_be_bytes());
}

#[inline]
pub(super) fn set32(data: &mut [u8], field: Range<usize>, value: u32) {
    data[field].copy_from_slice(&value.to_be_bytes());
}

/// The bytes from `start` up to `end`, or to where `data` ends if that is sooner; empty where
/// `start` lies behind.
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
