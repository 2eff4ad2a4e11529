//! The routes that begin at one place, as sorted ranges of addresses.

use core::net::IpAddr;

use warpline_packet::Prefix;

use super::To;

/// The destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An IPv4 address.
    V4(u32),
    /// An IPv6 address.
    V6(u128),
    /// It has none.
    None,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// The next place; `None` drops it.
    pub to: Option<To>,
    /// The number that this hop adds to the number of the packet's path.
    pub step: u32,
}

impl RouteEntry {
    const NONE: Self = Self { to: None, step: 0 };
}

/// Addresses from each start to the next, with an entry each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges<A> {
    starts: Vec<A>,
    entries: Vec<RouteEntry>,
}

impl<A: Copy + Ord + From<u8>> Ranges<A> {
    /// Of blocks with their first and last address that are nested or apart; `rest` is the entry of
    /// all other addresses.
    fn new(
        mut blocks: Vec<(A, A, RouteEntry)>,
        rest: RouteEntry,
        after: impl Fn(A) -> Option<A>,
    ) -> Self {
        // An outer block comes before those in it.
        blocks.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut changes: Vec<(A, RouteEntry)> = vec![(A::from(0), rest)];
        let mut open: Vec<(A, RouteEntry)> = Vec::new();
        let close = |open: &mut Vec<(A, RouteEntry)>, changes: &mut Vec<(A, RouteEntry)>| {
            let ended = open.pop();
            let outer = open.last().map_or(rest, |(_, entry)| *entry);
            if let Some(start) = ended.and_then(|(last, _)| after(last)) {
                changes.push((start, outer));
            }
        };
        for (first, last, entry) in blocks {
            while open.last().is_some_and(|(end, _)| *end < first) {
                close(&mut open, &mut changes);
            }
            open.push((last, entry));
            changes.push((first, entry));
        }
        while !open.is_empty() {
            close(&mut open, &mut changes);
        }
        let (mut starts, mut entries): (Vec<A>, Vec<RouteEntry>) = (Vec::new(), Vec::new());
        for (start, entry) in changes {
            if starts.last() == Some(&start) {
                starts.pop();
                entries.pop();
            }
            if entries.last() != Some(&entry) {
                starts.push(start);
                entries.push(entry);
            }
        }
        Self { starts, entries }
    }

    #[inline]
    fn find(&self, address: A) -> RouteEntry {
        let after = self.starts.partition_point(|start| *start <= address);
        // The first range starts at 0.
        self.entries.get(after.wrapping_sub(1)).copied().unwrap_or(RouteEntry::NONE)
    }
}

/// The routes that begin at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    other: RouteEntry,
}

impl RouteTable {
    /// Of routes with different prefixes; `step` gives the number that a hop adds to the path's.
    pub(super) fn new(routes: &[(Option<Prefix>, To)], step: impl Fn(To) -> u32) -> Self {
        let entry = |to| RouteEntry { to: Some(to), step: step(to) };
        let every = routes.iter().find(|(prefix, _)| prefix.is_none());
        let other = every.map_or(RouteEntry::NONE, |(_, to)| entry(*to));
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (prefix, to) in routes {
            let Some(prefix) = prefix else { continue };
            let (first, last) = prefix.bounds();
            match prefix.address() {
                IpAddr::V4(_) => v4.push((first as u32, last as u32, entry(*to))),
                IpAddr::V6(_) => v6.push((first, last, entry(*to))),
            }
        }
        Self {
            v4: Ranges::new(v4, other, |last| last.checked_add(1)),
            v6: Ranges::new(v6, other, |last| last.checked_add(1)),
            other,
        }
    }

    /// The entry of the longest prefix that has `destination`.
    #[inline]
    pub fn find(&self, destination: Destination) -> RouteEntry {
        match destination {
            Destination::V4(address) => self.v4.find(address),
            Destination::V6(address) => self.v6.find(address),
            Destination::None => self.other,
        }
    }

    /// Whether every packet goes to `to`.
    pub(super) fn is_straight(&self, to: To) -> bool {
        let all = self.v4.entries.iter().chain(&self.v6.entries).chain([&self.other]);
        all.into_iter().all(|entry| entry.to == Some(to))
    }
}
