//! The replay window against a model that remembers every number, written from RFC 4303, 3.4.3 and
//! A2.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const WINDOWS: [u32; 5] = [32, 64, 1000, 4096, 0];

/// Every number that was received.
struct Model {
    /// Packets; 0 for none.
    window: i128,
    esn: bool,
    first: i128,
    top: i128,
    seen: HashSet<i128>,
}

impl Model {
    fn new(window: u32, esn: bool, highest: u64) -> Self {
        let top = i128::from(highest);
        Self { window: i128::from(window), esn, first: top, top, seen: HashSet::new() }
    }

    /// The only number with these low bits from the lower edge of the window to 2^32 - 1 above it.
    fn infer(&self, low: u32) -> Option<u64> {
        let run = 1_i128 << 32;
        if !self.esn {
            return u64::from(low).into_some_but_zero();
        }
        let window = if self.window == 0 { run / 2 } else { self.window };
        let edge = self.top - window + 1;
        let near = self.top.div_euclid(run);
        let mut meant = (near - 1..=near + 1)
            .map(|high| high * run + i128::from(low))
            .filter(|number| (edge..edge + run).contains(number));
        let number = meant.next().expect("one number in any 2^32");
        assert_eq!(meant.next(), None);
        u64::try_from(number).ok()?.into_some_but_zero()
    }

    fn check(&self, sequence: u64) -> bool {
        let number = i128::from(sequence);
        let last = if self.esn { i128::from(u64::MAX) } else { i128::from(u32::MAX) };
        if number == 0 || number > last {
            return false;
        }
        let is_old = number <= self.top - self.window;
        self.window == 0 || !(is_old || number <= self.first || self.seen.contains(&number))
    }

    fn accept(&mut self, sequence: u64) {
        self.seen.insert(i128::from(sequence));
        self.top = self.top.max(i128::from(sequence));
    }
}

trait SomeButZero: Sized {
    fn into_some_but_zero(self) -> Option<Self>;
}

impl SomeButZero for u64 {
    fn into_some_but_zero(self) -> Option<Self> {
        if self == 0 { None } else { Some(self) }
    }
}

/// One event on the way of packets: what comes, relative to the highest number so far.
#[derive(Clone, Debug)]
enum Event {
    /// The next number, `lost` others having got lost.
    Next { lost: u64 },
    /// One that is this much below the highest: late, or a replay.
    Back { by: u64 },
    /// A leap by less than can be recognised.
    Leap { by: u64 },
    /// Any low half, by a forger: asked about, never accepted.
    Forged { low: u32 },
    /// The same around the numbers where halves wrap.
    Edge { low: u32 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3_u64).prop_map(|lost| Event::Next { lost }),
        4 => (0..80_u64).prop_map(|by| Event::Back { by }),
        2 => (0..5000_u64).prop_map(|by| Event::Back { by }),
        1 => (1..9000_u64).prop_map(|by| Event::Leap { by }),
        1 => (1..(1_u64 << 32) - 4096).prop_map(|by| Event::Leap { by }),
        1 => any::<u32>().prop_map(|low| Event::Forged { low }),
        1 => (0..200_u32).prop_map(|by| Event::Edge { low: 100_u32.wrapping_sub(by) }),
    ]
}

/// Where SAs start: at the beginning, around the wraps of the low half, and near the end.
fn start() -> impl Strategy<Value = u64> {
    let near = |number: u64, below: u64| (0..=below).prop_map(move |by| number.wrapping_sub(by));
    prop_oneof![
        Just(0),
        near(5000, 5000),
        near((1 << 32) + 5000, 10_000),
        near((7 << 32) + 5000, 10_000),
        near(u64::MAX, 10_000),
        near(u64::MAX - (1 << 32) + 5000, 10_000),
        any::<u64>(),
    ]
}

/// Tells both of one event, and compares all that they say.
fn step(replay: &mut ReplayWindow, model: &mut Model, event: &Event) {
    let top = replay.highest();
    let (number, is_forged) = match *event {
        Event::Next { lost } => (top.checked_add(lost + 1), false),
        Event::Back { by } => (top.checked_sub(by), false),
        Event::Leap { by } => (top.checked_add(by), false),
        Event::Forged { low } | Event::Edge { low } => (replay.infer(low), true),
    };
    if let Event::Forged { low } | Event::Edge { low } = *event {
        assert_eq!(number, model.infer(low), "infer({low}) at {top}");
    }
    let Some(number) = number else { return };
    let may = model.check(number);
    assert_eq!(replay.check(number), may, "check({number}) at {top}");
    assert_eq!(
        replay.infer(number as u32),
        model.infer(number as u32),
        "infer of {number} at {top}"
    );
    if may && !is_forged {
        let is_reported = !model.esn || model.window != 0 || number.abs_diff(top) < 1 << 31;
        // The low half of an acceptable number must give the number.
        assert!(!is_reported || replay.infer(number as u32) == Some(number), "{number} at {top}");
        replay.accept(number);
        model.accept(number);
        assert_eq!(i128::from(replay.highest()), model.top);
        assert_eq!(replay.check(number), model.window == 0);
    }
}

