//! DIR-24-8 (Gupta, Lin, McKeown 1998): longest match over IPv4 in one memory access, two for what
//! is longer than /24.
//!
//! An entry of the first table, by the upper 24 bits of an address, holds a next hop or the number
//! of a group of 256 entries, by the lower 8. Next hops are 16-bit numbers, 0 for none. [`Dir24_8`]
//! has entries of one width ([`Entry`]); [`super::Fib4`] takes the narrower one that fits.
//!
//! ```
//! use warpline_router::Dir24_8;
//! let mut fib = Dir24_8::<u16>::new(&[(0x0a00_0000, 8, 1), (0x0a01_0000, 16, 2)]).unwrap();
//! assert_eq!(fib.lookup(0x0a01_0203), 2);
//! fib.remove(0x0a01_0000, 16);
//! assert_eq!(fib.lookup(0x0a01_0203), 1);
//! ```
//!
//! Limits: 32 MiB (16-bit entries) or 64 MiB (32-bit) for the first table, whatever it holds.

use std::collections::BTreeMap;

/// A route to IPv4 addresses: the first address, the prefix length (0 to 32), the next hop.
pub type Rule4 = (u32, u8, u16);

/// Entries that surely lie in each 4 KiB page.
const PAGE: usize = 1024;
/// Slots of the first table.
const SLOTS: usize = 1 << 24;
/// Entries of a group.
const GROUP: usize = 1 << 8;
/// Addresses that are looked up together before their entries are gone into: a batch's.
const WAVE: usize = 256;
/// Entries that are gone into together: one group among them is asked for singly.
const PART: usize = 32;

/// An entry of either table: a next hop or, where its top bit is set, a group.
pub trait Entry: Copy + Eq + Send + Sync + 'static {
    /// No next hop.
    const NONE: Self;
    /// Next hops and groups have numbers below this.
    const LIMIT: usize;
    /// The entry of a next hop.
    fn of_hop(hop: u16) -> Self;
    /// The entry of a group.
    fn of_group(group: usize) -> Self;
    /// Whether it is a group's.
    fn is_group(self) -> bool;
    /// The group's number, where it is a group's.
    fn group(self) -> usize;
    /// The next hop, where it isn't.
    fn hop(self) -> u16;
}

macro_rules! entry {
    ($int:ty, $limit:expr) => {
        impl Entry for $int {
            const NONE: Self = 0;
            const LIMIT: usize = $limit;
            #[inline(always)]
            fn of_hop(hop: u16) -> Self {
                hop as Self
            }
            #[inline(always)]
            fn of_group(group: usize) -> Self {
                group as Self | 1 << (Self::BITS - 1)
            }
            #[inline(always)]
            fn is_group(self) -> bool {
                self >> (Self::BITS - 1) != 0
            }
            #[inline(always)]
            fn group(self) -> usize {
                (self & (Self::MAX >> 1)) as usize
            }
            #[inline(always)]
            fn hop(self) -> u16 {
                self as u16
            }
        }
    };
}

entry!(u16, 1 << 15);
// Every slot may have a group; next hops end at 65,535 by their type.
entry!(u32, 1 << 24);

/// An update that entries of this width can't hold; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooNarrow;

/// The two tables, and the rules they were painted from.
pub struct Dir24_8<E> {
    tables: Tables<E>,
    /// By first address and then length: what covers comes before what is covered.
    rules: BTreeMap<u64, u16>,
}

struct Tables<E> {
    tbl24: Box<[E; SLOTS]>,
    tbl8: Vec<[E; GROUP]>,
    free: Vec<usize>,
}

impl<E: Entry> Dir24_8<E> {
    /// The tables of `rules`. Of two rules with one prefix, the later one wins.
    pub fn new(rules: &[Rule4]) -> Result<Self, TooNarrow> {
        // Rules are mostly sorted as they come, which the sort inside finds at once.
        let rules: BTreeMap<u64, u16> = rules.iter().map(|&(a, l, h)| (key(a, l), h)).collect();
        let widest = rules.values().max().map_or(0, |&hop| usize::from(hop));
        if widest >= E::LIMIT || count_groups(&rules) > E::LIMIT {
            return Err(TooNarrow);
        }
        let mut tables = Tables::new();
        for (&key, &hop) in &rules {
            let (start, end) = bounds(key);
            tables.paint(start, end, hop);
        }
        Ok(Self { tables, rules })
    }

