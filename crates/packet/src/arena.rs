//! The arena: one lane's packets in memory it was given, and the only file here with `unsafe`.
//!
//! A [`Memory`] is divided once, when the chain is built: first the tables of descriptors (structure
//! of arrays, no pointers), then slabs of 1 MiB. A [`Placer`] copies frames into its current slab, 64 B
//! aligned, each in a *room* that nobody else gets; the descriptor that names the room lives in a
//! [`Table`], which is moved, never shared. A row may be given another room; nobody gets the old one before the
//! table is cleared. A slab is free again when the last table with a piece
//! of it is cleared; that count is the only thing that threads share.
//!
//! Safety rests on three facts, all kept in this file (how long things are is summed up in `arena_layout.rs`): a room is handed to one descriptor only; the
//! columns that name rooms are written here only, and always within the slab; a table's rows and rooms
//! are reached through `&` and `&mut` of the table alone.

#![allow(unsafe_code)]

use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use core::{array, ptr, slice};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::Arc;

use crate::arena_layout::{ALIGN, ArenaError, ArenaLayout, Full, SLAB_LEN, frame_start};
use crate::{Arrival, Headers};

/// Memory that an arena is given: heap, huge pages, a UMEM, shared memory.
///
/// # Safety
/// `base()..base() + len()` must stay valid for reads and writes at a fixed address while the value
/// lives, be initialised, be aligned to 64 bytes, and be touched by nobody else.
pub unsafe trait Memory: Send + Sync {
    /// The first byte.
    fn base(&self) -> NonNull<u8>;
    /// How many bytes.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory from the program's allocator, zeroed, on a 2 MiB boundary so that huge pages fit.
pub struct HeapMemory {
    block: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    len: usize,
}

/// Where [`HeapMemory`] begins.
const BOUNDARY: usize = 2 << 20;

impl HeapMemory {
    /// Takes `len` bytes, at least one; `None` where the allocator has none.
    pub fn new(len: usize) -> Option<Self> {
        // Aligned here and not by the allocator, which would write the zeroes of what it aligns; so pages
        // come from the system, zero, when they are first touched.
        let layout = Layout::from_size_align(len.max(1).checked_add(BOUNDARY)?, 1).ok()?;
        // SAFETY: the layout's size is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = block.as_ptr().align_offset(BOUNDARY).min(BOUNDARY);
        // SAFETY: less than a boundary's distance, which the block has beyond `len`.
        let base = unsafe { block.add(skip) };
        Some(Self { block, layout, base, len: len.max(1) })
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

// SAFETY: the allocation is exclusive, zeroed, aligned and at a fixed address until drop.
unsafe impl Memory for HeapMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the pointers are the only handle to the allocation; whoever holds the value may use it.
unsafe impl Send for HeapMemory {}
// SAFETY: `&HeapMemory` gives out the address only.
unsafe impl Sync for HeapMemory {}

struct Shared {
    base: NonNull<u8>,
    slabs_at: usize,
    /// By slab: the placer that fills it plus the tables with a piece of it.
    live: Box<[AtomicU32]>,
    /// Keeps the bytes; last, so that nothing above outlives it.
    _memory: Box<dyn Memory>,
}

// SAFETY: `base` belongs to `_memory`, which is `Send`; see the file's head for who may touch which bytes.
unsafe impl Send for Shared {}
// SAFETY: as above; the counters are atomic.
unsafe impl Sync for Shared {}

/// What an arena is made of: the tables, and the two placers that fill them.
pub struct Arena {
    /// Places packets from outside.
    pub ingress: Placer,
    /// Places packets that functions make, in slabs of its own.
    pub emit: Placer,
    /// The tables, all empty.
    pub tables: Vec<Table>,
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl Arena {
    /// Divides `memory` by `layout`.
    pub fn new(memory: Box<dyn Memory>, layout: &ArenaLayout) -> Result<Self, ArenaError> {
        let needed = layout.memory_len();
        if needed > u32::MAX as usize {
            return Err(ArenaError::TooLarge);
        }
        if memory.len() < needed {
            return Err(ArenaError::TooSmall { needed, given: memory.len() });
        }
        if !(memory.base().as_ptr() as usize).is_multiple_of(ALIGN) {
            return Err(ArenaError::Unaligned);
        }
        let slabs = layout.slabs + layout.emit_slabs;
        let headroom = frame_start(layout.headroom);
        let shared = Arc::new(Shared {
            base: memory.base(),
            slabs_at: layout.slabs_at(),
            live: (0..slabs).map(|_| AtomicU32::new(0)).collect(),
            _memory: memory,
        });
        let tables = (0..layout.tables).map(|i| Table::new(&shared, layout, i)).collect();
        let placer = |first, count| Placer {
            shared: Arc::clone(&shared),
            base: shared.base,
            first,
            count,
            slab: first,
            slab_at: 0,
            holds: false,
            cursor: SLAB_LEN,
            headroom,
            around: headroom + layout.tailroom + ALIGN - 1,
            limit: 0,
            tray_rows: 0,
            tray: Box::new(Tray { len: 0, columns: [0; _] }),
        };
        Ok(Self {
            ingress: placer(0, layout.slabs as u32),
            emit: placer(layout.slabs as u32, layout.emit_slabs as u32),
            tables,
        })
    }
}

/// Copies frames into slabs, each into a room of its own.
pub struct Placer {
    shared: Arc<Shared>,
    /// The arena's first byte.
    base: NonNull<u8>,
    first: u32,
    count: u32,
    /// The slab being filled, if it holds one.
    slab: u32,
    /// Where it lies in the arena.
    slab_at: usize,
    holds: bool,
    /// Where the next room starts in it; its end while it holds none.
    cursor: usize,
    /// Where rooms have to end: the slab's end; 0 while the tray is empty.
    limit: usize,
    headroom: usize,
    /// Head- and tailroom, and what rounds a room up.
    around: usize,
    /// Rows staged and not yet settled, all of rooms in the current slab.
    tray: Box<Tray>,
    /// Rows that may be staged: no more than the table has.
    tray_rows: usize,
}

impl Placer {
    /// Places `bytes` as the next row of `table`, which says `row` besides. The row is `table`'s when it is
    /// settled, and has to be before rows of another table are staged.
    #[inline(always)]
    pub(crate) fn stage(&mut self, table: &mut Table, bytes: &[u8], row: &Row) -> Result<(), Full> {
        let need = (bytes.len() + self.around) & !(ALIGN - 1);
        if self.cursor + need > self.limit {
            self.make_room(table, need)?;
        }
        let at = self.slab_at + self.cursor;
        self.cursor += need;
        let (start, frame) = (self.headroom as u16, bytes.len() as u32);
        let room = Room { at: at as u32, len: need as u32, start, frame };
        // SAFETY: the tray has a row: `make_room` left it empty, and it is emptied when it is full.
        let rows = unsafe { self.tray.push(room, row) };
        // Last, as a long copy is a call that would have all of the above put aside.
        // SAFETY: the room ends before `limit`, so it lies in a slab that only this placer hands out, behind
        // all rooms handed out before; `need` holds the frame behind its headroom.
        unsafe {
            copy_frame(bytes, self.base.as_ptr().add(at + self.headroom));
        }
        if rows == self.tray_rows {
            self.settle(table);
        }
        Ok(())
    }

    /// Makes the rows that were staged the last ones of `table`.
    #[inline(never)]
    pub(crate) fn settle(&mut self, table: &mut Table) {
        // The next row asks for room anew, in whatever table.
        self.limit = 0;
        if self.tray.len == 0 {
            return;
        }
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.shared, &table.shared), "placer and table of one arena");
        assert!(table.len + self.tray.len <= table.slots, "rows are staged for one table");
        // All of them lie in the current slab: they are settled before another is opened.
        if table.pieces.last() != Some(&self.slab) {
            self.take_piece(table);
        }
        table.append(&mut self.tray);
    }

    /// Gives `table` a piece of the current slab.
    fn take_piece(&self, table: &mut Table) {
        self.shared.live[self.slab as usize].fetch_add(1, Ordering::Relaxed);
        table.pieces.push(self.slab);
    }

    /// Gives row `row` of `table` another room, with `bytes` as its frame, and says nothing else of it. Where there is no
    /// room, nothing changed.
    pub(crate) fn replace(
        &mut self,
        table: &mut Table,
        row: usize,
        bytes: &[u8],
    ) -> Result<(), Full> {
        // A room of another arena would lie outside of this table's memory.
        assert!(Arc::ptr_eq(&self.shared, &table.shared), "placer and table of one arena");
        // Those that are staged have rooms in the current slab and no piece of it yet.
        assert!(self.tray.len == 0, "rows are settled before one is replaced");
        assert!(row < table.len);
        let need = (bytes.len() + self.around) & !(ALIGN - 1);
        self.rewind();
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
        let at = self.slab_at + self.cursor;
        self.cursor += need;
        // SAFETY: the room ends within a slab that only this placer hands out, behind all rooms that it handed out of it
        // since it was free; `need` holds the frame behind its headroom.
        unsafe {
            copy_frame(bytes, self.base.as_ptr().add(at + self.headroom));
        }
        // One piece a slab, so that there are no more than slabs besides those of rows that were placed.
        if !table.pieces.contains(&self.slab) {
            self.take_piece(table);
        }
        table.column_mut(RoomAt)[row] = at as u32;
        table.column_mut(RoomLen)[row] = need as u32;
        table.column_mut(Start)[row] = self.headroom as u16;
        table.column_mut(FrameLen)[row] = bytes.len() as u32;
        Ok(())
    }

    /// Makes room for a frame that needs `need` bytes, and for its row in an empty tray.
    #[inline(never)]
    fn make_room(&mut self, table: &mut Table, need: usize) -> Result<(), Full> {
        self.settle(table);
        if table.len == table.slots {
            return Err(Full::Table);
        }
        self.tray_rows = TRAY_ROWS.min(table.slots - table.len);
        if table.len == 0 {
            self.rewind();
        }
        if self.cursor + need > SLAB_LEN {
            self.open(need)?;
        }
        self.limit = SLAB_LEN;
        Ok(())
    }

    /// Whether at least `slabs` slabs are free besides the current one.
    pub fn has_free(&self, slabs: usize) -> bool {
        let mine = &self.shared.live[self.first as usize..(self.first + self.count) as usize];
        mine.iter().filter(|live| live.load(Ordering::Relaxed) == 0).take(slabs).count() == slabs
    }

    /// Starts the current slab anew where every piece of it came back: it is still in the cache.
    fn rewind(&mut self) {
        // Acquire pairs with the release of the last piece: what others did to it is over.
        if self.holds && self.shared.live[self.slab as usize].load(Ordering::Acquire) == 1 {
            self.cursor = 0;
        }
    }

    #[cold]
    fn open(&mut self, need: usize) -> Result<(), Full> {
        if need > SLAB_LEN {
            return Err(Full::Frame);
        }
        // The lowest free one: what is used stays small, and in the cache.
        for slab in self.first..self.first + self.count {
            let live = &self.shared.live[slab as usize];
            // Acquire pairs with the release of the last piece: what others did to it is over.
            if live.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                self.close();
                (self.slab, self.holds, self.cursor) = (slab, true, 0);
                self.slab_at = self.shared.slabs_at + slab as usize * SLAB_LEN;
                return Ok(());
            }
        }
        Err(Full::Arena)
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.shared.live[self.slab as usize].fetch_sub(1, Ordering::Release);
            self.cursor = SLAB_LEN;
        }
    }
}

