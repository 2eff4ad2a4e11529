//! The backends that connections had before they moved to others.

use core::time::Duration;

use super::connections::Client;
use warpline_packet::Instant;
use warpline_tables::index::Index;

/// Connections for each place. Few of them move at once.
const CONNECTIONS_A_PLACE: usize = 16;

/// The former backends of one shard's connections, each for some time. Once all places are taken, a
/// new one replaces the oldest.
pub(super) struct Former {
    /// A ring, whose next place is `next`.
    places: Vec<Place>,
    next: usize,
    most: usize,
    by_backend: Index,
    kept_for: Duration,
}

struct Place {
    key: u32,
    client: Client,
    backend: u64,
    deadline: Instant,
}

impl Former {
    /// For a shard with room for `connections`.
    pub(super) fn new(connections: usize, kept_for: Duration) -> Self {
        let most = connections / CONNECTIONS_A_PLACE + 1;
        let places = Vec::with_capacity(most);
        Self { places, next: 0, most, by_backend: Index::new(most), kept_for }
    }

    /// Notes that `client` was served by `backend`, by their look-up key.
    pub(super) fn insert(&mut self, key: u32, client: &Client, backend: u64, now: Instant) {
        if let Some(number) = self.find(key, client, backend) {
            self.places[number as usize].deadline = now.after(self.kept_for);
            return;
        }
        let place = Place { key, client: *client, backend, deadline: now.after(self.kept_for) };
        let at = self.next as u32;
        match self.places.get_mut(self.next) {
            Some(oldest) => {
                self.by_backend.remove(oldest.key, at);
                *oldest = place;
            }
            None => self.places.push(place),
        }
        self.by_backend.insert(key, at);
        self.next = (self.next + 1) % self.most;
    }

    /// Whether `client` was served by `backend`, by their look-up key.
    pub(super) fn has(&self, key: u32, client: &Client, backend: u64, now: Instant) -> bool {
        let found = self.find(key, client, backend);
        found.is_some_and(|number| self.places[number as usize].deadline > now)
    }

    fn find(&self, key: u32, client: &Client, backend: u64) -> Option<u32> {
        self.by_backend.find(key, |number| {
            let own = &self.places[number as usize];
            own.backend == backend && own.client == *client
        })
    }
}