    /// The next hop of `address`, 0 for none.
    #[inline(always)]
    pub fn lookup(&self, address: u32) -> u16 {
        let entry = self.tables.tbl24[(address >> 8) as usize];
        if entry.is_group() { self.tables.in_group(entry, address) } else { entry.hop() }
    }

    /// The next hops of `addresses`, as many as both slices have.
    ///
    /// All loads come first, without tests of the loaded entries. There are no branches and no
    /// bounds checks, as 24 bits index 2^24 slots. So the processor has as many loads under way as
    /// it can. Testing in the same loop took 1.4 times as long on an EPYC core.
    pub fn lookup_bulk(&self, addresses: &[u32], hops: &mut [u16]) {
        let mut entries = [E::NONE; WAVE];
        for (addresses, hops) in addresses.chunks(WAVE).zip(hops.chunks_mut(WAVE)) {
            self.load(addresses, &mut entries);
            let parts = addresses.chunks(PART).zip(entries.chunks(PART)).zip(hops.chunks_mut(PART));
            for ((addresses, entries), hops) in parts {
                if entries[..addresses.len()].iter().fold(false, |any, e| any | e.is_group()) {
                    self.finish(addresses, entries, hops);
                } else {
                    hops.iter_mut().zip(entries).for_each(|(hop, entry)| *hop = entry.hop());
                }
            }
        }
    }

    #[inline(always)]
    fn load(&self, addresses: &[u32], entries: &mut [E; WAVE]) {
        let (eights, rest) = addresses.as_chunks::<8>();
        let (to, _) = entries.as_chunks_mut::<8>();
        for (to, addresses) in to.iter_mut().zip(eights) {
            for (to, address) in to.iter_mut().zip(addresses) {
                *to = self.tables.tbl24[(address >> 8) as usize];
            }
        }
        let at = addresses.len().min(WAVE) - rest.len();
        for (to, &address) in entries[at..].iter_mut().zip(rest) {
            *to = self.tables.tbl24[(address >> 8) as usize];
        }
    }

    fn finish(&self, addresses: &[u32], entries: &[E], hops: &mut [u16]) {
        for ((&address, &entry), hop) in addresses.iter().zip(entries).zip(hops) {
            let is_group = entry.is_group();
            *hop = if is_group { self.tables.in_group(entry, address) } else { entry.hop() };
        }
    }

    /// Adds a route, or changes the next hop of the prefix; gives the next hop that it had.
    pub fn insert(&mut self, rule: Rule4) -> Result<Option<u16>, TooNarrow> {
        let (address, len, hop) = rule;
        let key = key(address, len);
        let grouped = self.tables.tbl24[(address >> 8) as usize].is_group();
        if usize::from(hop) >= E::LIMIT || (len > 24 && !grouped && self.tables.is_full()) {
            return Err(TooNarrow);
        }
        let before = self.rules.insert(key, hop);
        self.repaint(key, hop);
        Ok(before)
    }

    /// Takes a route away; what it covered goes to the next shorter prefix. Gives its next hop.
    pub fn remove(&mut self, address: u32, len: u8) -> Option<u16> {
        let key = key(address, len);
        let before = self.rules.remove(&key)?;
        let shorter = (0..len.min(32)).rev();
        let cover = shorter.filter_map(|len| self.rules.get(&self::key(address, len))).next();
        self.repaint(key, cover.copied().unwrap_or(0));
        if len > 24 {
            self.fold_group(address);
        }
        Some(before)
    }

    /// Paints what belongs to a prefix and to no longer one.
    fn repaint(&mut self, key: u64, hop: u16) {
        let (mut at, end) = bounds(key);
        for (&nested, _) in self.rules.range(key + 1..end << 8) {
            let (start, nested_end) = bounds(nested);
            if nested_end <= at {
                continue;
            }
            self.tables.paint(at, start.max(at), hop);
            at = nested_end;
        }
        self.tables.paint(at, end, hop);
    }