impl Drop for Placer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Copies a frame to `to`. Small ones, of which there are most, by two pieces that may overlap: a call
/// costs more than they do.
///
/// # Safety
/// `to` must be valid for writes of as many bytes as `bytes` has, none of them in `bytes`.
#[inline(always)]
unsafe fn copy_frame(bytes: &[u8], to: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: each piece is not longer than the frame, and ends where it ends or before.
    unsafe {
        match len {
            32..=64 => {
                ptr::copy_nonoverlapping(from, to, 32);
                ptr::copy_nonoverlapping(from.add(len - 32), to.add(len - 32), 32);
            }
            65..=128 => {
                ptr::copy_nonoverlapping(from, to, 64);
                ptr::copy_nonoverlapping(from.add(len - 64), to.add(len - 64), 64);
            }
            _ => ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// What a row says besides where its frame lies.
pub(crate) struct Row<'a> {
    pub(crate) headers: &'a Headers,
    pub(crate) arrival: &'a Arrival,
}

struct Room {
    at: u32,
    len: u32,
    start: u16,
    frame: u32,
}

/// A column of the table: its value, and the bytes of the columns before it in a row.
///
/// # Safety
/// `Value` is what the table keeps behind `BEFORE` bytes of a row: integers, for which zeroes are a value;
/// it is implemented by `columns!` only.
pub(crate) unsafe trait Column: Copy {
    type Value: Copy + 'static;
    const BEFORE: usize;
    /// Its place among the columns.
    const INDEX: usize;
}

macro_rules! columns {
    ($($vis:vis $name:ident: $value:ty;)*) => {
        columns!(@step [0usize] [0usize] $($vis $name: $value;)*);
        /// Bytes of a row before each column, in order.
        const BEFORE: &[usize] = &[$($name::BEFORE),*];
        /// Bytes of a row without its scratch words.
        pub(crate) const ROW_LEN: usize = 0 $(+ size_of::<$value>())*;
        /// The width of every column, in order.
        pub(crate) const WIDTHS: &[usize] = &[$(size_of::<$value>()),*];
        /// The name of every column, and the bytes of a row before it.
        pub(crate) const COLUMNS: &[(&str, usize)] = &[$((stringify!($name), $name::BEFORE)),*];

        impl Table {
            /// Makes the rows of `tray` the last ones of the table, and empties it.
            fn append(&mut self, tray: &mut Tray) {
                assert!(self.len + tray.len <= self.slots);
                self.compare(tray);
                $(
                    // SAFETY: both have `TRAY_ROWS` rows there: the tray has no more, and the table
                    // as many behind its last slot.
                    unsafe {
                        ptr::copy_nonoverlapping(
                            tray.start_of::<$name>(),
                            self.start_of::<$name>().add(self.len),
                            TRAY_ROWS,
                        );
                    }
                )*
                self.len += core::mem::take(&mut tray.len);
            }
        }
    };
    (@step [$before:expr] [$index:expr] $vis:vis $name:ident: $value:ty; $($rest:tt)*) => {
        #[derive(Clone, Copy)]
        $vis struct $name;
        // SAFETY: `BEFORE` sums up the columns before this one.
        unsafe impl Column for $name {
            type Value = $value;
            const BEFORE: usize = $before;
            const INDEX: usize = $index;
        }
        columns!(@step [$before + size_of::<$value>()] [$index + 1] $($rest)*);
    };
    (@step [$before:expr] [$index:expr]) => {};
}

// Every column is aligned, as rows are a multiple of 64, and 32 in a tray. In the order in which devices want them: what they
// have no use for, what they read, what they may write, so that either is one stretch. `RoomAt` and `RoomLen` name memory and
// are written in this file only.
columns! {
    pub(crate) Timestamp: u64;
    pub(crate) Captured: u64;
    pub(crate) Ingress: u64;
    pub(crate) FlowHash: u32;
    pub(crate) Interface: u16;
    pub(crate) ShardOf: u8;
    RoomLen: u32;
    pub(crate) Link: u16;
    pub(crate) RoomAt: u32;
    pub(crate) HeadersOf: Headers;
    pub(crate) WireLen: u32;
    pub(crate) FrameLen: u32;
    pub(crate) Start: u16;
    pub(crate) NextHop: u16;
    pub(crate) Left: u8;
    pub(crate) VerdictOf: u8;
    pub(crate) ReasonOf: u8;
    pub(crate) DroppedBy: u8;
    pub(crate) Flagged: u8;
}

/// Rows of a tray.
pub(crate) const TRAY_ROWS: usize = 32;

/// Rows on their way into a table: columns at fixed places, so that a row is written with one instruction a
/// column, and copied to the table many at once.
#[repr(C, align(64))]
struct Tray {
    columns: [u8; ROW_LEN * TRAY_ROWS],
    len: usize,
}

impl Tray {
    #[inline(always)]
    fn start_of<C: Column>(&mut self) -> *mut C::Value {
        // `BEFORE` bytes a row times all rows lie before the column, which the alignment and the order of
        // the columns keep aligned.
        self.columns[C::BEFORE * TRAY_ROWS..].as_mut_ptr().cast()
    }

    /// The rows of a column. All are read through `&`: a second `start_of` would end what the first may do.
    #[inline(always)]
    fn rows<C: Column>(&self, _: C) -> &[C::Value] {
        let start = self.columns[C::BEFORE * TRAY_ROWS..].as_ptr().cast();
        // SAFETY: the column has `TRAY_ROWS` values, aligned as in `start_of`, and no more rows were written.
        unsafe { slice::from_raw_parts(start, self.len) }
    }

    /// # Safety
    /// `row` must be below `TRAY_ROWS`.
    #[inline(always)]
    unsafe fn put<C: Column>(&mut self, _: C, row: usize, value: C::Value) {
        // SAFETY: the column has `TRAY_ROWS` values.
        unsafe { self.start_of::<C>().add(row).write(value) }
    }

    /// Writes the next row and gives how many there are now; the columns that are not named stay zero.
    ///
    /// # Safety
    /// There must be fewer than `TRAY_ROWS`.
    #[inline(always)]
    unsafe fn push(&mut self, room: Room, row: &Row) -> usize {
        let (at, arrival) = (self.len, row.arrival);
        debug_assert!(at < TRAY_ROWS);
        // SAFETY: `at` is a row.
        unsafe {
            self.put(HeadersOf, at, *row.headers);
            self.put(Timestamp, at, arrival.timestamp.as_nanos());
            self.put(Captured, at, arrival.captured.as_nanos());
            self.put(Ingress, at, arrival.ingress);
            self.put(RoomAt, at, room.at);
            self.put(RoomLen, at, room.len);
            self.put(FrameLen, at, room.frame);
            self.put(WireLen, at, arrival.wire_len);
            self.put(FlowHash, at, arrival.flow_hash);
            self.put(Start, at, room.start);
            self.put(Interface, at, arrival.interface);
            self.put(Link, at, arrival.link.0);
            self.put(ShardOf, at, arrival.shard);
        }
        self.len = at + 1;
        self.len
    }
}

// SAFETY: the address is that of the shared memory, which may be sent and shared.
unsafe impl Send for Placer {}

/// A table of descriptors: a row a packet, a column a property, owned by move.
pub struct Table {
    shared: Arc<Shared>,
    base: NonNull<u8>,
    /// Where each column starts.
    starts: [NonNull<u8>; WIDTHS.len()],
    slots: usize,
    /// Rows that every column has memory for: more than slots.
    rows: usize,
    scratch_words: usize,
    len: usize,
    /// Headers and link of the first row, and whether all are like them in what [`Table::alike`] says.
    first: (Headers, u16),
    alike: bool,
    /// Slabs this table holds a piece of: never more than rows, and slabs where rows got other rooms.
    pieces: Vec<u32>,
}

// SAFETY: a table is the only handle to its rows and their rooms.
unsafe impl Send for Table {}
// SAFETY: `&Table` only reads.
unsafe impl Sync for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len).field("slots", &self.slots).finish()
    }
}

