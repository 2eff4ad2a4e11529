//! New rows of a table: their values besides the places of their frames.
//!
//! Safety: rows are written after the last one, where every column has memory for more. Any bytes
//! are valid values of a column.

#![allow(unsafe_code)]

use core::slice;

use super::columns::*;
use super::table::Table;
use crate::{Arrival, Headers};

/// The values of a row besides the place of its frame.
#[derive(Clone)]
pub(crate) struct Row<'a> {
    pub(crate) headers: &'a Headers,
    pub(crate) arrival: Arrival,
}

impl Table {
    /// Takes `count` rows whose frames were placed after the last one. Columns that are not named
    /// stay zero.
    #[inline(always)]
    pub(super) fn append<'a>(&mut self, count: usize, rows: impl Iterator<Item = Row<'a>> + Clone) {
        assert!(count <= self.slots - self.len);
        // SAFETY: each call names each column once.
        unsafe {
            let (hashes, shards) = (self.new_rows(FlowHash, count), self.new_rows(ShardOf, count));
            write_found(self.new_rows(HeadersOf, count), hashes, shards, rows.clone());
            let times = self.new_rows(Timestamp, count).iter_mut().zip(rows.clone());
            times.for_each(|(time, row)| *time = row.arrival.timestamp.as_nanos());
            let (captured, lens) = (self.new_rows(Captured, count), self.new_rows(WireLen, count));
            let (interfaces, links) = (self.new_rows(Interface, count), self.new_rows(Link, count));
            write_given(captured, lens, interfaces, links, rows.clone());
            let numbers = self.new_rows(Ingress, count);
            numbers.iter_mut().zip(rows).for_each(|(number, row)| *number = row.arrival.ingress);
        }
        self.len += count;
    }

    /// The `count` rows of a column after the last one.
    ///
    /// # Safety
    /// The table must have that many, and they must not be accessed in another way meanwhile.
    #[inline(always)]
    unsafe fn new_rows<'a, C: Column>(&self, _: C, count: usize) -> &'a mut [C::Value] {
        // SAFETY: the column has `slots` initialised values.
        unsafe { slice::from_raw_parts_mut(self.start_of::<C>().add(self.len), count) }
    }

    /// Notes whether the rows that were not looked at are like those before them.
    pub(crate) fn compare(&mut self) {
        let from = self.compared;
        let (headers, links) = (&self.column(HeadersOf)[from..], &self.column(Link)[from..]);
        let ([own, ..], [link, ..]) = (headers, links) else { return };
        let ((own, link), alike) = match from {
            0 => ((*own, *link), true),
            _ => (self.first, self.alike),
        };
        // SAFETY: headers are 16 bytes of integers without padding, any bytes are valid, and they
        // are aligned to 16.
        let words =
            unsafe { slice::from_raw_parts(headers.as_ptr().cast::<[u64; 2]>(), headers.len()) };
        let [own_low, own_high] = own.words();
        let (mut low, mut high) = (0, 0);
        for word in words {
            (low, high) = (low | (word[0] ^ own_low), high | (word[1] ^ own_high));
        }
        let links = links.iter().fold(0, |any, other| any | (other ^ link));
        let [low_shape, high_shape] = Headers::SHAPE;
        let are_alike = low & low_shape == 0 && high & high_shape == 0 && links == 0;
        (self.first, self.alike, self.compared) = ((own, link), alike && are_alike, self.len);
    }
}

/// Writes what was found out about frames.
#[inline(always)]
fn write_found<'a>(
    headers: &mut [Headers],
    hashes: &mut [u32],
    shards: &mut [u8],
    rows: impl Iterator<Item = Row<'a>>,
) {
    let columns = headers.iter_mut().zip(hashes).zip(shards);
    for (((headers, hash), shard), row) in columns.zip(rows) {
        *headers = *row.headers;
        (*hash, *shard) = (row.arrival.flow_hash, row.arrival.shard);
    }
}

/// Writes what their source said of frames.
#[inline(always)]
fn write_given<'a>(
    captured: &mut [u64],
    lens: &mut [u32],
    interfaces: &mut [u16],
    links: &mut [u16],
    rows: impl Iterator<Item = Row<'a>>,
) {
    let columns = captured.iter_mut().zip(lens).zip(interfaces).zip(links);
    for ((((captured, len), interface), link), row) in columns.zip(rows) {
        *captured = row.arrival.captured.as_nanos();
        *len = row.arrival.wire_len;
        (*interface, *link) = (row.arrival.interface, row.arrival.link.0);
    }
}
