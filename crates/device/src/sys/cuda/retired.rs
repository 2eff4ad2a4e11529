//! Memory, pages, kernels and streams that are not used any more, until a thread gives them back to
//! the driver.
//!
//! A driver that frees memory, unlocks pages or unloads a module waits for all that its device
//! does, so a lane that dropped such would stand still. The thread does it while the context's
//! streams have no work. Memory may hold keys and packets: it is zeroed first. A stream that was
//! dropped with work in flight is looked after until that is done, and keeps what the work uses.

use core::mem;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::api::Handle;
use super::context::Context;
use super::pages;
use super::stream::Line;

/// One thing to give back.
pub(super) enum Item {
    Memory {
        address: u64,
        bytes: usize,
    },
    /// Host pages that may be locked no more, by the address of the first.
    Pages(usize),
    Module(Handle),
    Stream(Line),
}

/// For how long an item waits for idle streams, and how many do: then the thread waits with the
/// driver.
const WAIT_MAX: Duration = Duration::from_secs(5);
const WAITING_MAX: usize = 4096;
/// Time between two looks, and after many looks in vain.
const REST: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);
/// For how long memory is waited for.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(super) struct Retired(Mutex<List>);

#[derive(Default)]
struct List {
    items: Vec<(Item, Instant)>,
    /// Items that the thread has taken.
    taken: usize,
    is_running: bool,
    /// Somebody waits for memory.
    is_urgent: bool,
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

    /// Waits until all is given back that is not in use. Whether anything was.
    pub(super) fn flush(&self) -> bool {
        let start = Instant::now();
        let before = self.list().count();
        while self.list().wants_flush() && start.elapsed() < FLUSH_MAX {
            self.list().is_urgent = true;
            thread::sleep(REST);
        }
        self.list().is_urgent = false;
        before > self.list().count()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn count(&self) -> usize {
        self.items.len() + self.taken
    }

    fn wants_flush(&self) -> bool {
        self.taken > 0 || self.items.iter().any(|(item, _)| !matches!(item, Item::Stream(_)))
    }
}

/// The thread. It ends when there is nothing more.
fn give_back(context: &Arc<Context>) {
    let mut rest = REST;
    loop {
        let (mut items, is_urgent) = {
            let mut list = context.retired.list();
            if list.items.is_empty() {
                list.is_running = false;
                return;
            }
            list.taken = list.items.len();
            (mem::take(&mut list.items), list.is_urgent)
        };
        let before = items.len();
        items = items
            .into_iter()
            .filter_map(|item| try_one(context, item, before, is_urgent))
            .collect();
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

/// Gives an item back, or the item where its time has not come.
fn try_one(
    context: &Context,
    (item, since): (Item, Instant),
    count: usize,
    is_urgent: bool,
) -> Option<(Item, Instant)> {
    let is_due = is_urgent || count > WAITING_MAX || since.elapsed() > WAIT_MAX;
    match item {
        Item::Stream(mut line) => {
            line.drop_done();
            line.is_busy().then_some((Item::Stream(line), since))
        }
        item if context.is_idle() || is_due || context.is_lost() => {
            release(context, &item);
            None
        }
        item => Some((item, since)),
    }
}

fn release(context: &Context, item: &Item) {
    if let Item::Pages(base) = item {
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
            Item::Pages(_) | Item::Stream(_) => 0,
        }
    });
}
