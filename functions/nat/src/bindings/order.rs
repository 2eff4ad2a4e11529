//! The order in which a shard's bindings expire and give way.
//!
//! A binding's first packet in a second puts it at the end of its lists. It moves there later,
//! together with others ([`Bindings::move_used`]), but before anything looks at a list or adds to
//! one. So the order is as if it moved at once, and the misses of neighbours overlap.

use warpline_packet::prefetch;

use super::{Binding, Bindings, Class, Links};

/// Bindings that were used and move together.
pub(super) const USED_MAX: usize = 32;

fn by_class(binding: &mut Binding) -> &mut Links {
    &mut binding.by_class
}

fn by_kind(binding: &mut Binding) -> &mut Links {
    &mut binding.by_kind
}

/// The list of a binding's kind, if that gives way.
fn yielding_place(binding: &Binding) -> Option<usize> {
    binding.kind().map(|kind| 2 * kind as usize + usize::from(binding.is_v6()))
}

impl Bindings {
    /// An answer passes through the binding. Returns whether it is the first.
    #[inline]
    pub(in super::super) fn answer(&mut self, number: u32) -> bool {
        let is_first = !self.slab[number as usize].is_answered();
        if is_first {
            self.move_used();
            self.unlist(number);
            self.slab[number as usize].answer();
            self.enlist(number);
        }
        is_first
    }

    /// The binding was used just now and is of this class.
    #[inline]
    pub(in super::super) fn refresh(&mut self, number: u32, class: Class) {
        // All that refresh it in one second agree on its expiry, so it moves once a second.
        let expires = self.expiry(class);
        let binding = &self.slab[number as usize];
        if binding.class != class || binding.expires != expires {
            self.renew(number, class, expires);
        }
    }

    #[inline(never)]
    fn renew(&mut self, number: u32, class: Class, expires: u64) {
        let binding = &mut self.slab[number as usize];
        if binding.class != class {
            self.move_used();
            self.unlink(number);
            self.link(number, class);
            return;
        }
        binding.expires = expires;
        if self.used.len() == USED_MAX {
            self.move_used();
        }
        self.used.push(number);
    }

    /// Moves the bindings that were used to the ends of their lists, in the order of their use.
    #[inline]
    pub(super) fn move_used(&mut self) {
        if !self.used.is_empty() {
            self.move_all_used();
        }
    }

    #[inline(never)]
    fn move_all_used(&mut self) {
        for &number in &self.used {
            let binding = &self.slab[number as usize];
            let neighbours = [binding.by_class, binding.by_kind].into_iter().flat_map(Links::both);
            let neighbours = neighbours.filter_map(|at| self.slab.get(at as usize));
            neighbours.for_each(prefetch);
        }
        for at in 0..self.used.len() {
            let number = self.used[at];
            let list = &mut self.lists[self.slab[number as usize].class as usize];
            list.remove(&mut self.slab, by_class, number);
            list.append(&mut self.slab, by_class, number);
            self.unlist(number);
            self.enlist(number);
        }
        self.used.clear();
    }

    pub(super) fn unlink(&mut self, number: u32) {
        let class = self.slab[number as usize].class;
        self.lists[class as usize].remove(&mut self.slab, by_class, number);
        self.unlist(number);
    }

    pub(super) fn link(&mut self, number: u32, class: Class) {
        let expires = self.expiry(class);
        self.due = self.due.min(expires);
        let binding = &mut self.slab[number as usize];
        (binding.class, binding.expires) = (class, expires);
        self.lists[class as usize].append(&mut self.slab, by_class, number);
        self.enlist(number);
    }

    /// Puts a binding at the end of the list of its kind.
    fn enlist(&mut self, number: u32) {
        if let Some(place) = yielding_place(&self.slab[number as usize]) {
            self.yielding[place].append(&mut self.slab, by_kind, number);
        }
    }

    fn unlist(&mut self, number: u32) {
        if let Some(place) = yielding_place(&self.slab[number as usize]) {
            self.yielding[place].remove(&mut self.slab, by_kind, number);
        }
    }
}
