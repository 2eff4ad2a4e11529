//! What is at the site beside its servers: a shop behind a balancer, and a branch office at the end of a
//! leased line.

use core::time::Duration;

use super::capture::{LAST_START_US, Trace, at_us};
use super::frame::Path;
use super::hosts::{self, BACKENDS, FILE_SERVER, VIP};
use super::rng::Rng;
use super::summary::Kind;
use super::tcp::{Conversation, Manner, Side};
use super::web::{manner, request, response};

/// Internet clients at the shop. There are few pages, so that all of them come again and again.
pub(super) fn shoppers(trace: &mut Trace) {
    let mut rng = Rng::stream(18);
    let pages: Vec<Vec<u8>> = [900, 2_600, 5_200, 11_000].map(|len| response(len, &mut rng)).into();
    for (number, backend) in (0..).zip(CHOSEN) {
        let client = match number % 2 {
            0 => hosts::internet(121 + number as u8 % 9),
            _ => hosts::internet_b(121 + number as u8 % 9),
        };
        let manner = Manner {
            backend: Some((BACKENDS[backend], SHOP_PORT)),
            ..manner(Kind::Shop, Path::new(client, VIP), 80, true)
        };
        let now = at_us(rng.between(5_000, LAST_START_US));
        let port = SHOPPERS_PORT + number;
        let mut talk = Conversation::from_port(port, trace, manner, &mut rng, now);
        talk.open();
        for _ in 0..rng.between(1, 3) {
            talk.send(Side::Client, &request(&mut rng));
            talk.wait(Duration::from_micros(rng.between(300, 9_000)));
            let page = rng.between(0, pages.len() as u64 - 1) as usize;
            talk.send(Side::Server, &pages[page]);
            talk.wait(Duration::from_micros(rng.between(5_000, 250_000)));
        }
        talk.finish(Side::Client);
    }
}

/// Text that hosts of the branch office fetch from the file server.
pub(super) fn branch_office(trace: &mut Trace) {
    let mut rng = Rng::stream(19);
    for (host, len, start_us) in
        [(11, 180_000, 1_500_000), (12, 120_000, 6_000_000), (14, 150_000, 11_200_000)]
    {
        let path = Path::new(hosts::branch(host), FILE_SERVER);
        let gap = Duration::from_micros(rng.between(2_000, 4_000));
        let manner = Manner { gap, ..manner(Kind::Branch, path, 80, false) };
        let mut talk = Conversation::new(trace, manner, &mut rng, at_us(start_us));
        talk.open();
        talk.send(Side::Client, &request(&mut rng));
        talk.send(Side::Server, &response(len, &mut rng));
        talk.finish(Side::Client);
    }
}

/// The backend that the balancer chooses for each of the shop's clients, in turn: by their addresses and
/// ports and by services.txt, so it is known before the chain runs.
const CHOSEN: [usize; 36] = [
    0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0,
    0, 0, 0, 1,
];
const SHOP_PORT: u16 = 8080;
/// The first client's port; below those that [`Trace::port`] gives.
const SHOPPERS_PORT: u16 = 40_000;
