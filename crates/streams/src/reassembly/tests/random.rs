//! Random datagrams, cut, mixed, lost, repeated, overlapped and late, against the model.

use proptest::prelude::*;
use proptest::test_runner::TestRng;

use super::super::Reassembly;
use super::fragments::{Fragment, Link};
use super::model::Model;
use super::{Ingress, take};

/// Draws that a seed decides.
struct Draw(TestRng);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// A datagram's headers, in a fragment without data.
fn headers(draw: &mut Draw) -> Fragment {
    let version = draw.pick(&[4, 6]);
    let chains: [&[u8]; 5] = [&[], &[], &[0], &[0, 60, 43], &[51, 60]];
    Fragment {
        link: draw.pick(&[Link::Ethernet, Link::Ethernet, Link::Tagged, Link::Raw]),
        src: draw.pick(&[1, 2]),
        ident: draw.below(4) as u32,
        protocol: draw.pick(&[200, 50]),
        hops: draw.pick(&[1, 64]),
        dscp: draw.pick(&[0, 46]),
        ecn: draw.pick(&[0, 1, 2]),
        dont_fragment: draw.one_in(4),
        options: draw.pick(&[0, 0, 1, 10]),
        before: if version == 6 { draw.pick(&chains).to_vec() } else { Vec::new() },
        ..Fragment::new(version, 0, true, &[])
    }
}

/// Its fragments, in their order.
fn cut(draw: &mut Draw, whole: &Fragment, data: &[u8]) -> Vec<Fragment> {
    let mut fragments = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let end = (at + 8 * (1 + draw.below(40))).min(data.len());
        let ecn = if draw.one_in(30) { 3 } else { whole.ecn };
        let hops = if draw.one_in(5) { 9 } else { whole.hops };
        let trailer = if whole.link == Link::Raw { 0 } else { draw.pick(&[0, 0, 6]) };
        let (offset, more, data) = (at, end < data.len(), data[at..end].to_vec());
        fragments.push(Fragment { offset, more, data, ecn, hops, trailer, ..whole.clone() });
        at = end;
    }
    fragments
}

/// Makes something of a fragment that a sender wouldn't.
fn spoil(draw: &mut Draw, fragment: &mut Fragment) {
    match draw.below(7) {
        0 => fragment.offset = 8 * draw.below(200),
        1 => fragment.data.truncate(draw.below(fragment.data.len() + 1)),
        2 => fragment.data.extend([5; 8]),
        3 => fragment.more ^= true,
        4 => fragment.data[0] ^= 1,
        5 => fragment.ecn = draw.below(4) as u8,
        _ => {
            fragment.offset += 8;
            fragment.data.drain(..fragment.data.len().min(8));
        }
    }
    // Of a first fragment of ESP the header has to be there.
    if fragment.offset == 0 && fragment.data.len() < 8 && !fragment.data.is_empty() {
        fragment.protocol = 200;
    }
}

fn traffic(draw: &mut Draw) -> Vec<Fragment> {
    let mut all = Vec::new();
    let is_tidy = draw.one_in(2);
    for _ in 0..1 + draw.below(8) {
        let whole = headers(draw);
        let len = 9 + draw.below(1200);
        let data = draw.bytes(len);
        let mut fragments = cut(draw, &whole, &data);
        if draw.one_in(2) {
            fragments.reverse();
        }
        for at in 0..fragments.len() {
            if draw.one_in(10) {
                let copy = fragments[at].clone();
                fragments.push(copy);
            }
            if !is_tidy && draw.one_in(15) {
                let mut copy = fragments[at].clone();
                spoil(draw, &mut copy);
                fragments.push(copy);
            }
        }
        if draw.one_in(3) {
            let lost = draw.below(fragments.len());
            fragments.remove(lost);
        }
        // A packet with both ends is no fragment.
        all.extend(fragments.into_iter().filter(|f| f.offset > 0 || f.more));
    }
    // Some go far from where they were sent, most a little.
    let reach = draw.pick(&[1, 4, all.len()]);
    for at in 0..all.len() {
        let other = (at + draw.below(reach.max(1))).min(all.len() - 1);
        all.swap(at, other);
    }
    all
}

proptest! {
    #[test]
    fn agrees_with_the_model(seed in any::<[u8; 32]>()) {
        let mut draw = Draw(TestRng::from_seed(prop::test_runner::RngAlgorithm::ChaCha, &seed));
        let (room, len_max) = (1 + draw.below(6), draw.pick(&[300, 900, 1300, 4000]));
        let mut reassembly = Reassembly::new(room, len_max);
        let mut model = Model::new(room, len_max);
        let (mut ingress, mut now, mut complete) = (Ingress::new(), 0, 0);
        for fragment in traffic(&mut draw) {
            now += draw.pick(&[0, 0, 0, 0, 1_000_000, 1_000_000, 9_999_999_999]);
            let packet = ingress.packet(&fragment.frame(), fragment.link.kind(), now, 0);
            let reported = take(&mut reassembly, &packet);
            prop_assert_eq!(&reported, &model.take(&fragment, now), "{:?}", fragment);
            complete += u64::from(matches!(reported, Ok(Some(_))));
        }
        let counters = reassembly.counters();
        prop_assert_eq!(counters.complete, complete);
    }
}