impl Table {
    fn new(shared: &Arc<Shared>, layout: &ArenaLayout, index: usize) -> Self {
        // SAFETY: the layout keeps `tables` times this length before the first slab.
        let base = unsafe { shared.base.add(layout.table_len() * index) };
        let rows = layout.rows();
        // SAFETY: `BEFORE` bytes a row times all rows lie before the column, all in the table; the
        // product is a multiple of 64, so the column is aligned.
        let starts = array::from_fn(|index| unsafe { base.add(BEFORE[index] * rows) });
        Self {
            shared: Arc::clone(shared),
            base,
            starts,
            slots: layout.slots(),
            rows,
            scratch_words: layout.scratch_words,
            len: 0,
            first: (Headers::default(), 0),
            alike: false,
            pieces: Vec::with_capacity(layout.slots() + layout.emit_slabs),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    #[inline(always)]
    fn start_of<C: Column>(&self) -> *mut C::Value {
        self.starts[C::INDEX].as_ptr().cast()
    }

    /// Notes whether the rows of `tray`, which has some, are like those before them.
    fn compare(&mut self, tray: &Tray) {
        let (headers, links) = (tray.rows(HeadersOf), tray.rows(Link));
        // SAFETY: headers are 16 bytes without padding, of which any is a value of integers, and begin
        // at a multiple of 32 in the tray, which is aligned.
        let words =
            unsafe { slice::from_raw_parts(headers.as_ptr().cast::<[u64; 2]>(), headers.len()) };
        if self.len == 0 {
            (self.first, self.alike) = ((headers[0], links[0]), true);
        }
        let first = self.first.0.words();
        let (mut low, mut high) = (0, 0);
        for word in words {
            (low, high) = (low | (word[0] ^ first[0]), high | (word[1] ^ first[1]));
        }
        let links = links.iter().fold(0, |any, own| any | (own ^ self.first.1));
        let [low_shape, high_shape] = Headers::SHAPE;
        self.alike &= low & low_shape == 0 && high & high_shape == 0 && links == 0;
    }

    /// Headers and link of the first row, where all rows have them in the same place: the same link and IP
    /// version, the same start of the IP header, and the same lie or none.
    #[inline]
    pub(crate) fn alike(&self) -> Option<(&Headers, u16)> {
        self.alike.then_some((&self.first.0, self.first.1))
    }

    /// A row's headers are about to change.
    #[inline(always)]
    pub(crate) fn set_unalike(&mut self) {
        self.alike = false;
    }

    /// The rows of a column.
    #[inline(always)]
    pub(crate) fn column<C: Column>(&self, _: C) -> &[C::Value] {
        // SAFETY: the column has `slots >= len` initialised values (zeroed memory, plain integers).
        unsafe { slice::from_raw_parts(self.start_of::<C>(), self.len) }
    }

    /// The rows of a column, to write.
    #[inline(always)]
    pub(crate) fn column_mut<C: Column>(&mut self, _: C) -> &mut [C::Value] {
        // SAFETY: as in `column`; `&mut self` is the only way to the rows.
        unsafe { slice::from_raw_parts_mut(self.start_of::<C>(), self.len) }
    }

    /// The rows of a scratch word; none where the chain handed out fewer words.
    #[inline(always)]
    pub(crate) fn scratch(&self, word: usize) -> &[u32] {
        let len = if word < self.scratch_words { self.len } else { 0 };
        // SAFETY: the scratch columns follow the others, `4 * rows` bytes each.
        unsafe { slice::from_raw_parts(self.scratch_start(word), len) }
    }

    /// The rows of a scratch word, to write.
    #[inline(always)]
    pub(crate) fn scratch_mut(&mut self, word: usize) -> &mut [u32] {
        let len = if word < self.scratch_words { self.len } else { 0 };
        // SAFETY: as in `scratch`.
        unsafe { slice::from_raw_parts_mut(self.scratch_start(word), len) }
    }

    #[inline(always)]
    fn scratch_start(&self, word: usize) -> *mut u32 {
        let word = word.min(self.scratch_words);
        // SAFETY: at most one past the last word's column.
        unsafe { self.base.as_ptr().add((ROW_LEN + 4 * word) * self.rows).cast() }
    }

    /// Where the frame starts in its room.
    #[inline(always)]
    pub(crate) fn start(&self, row: usize) -> usize {
        self.column(Start)[row] as usize
    }

    /// Length of the frame in bytes.
    #[inline(always)]
    pub(crate) fn frame_len(&self, row: usize) -> usize {
        self.column(FrameLen)[row] as usize
    }

    /// Lengths of all frames.
    pub(crate) fn frame_lens(&self) -> &[u32] {
        self.column(FrameLen)
    }

    /// Offset of the frame in the arena.
    pub(crate) fn offset(&self, row: usize) -> usize {
        self.column(RoomAt)[row] as usize + self.start(row)
    }

    /// The frame's bytes.
    #[inline(always)]
    pub(crate) fn frame(&self, row: usize) -> &[u8] {
        let (at, len) = (self.offset(row), self.frame_len(row));
        // SAFETY: the frame lies in its room (`place`, `reshape`), which no other row has.
        unsafe { slice::from_raw_parts(self.shared.base.as_ptr().add(at), len) }
    }

    /// The frame's bytes, to write.
    #[inline(always)]
    pub(crate) fn frame_mut(&mut self, row: usize) -> &mut [u8] {
        let (at, len) = (self.offset(row), self.frame_len(row));
        // SAFETY: as in `frame`; `&mut self` is the only way to the row.
        unsafe { slice::from_raw_parts_mut(self.shared.base.as_ptr().add(at), len) }
    }

    /// The frames of rows `rows`, cut to those that there are.
    #[inline(always)]
    pub(crate) fn frames(&self, rows: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let base = self.shared.base.as_ptr();
        // SAFETY: as in `frame`.
        self.places(rows).map(move |(at, len)| unsafe { slice::from_raw_parts(base.add(at), len) })
    }

    /// The frames of rows `rows`, to write, each with its row of column `C`.
    #[inline(always)]
    pub(crate) fn frames_mut<C: Column>(
        &mut self,
        rows: Range<usize>,
        _: C,
    ) -> impl Iterator<Item = (&mut [u8], &mut C::Value)> {
        let base = self.shared.base.as_ptr();
        let rows = rows.start.min(self.len)..rows.end.min(self.len);
        let column = self.start_of::<C>();
        let places = self.places(rows.clone());
        // SAFETY: as in `frame_mut` and `column_mut`: `&mut self` is the only way to the rows, and no two
        // rows share a room or a value; what `places` reads are columns that nobody gets to write.
        rows.zip(places).map(move |(row, (at, len))| unsafe {
            (slice::from_raw_parts_mut(base.add(at), len), &mut *column.add(row))
        })
    }

    /// The frames of `rows`, which grow from one to the next, to write; those that are no rows are left
    /// out, and so is what follows one that is not larger than that before it.
    pub(crate) fn frames_at_mut(
        &mut self,
        rows: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = &mut [u8]> {
        let (base, len) = (self.shared.base.as_ptr(), self.len);
        let mut least = 0;
        let own = rows.take_while(move |&row| {
            let grows = row >= least && row < len;
            least = row.saturating_add(1);
            grows
        });
        let places: &Self = self;
        let places = own.map(move |row| (places.offset(row), places.frame_len(row)));
        // SAFETY: as in `frame_mut`: `&mut self`, which the iterator keeps borrowed, is the only way to the
        // rows, and no row comes twice; what `offset` and `frame_len` read are columns that nobody gets to
        // write meanwhile.
        places.map(move |(at, len)| unsafe { slice::from_raw_parts_mut(base.add(at), len) })
    }

    /// Where the frames of `rows` lie in the arena, and how long they are.
    #[inline(always)]
    fn places(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
        let rows = rows.start.min(self.len)..rows.end.min(self.len);
        let (room, start, len) =
            (self.start_of::<RoomAt>(), self.start_of::<Start>(), self.start_of::<FrameLen>());
        // SAFETY: the rows are below `len`.
        rows.map(move |row| unsafe {
            let at = room.add(row).read() as usize + start.add(row).read() as usize;
            (at, len.add(row).read() as usize)
        })
    }

    /// Bytes of the arena that the table lies in, its rows behind the last one among them.
    pub(crate) fn place(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize - self.shared.base.as_ptr() as usize;
        start..start + (ROW_LEN + 4 * self.scratch_words) * self.rows
    }

    /// Copies these bytes of the table, as they lie in the arena, to the same place in `to`; none where either lacks them.
    #[inline(always)]
    pub(crate) fn copy_bytes(&self, bytes: Range<usize>, to: &mut [u8]) {
        let Some(to) = to.get_mut(bytes.clone()) else { return };
        if bytes.end <= self.place().len() {
            // SAFETY: the table's bytes are initialised integers, within the arena, and only read; `to` is other memory.
            unsafe {
                let from = self.base.as_ptr().add(bytes.start);
                ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len());
            }
        }
    }

    /// Rows that every column has memory for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the arena that are the row's room: nobody else's.
    pub(crate) fn room(&self, row: usize) -> Range<usize> {
        let at = self.column(RoomAt)[row] as usize;
        at..at + self.column(RoomLen)[row] as usize
    }

    /// Says where the frame lies in its room. Says whether it does lie in it; where not, nothing changed.
    pub(crate) fn set_frame(&mut self, row: usize, start: u16, len: u32) -> bool {
        let fits = usize::from(start) + len as usize <= self.column(RoomLen)[row] as usize;
        if fits {
            self.column_mut(Start)[row] = start;
            self.column_mut(FrameLen)[row] = len;
        }
        fits
    }

    /// Where the columns that [`Table::set_frame`] writes lie: start and length.
    pub(crate) const FRAME_COLUMNS: (usize, usize) = (Start::BEFORE, FrameLen::BEFORE);

    /// Which columns say where a frame lies: where its room does, how long that is, where the frame starts in it and how long it is.
    pub(crate) const FRAME_PLACE: [usize; 4] =
        [RoomAt::INDEX, RoomLen::INDEX, Start::INDEX, FrameLen::INDEX];

    /// Moves the frame's start by `head` and its end by `tail` bytes within its room: negative `head`
    /// grows at the front, positive `tail` at the back. What the frame lacks of its length on the wire it still
    /// lacks then. Says whether there was room.
    #[inline(always)]
    pub(crate) fn reshape(&mut self, row: usize, head: isize, tail: isize) -> bool {
        assert!(row < self.len);
        // SAFETY: the row is one of the table, as in `column_mut`.
        let (start_at, len_at, wire_at, room) = unsafe {
            (
                &mut *self.start_of::<Start>().add(row),
                &mut *self.start_of::<FrameLen>().add(row),
                &mut *self.start_of::<WireLen>().add(row),
                self.start_of::<RoomLen>().add(row).read() as isize,
            )
        };
        let (start, len) = (*start_at as isize, *len_at as isize);
        let new_start = start.saturating_add(head);
        let new_end = (start + len).saturating_add(tail);
        if new_start < 0 || new_end < new_start || new_end > room || new_start > u16::MAX as isize {
            return false;
        }
        let new_len = (new_end - new_start) as u32;
        *wire_at = new_len.saturating_add(wire_at.saturating_sub(*len_at));
        (*start_at, *len_at) = (new_start as u16, new_len);
        true
    }

    /// Forgets the rows; scratch words of new ones are zero, as are the columns that a tray leaves zero.
    fn reset(&mut self) {
        for word in 0..self.scratch_words {
            self.scratch_mut(word).fill(0);
        }
        self.len = 0;
    }

    /// Takes every row of `made`, each behind the rows of this table whose ingress number is not
    /// larger; this table is in ingress order, and so is the result. `order` is room to sort in. Says
    /// whether all of them fit; where not, nothing moved.
    pub(crate) fn merge(&mut self, made: &mut Self, order: &mut Vec<u16>) -> bool {
        let (mut ours, mut theirs) = (self.len, made.len);
        if ours + theirs > self.slots
            || !Arc::ptr_eq(&self.shared, &made.shared)
            || self.scratch_words != made.scratch_words
        {
            return false;
        }
        self.alike &= theirs == 0;
        order.clear();
        order.extend(0..theirs as u16);
        let numbers = made.column(Ingress);
        order.sort_unstable_by_key(|&row| (numbers[usize::from(row)], row));
        self.len += theirs;
        let mut to = self.len;
        while theirs > 0 {
            to -= 1;
            let next = usize::from(order[theirs - 1]);
            let own_last = ours > 0 && self.column(Ingress)[ours - 1] > made.column(Ingress)[next];
            if own_last {
                ours -= 1;
                self.copy_row(None, ours, to);
            } else {
                theirs -= 1;
                self.copy_row(Some(made), next, to);
            }
        }
        self.pieces.append(&mut made.pieces);
        made.reset();
        true
    }

    /// Copies row `from` (of `other`, or of this table) over row `to`; both are rows of their table.
    fn copy_row(&mut self, other: Option<&Self>, from: usize, to: usize) {
        assert!(to < self.len && from < other.map_or(self.len, |o| o.len));
        let (source, source_rows) = other.map_or((self.base, self.rows), |o| (o.base, o.rows));
        let mut before = 0;
        let scratch = core::iter::repeat_n(&4usize, self.scratch_words);
        for width in WIDTHS.iter().chain(scratch) {
            // SAFETY: both rows lie in their tables' columns (both are below their lengths); the
            // widths are those of the columns; `copy` allows the same row twice.
            unsafe {
                ptr::copy(
                    source.as_ptr().add(before * source_rows + width * from),
                    self.base.as_ptr().add(before * self.rows + width * to),
                    *width,
                );
            }
            before += width;
        }
    }

    /// Forgets which slabs it has pieces of, so that they are never given back.
    pub(crate) fn abandon(&mut self) {
        self.pieces.clear();
    }

    /// Forgets every row and gives its pieces of slabs back.
    pub(crate) fn clear(&mut self) {
        self.reset();
        for slab in self.pieces.drain(..) {
            // Release: what was done to the rooms is done before the slab is handed out again.
            self.shared.live[slab as usize].fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Asks the processor for the cache line that `value` begins in, and waits for nothing.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at(ptr::from_ref(value).cast());
}

/// Asks the processor for every cache line of `value`, and waits for nothing.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let start: *const u8 = ptr::from_ref(value).cast();
    (0..size_of::<T>()).step_by(64).for_each(|at| prefetch_at(start.wrapping_add(at)));
}

#[inline(always)]
fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that a program can see, of whatever address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
