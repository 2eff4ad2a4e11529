//! Two machines and a network that loses, doubles and reorders signals.

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::*;

#[derive(Clone, Debug)]
enum Event {
    Occupancy(Index, u32),
    Lose(Index),
    Double(Index),
    Deliver(Index),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (any::<Index>(), 0..5_000_u32).prop_map(|(edge, milli)| Event::Occupancy(edge, milli)),
        1 => any::<Index>().prop_map(Event::Lose),
        1 => any::<Index>().prop_map(Event::Double),
        3 => any::<Index>().prop_map(Event::Deliver),
    ]
}

/// Node 2 has two outgoing edges.
const EDGES: [(usize, usize); 5] = [(0, 1), (1, 2), (2, 3), (2, 4), (4, 5)];

struct Hosts {
    near: Backpressure,
    far: Backpressure,
    network: Vec<Signal>,
}

impl Hosts {
    fn new() -> Self {
        let graph = StageGraph::checked(6, &EDGES).unwrap();
        let near = Backpressure::new(&graph, PauseMode::On(Watermarks::default()), 0);
        let mut far = near.clone();
        (0..EDGES.len()).for_each(|edge| far.mark_remote(EdgeId(edge)));
        Self { near, far, network: Vec::new() }
    }

    fn handle(&mut self, event: &Event) {
        let at =
            |place: &Index| (!self.network.is_empty()).then(|| place.index(self.network.len()));
        match event {
            Event::Occupancy(edge, milli) => {
                self.near.handle_occupancy(EdgeId(edge.index(EDGES.len())), *milli, 0);
            }
            Event::Lose(place) => {
                at(place).map(|at| self.network.remove(at));
            }
            Event::Double(place) => self.network.extend(at(place).map(|at| self.network[at])),
            Event::Deliver(place) => {
                let signal = at(place).map(|at| self.network.remove(at));
                signal.map(|signal| self.far.handle_signal(&signal, 0));
            }
        }
        self.network.extend(std::iter::from_fn(|| self.near.poll_signal()));
    }

    fn paused(machine: &Backpressure) -> Vec<bool> {
        (0..6).map(|node| machine.is_paused(NodeId(node))).collect()
    }
}

proptest! {
    #[test]
    fn one_repeat_makes_both_hosts_agree(
        events in prop::collection::vec(event(), 0..200),
        order in any::<Index>(),
    ) {
        let mut hosts = Hosts::new();
        events.iter().for_each(|event| hosts.handle(event));
        hosts.near.handle_repeat();
        hosts.network.extend(std::iter::from_fn(|| hosts.near.poll_signal()));
        // The rest arrives in any order, so old signals also come last.
        while !hosts.network.is_empty() {
            hosts.handle(&Event::Deliver(order));
        }
        prop_assert_eq!(Hosts::paused(&hosts.far), Hosts::paused(&hosts.near));
    }
}