    /// Gives a group back when no prefix longer than /24 is left in it.
    fn fold_group(&mut self, address: u32) {
        let slot = u64::from(address >> 8);
        let mut inside = self.rules.range(slot << 16..(slot + 1) << 16);
        if inside.all(|(&key, _)| key & 0xff <= 24) {
            self.tables.fold(slot as usize);
        }
    }

    /// The first table: 2^24 entries, as a device takes them.
    pub fn tbl24(&self) -> &[E] {
        &self.tables.tbl24[..]
    }

    /// The groups, 256 entries each.
    pub fn tbl8(&self) -> &[E] {
        self.tables.tbl8.as_flattened()
    }

    /// Routes it holds.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Groups in use.
    pub fn groups(&self) -> usize {
        self.tables.tbl8.len() - self.tables.free.len()
    }

    /// Its routes, by address and length.
    pub fn rules(&self) -> Vec<Rule4> {
        self.rules.iter().map(|(&key, &hop)| ((key >> 8) as u32, key as u8, hop)).collect()
    }
}

impl<E: Entry> Tables<E> {
    fn new() -> Self {
        let mut slots = vec![E::NONE; SLOTS].into_boxed_slice();
        // Touched here, so that no packet waits for the system to find a page.
        slots.iter_mut().step_by(PAGE).for_each(|slot| *core::hint::black_box(slot) = E::NONE);
        let Ok(tbl24) = slots.try_into() else { unreachable!("SLOTS entries were made") };
        Self { tbl24, tbl8: Vec::new(), free: Vec::new() }
    }

    #[inline(always)]
    fn in_group(&self, entry: E, address: u32) -> u16 {
        let group = self.tbl8.get(entry.group());
        group.map_or(0, |group| group[usize::from(address as u8)].hop())
    }

    fn is_full(&self) -> bool {
        self.free.is_empty() && self.tbl8.len() >= E::LIMIT
    }

    /// Gives addresses `start..end` to `hop`.
    fn paint(&mut self, start: u64, end: u64, hop: u16) {
        let mut at = start;
        while at < end {
            let (slot, low) = ((at >> 8) as usize, (at & 0xff) as usize);
            let whole = (end >> 8) as usize;
            if low == 0 && slot < whole {
                self.paint_slots(slot, whole, hop);
                at = (whole as u64) << 8;
            } else {
                let stop = end.min((slot as u64 + 1) << 8);
                let high = low + (stop - at) as usize;
                self.group_of(slot)[low..high].fill(E::of_hop(hop));
                at = stop;
            }
        }
    }

    fn paint_slots(&mut self, first: usize, end: usize, hop: u16) {
        for slot in &mut self.tbl24[first..end] {
            if slot.is_group() {
                self.free.push(slot.group());
            }
            *slot = E::of_hop(hop);
        }
    }

    /// The group of a slot, made from its entry where it has none.
    fn group_of(&mut self, slot: usize) -> &mut [E; GROUP] {
        let entry = self.tbl24[slot];
        if entry.is_group() {
            return &mut self.tbl8[entry.group()];
        }
        let group = self.free.pop().unwrap_or(self.tbl8.len());
        if group == self.tbl8.len() {
            self.tbl8.push([E::NONE; GROUP]);
        }
        self.tbl24[slot] = E::of_group(group);
        self.tbl8[group] = [entry; GROUP];
        &mut self.tbl8[group]
    }

    fn fold(&mut self, slot: usize) {
        let entry = self.tbl24[slot];
        if entry.is_group() {
            self.tbl24[slot] = self.tbl8[entry.group()][0];
            self.free.push(entry.group());
        }
    }
}

fn key(address: u32, len: u8) -> u64 {
    let len = len.min(32);
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    u64::from(address & mask) << 8 | u64::from(len)
}

/// First address of a rule, and the one after its last.
fn bounds(key: u64) -> (u64, u64) {
    let start = key >> 8;
    (start, start + (1 << (32 - (key & 0xff))))
}

fn count_groups(rules: &BTreeMap<u64, u16>) -> usize {
    let mut slots: Vec<u64> =
        rules.keys().filter(|&key| key & 0xff > 24).map(|key| key >> 16).collect();
    slots.dedup();
    slots.len()
}