proptest! {
    #[test]
    fn agrees_with_a_model_that_remembers_all(
        window in prop::sample::select(&WINDOWS[..]),
        esn in any::<bool>(),
        start in start(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        let start = if esn { start } else { start & u64::from(u32::MAX) };
        let mut replay = ReplayWindow::new(window, esn, start);
        let mut model = Model::new(window, esn, start);
        for event in &events {
            step(&mut replay, &mut model, event);
        }
        // Every number around the window, at last.
        for by in 0..u64::from(window) + 200 {
            for number in [replay.highest().checked_sub(by), replay.highest().checked_add(by)] {
                let Some(number) = number else { continue };
                prop_assert_eq!(replay.check(number), model.check(number), "{}", number);
            }
        }
    }

    /// A sender's numbers over a path that loses, repeats and delays packets, by less than the
    /// window. Every packet that arrives is received once, with the number it was sent with,
    /// although only the low half is sent.
    #[test]
    fn receives_each_packet_once_over_a_bad_way(
        window in prop::sample::select(&WINDOWS[..4]),
        esn in any::<bool>(),
        start in start(),
        way in prop::collection::vec((0..64_u64, 0..10_u8), 1..3000),
    ) {
        let start = if esn { start } else { start & u64::from(u32::MAX) };
        let last = if esn { u64::MAX } else { u64::from(u32::MAX) };
        let mut arrivals = Vec::new();
        for (at, (delay, fate)) in (0_u64..).zip(way) {
            let Some(number) =
                start.checked_add(at + 1).filter(|&number| number <= last) else { break };
            let delay = delay.min(u64::from(window) / 2 - 1);
            match fate {
                0 => {}
                1 => arrivals.extend([(at + delay, number), (at, number)]),
                _ => arrivals.push((at + delay, number)),
            }
        }
        arrivals.sort_unstable();
        let mut replay = ReplayWindow::new(window, esn, start);
        let mut received = HashSet::new();
        for &(_, number) in &arrivals {
            prop_assert_eq!(replay.infer(number as u32), Some(number));
            prop_assert_eq!(replay.check(number), received.insert(number));
            replay.accept(number);
        }
        prop_assert_eq!(received, arrivals.iter()
            .map(|&(_, number)| number).collect::<HashSet<_>>());
    }
}

/// RFC 4303, A2.1, at each side of each edge. Window, highest number, low half, what it stands for.
#[test]
fn edges_of_the_inference() {
    const HIGH: u64 = 1 << 32;
    let cases = [
        // Case A: the window is 0x...c1 to 0x...100.
        (64, 5 * HIGH + 0x100, 0xc1, Some(5 * HIGH + 0xc1)),
        (64, 5 * HIGH + 0x100, 0xc0, Some(6 * HIGH + 0xc0)),
        (64, 5 * HIGH + 0x100, u32::MAX, Some(6 * HIGH - 1)),
        (64, 5 * HIGH + 63, 0, Some(5 * HIGH)),
        // Case B: it begins in the run before.
        (64, 5 * HIGH + 62, u32::MAX, Some(5 * HIGH - 1)),
        (64, 5 * HIGH + 62, u32::MAX - 1, Some(6 * HIGH - 2)),
        (64, 5 * HIGH, 0xffff_ffc1, Some(4 * HIGH + 0xffff_ffc1)),
        (64, 5 * HIGH, 0xffff_ffc0, Some(5 * HIGH + 0xffff_ffc0)),
        // No number below 1 or above the last.
        (64, 0, 0, None),
        (64, 0, u32::MAX, None),
        (64, 0, 0xffff_ffc0, Some(0xffff_ffc0)),
        (64, u64::MAX, u32::MAX - 64, None),
        (64, u64::MAX, u32::MAX - 63, Some(u64::MAX - 63)),
        (64, u64::MAX, 0, None),
        // Without a window: the nearest.
        (0, 5 * HIGH, 1 << 31, Some(5 * HIGH + (1 << 31))),
        (0, 5 * HIGH, (1 << 31) + 1, Some(4 * HIGH + (1 << 31) + 1)),
    ];
    for (window, highest, low, whole) in cases {
        let replay = ReplayWindow::new(window, true, highest);
        assert_eq!(replay.infer(low), whole, "{window} {highest:#x} {low:#x}");
    }
    assert_eq!(ReplayWindow::new(64, false, 5 * HIGH).infer(7), Some(7));
    assert_eq!(ReplayWindow::new(64, false, 0).infer(0), None);
}

#[test]
fn sizes_are_brought_to_what_is_allowed() {
    for (asked, reach) in [(1, 32), (32, 32), (33, 33), (4096, 4096), (u32::MAX, 4096)] {
        let mut replay = ReplayWindow::new(asked, false, 0);
        replay.accept(10_000);
        assert!(replay.check(10_000 - reach + 1));
        assert!(!replay.check(10_000 - reach));
    }
}
