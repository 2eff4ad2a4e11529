//! Memory, pages, kernels and streams that are no longer used, until a thread returns them to the
//! driver.
//!
//! A driver that frees memory, unlocks pages or unloads a module waits for all work of its device.
//! A lane that dropped such an item would stall. The thread does it while the context's streams
//! have no work. Memory may hold keys and packets, so it is zeroed first. A stream that was dropped
//! with work in flight is kept until that is done, with everything the work uses.

use core::mem;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::api::Handle;
use super::context::Context;
use super::pages;
use super::staging::Block;
use super::stream::Line;

/// One thing to give back.
pub(super) enum Item {
    Memory {
        address: u64,
        bytes: usize,
    },
    /// Host pages that may be locked no more, by the address of the first.
    Pages {
        base: usize,
        bytes: usize,
    },
    Module(Handle),
    /// Locked memory of the driver's own.
    Block(Block),
    Stream(Line),
}

/// For how long an item waits for idle streams, and how many do: then the thread waits with the
/// driver.
const WAIT_MAX: Duration = Duration::from_secs(5);
const WAITING_MAX: usize = 4096;
/// Bytes of the device's memory and of locked pages that wait at most.
const WAITING_BYTES_MAX: usize = 1 << 30;
/// Time between two looks, and after many looks in vain.
const REST: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);
/// For how long an allocation waits for the next item to be given back.
const PROGRESS_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(super) struct Retired {
    list: Mutex<List>,
    /// Items that were given back.
    released: AtomicU64,
    /// Allocations that wait for memory.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct List {
    items: Vec<(Item, Instant)>,
    /// Items that the thread has taken.
    taken: usize,
    is_running: bool,
}

impl Retired {
    /// Gives `item`, which is of `context`, to its thread. Never waits for the device.
    pub(super) fn push(&self, context: &Arc<Context>, item: Item) {
        let mut list = self.list();
        list.items.push((item, Instant::now()));
        if !list.is_running {
            let own = Arc::clone(context);
            let thread = thread::Builder::new().name("warpline-retired".into());
            // Without a thread items stay until the next comes.
            list.is_running = thread.spawn(move || give_back(&own)).is_ok();
        }
    }

    /// How many items were given back so far.
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// Waits until more than `before` items are given back. Whether they were.
    pub(super) fn wait_for_more(&self, before: u64) -> bool {
        let start = Instant::now();
        let is_released = || self.released() != before;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while !is_released() && self.list().is_waiting() && start.elapsed() < PROGRESS_MAX {
            thread::sleep(REST);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        is_released()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// Whether an item is to be given back that is no stream.
    fn is_waiting(&self) -> bool {
        self.taken > 0 || self.items.iter().any(|(item, _)| !matches!(item, Item::Stream(_)))
    }
}

/// The thread. It ends when there is nothing more.
fn give_back(context: &Arc<Context>) {
    let mut rest = REST;
    loop {
        let mut items = {
            let mut list = context.retired.list();
            if list.items.is_empty() {
                list.is_running = false;
                return;
            }
            list.taken = list.items.len();
            mem::take(&mut list.items)
        };
        let before = items.len();
        let is_full = before > WAITING_MAX || bytes(&items) > WAITING_BYTES_MAX;
        items = items.into_iter().filter_map(|item| try_one(context, item, is_full)).collect();
        rest = if items.len() < before { REST } else { (rest * 2).min(REST_MAX) };
        let mut list = context.retired.list();
        list.taken = 0;
        // Those that came meanwhile are younger.
        let younger = mem::replace(&mut list.items, items);
        list.items.extend(younger);
        let is_empty = list.items.is_empty();
        drop(list);
        if !is_empty {
            thread::sleep(rest);
        }
    }
}

fn bytes(items: &[(Item, Instant)]) -> usize {
    let of_one = |(item, _): &(Item, Instant)| match item {
        Item::Memory { bytes, .. } | Item::Pages { bytes, .. } => *bytes,
        Item::Block(block) => block.bytes,
        Item::Module(_) | Item::Stream(_) => 0,
    };
    items.iter().map(of_one).sum()
}

/// Gives an item back, or the item where its time has not come.
fn try_one(
    context: &Context,
    (item, since): (Item, Instant),
    is_full: bool,
) -> Option<(Item, Instant)> {
    let is_wanted = context.retired.waiting.load(Ordering::Relaxed) > 0;
    let is_due = is_full || is_wanted || since.elapsed() > WAIT_MAX;
    match item {
        Item::Stream(mut line) => {
            line.drop_done();
            line.is_busy().then_some((Item::Stream(line), since))
        }
        item if context.is_idle() || is_due || context.is_lost() => {
            release(context, &item);
            context.retired.released.fetch_add(1, Ordering::Relaxed);
            None
        }
        item => Some((item, since)),
    }
}

fn release(context: &Context, item: &Item) {
    if let Item::Pages { base, .. } = item {
        return pages::unlock(context, *base);
    }
    // On a device that is lost it never ends.
    if context.is_lost() {
        return;
    }
    // SAFETY: the item was made once and is released once. Works in flight keep their buffers and
    // kernels, so no stream uses it.
    let _ = context.call(|driver| unsafe {
        match *item {
            Item::Memory { address, bytes } => {
                (driver.set_memory)(address, 0, bytes);
                (driver.free)(address)
            }
            Item::Module(module) => (driver.unload_module)(module),
            Item::Block(Block { base, bytes }) => {
                base.write_bytes(0, bytes);
                (driver.free_host)(base.as_ptr().cast())
            }
            Item::Pages { .. } | Item::Stream(_) => 0,
        }
    });
}
