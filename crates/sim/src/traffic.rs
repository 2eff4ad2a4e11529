//! Packets that arrive, in batches as ingress makes them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::random::Random;

/// Bytes of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All alike.
    Fixed(u32),
    /// 64, 594 and 1518 bytes, in the proportion 7 : 4 : 1.
    Imix,
}

impl Size {
    const IMIX: [u32; 12] = [64, 64, 594, 64, 594, 64, 64, 1518, 594, 64, 64, 594];

    /// Of packet `number`.
    fn of(self, number: u64) -> u32 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Imix => Self::IMIX[(number % Self::IMIX.len() as u64) as usize],
        }
    }

    /// The mean.
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(bytes),
            Self::Imix => f64::from(Self::IMIX.iter().sum::<u32>()) / Self::IMIX.len() as f64,
        }
    }
}

/// When packets arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// So many a second, at equal distances.
    Constant(f64),
    /// So many a second, independent of each other.
    Poisson(f64),
    /// Constant for `on_ns`, then nothing for `off_ns`, and again.
    OnOff {
        /// Packets a second while it sends.
        rate: f64,
        /// For so long.
        on_ns: u64,
        /// And then nothing for so long.
        off_ns: u64,
    },
    /// Constant rates, each for some nanoseconds. Nothing comes after the last.
    Steps(Vec<(u64, f64)>),
    /// Times and bytes of a capture, once.
    Replay(Arc<[(u64, u32)]>),
}

/// The packets of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// When they arrive.
    pub arrivals: Arrivals,
    /// Their sizes; those of a capture are its own.
    pub size: Size,
}

impl Traffic {
    /// Packets a second on average, if the traffic has no end.
    pub fn rate(&self) -> Option<f64> {
        match &self.arrivals {
            Arrivals::Constant(rate) | Arrivals::Poisson(rate) => Some(*rate),
            Arrivals::OnOff { rate, on_ns, off_ns } => {
                Some(rate * *on_ns as f64 / (*on_ns + *off_ns).max(1) as f64)
            }
            Arrivals::Steps(_) | Arrivals::Replay(_) => None,
        }
    }
}

/// Packets that travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// When its first packet arrived.
    pub(crate) oldest_ns: u64,
    /// When its last one did.
    pub(crate) newest_ns: u64,
}

/// Packets drawn one by one that count as an event.
pub(crate) const DRAWN_EVENT: u64 = 64;

/// Makes the batches of a chain's traffic.
pub(crate) struct Source {
    traffic: Traffic,
    batch_packets: u64,
    /// A batch is handed over when its first packet waited for so long.
    delay_ns: u64,
    ends_ns: u64,
    random: Random,
    /// Packets so far.
    number: u64,
    /// Where the next step begins, and its index.
    step: (u64, usize, u64),
    clock_ns: f64,
    /// Packets that were looked at, in order.
    ahead: VecDeque<(u64, u32)>,
    /// Packets that were drawn one by one, and how many may be.
    drawn: u64,
    drawn_max: u64,
}

impl Source {
    pub(crate) fn new(
        traffic: &Traffic,
        (batch_packets, delay_ns): (u64, u64),
        ends_ns: u64,
        random: Random,
    ) -> Self {
        Self {
            traffic: traffic.clone(),
            batch_packets: batch_packets.max(1),
            delay_ns,
            ends_ns,
            random,
            number: 0,
            step: (0, 0, 0),
            clock_ns: 0.0,
            ahead: VecDeque::new(),
            drawn: 0,
            drawn_max: u64::MAX,
        }
    }

    /// No more packets are drawn one by one than count as `events`.
    #[must_use]
    pub(crate) fn limited(self, events: u64) -> Self {
        Self { drawn_max: events.saturating_mul(DRAWN_EVENT), ..self }
    }

    /// The packets drawn one by one, as events.
    pub(crate) fn events(&self) -> u64 {
        self.drawn / DRAWN_EVENT
    }

    /// The next batch and the time at which it is handed over. It takes all packets that arrived
    /// by `now_ns`, as far as it has room.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<(u64, Batch)> {
        if let (&Arrivals::Constant(rate), Size::Fixed(bytes)) =
            (&self.traffic.arrivals, self.traffic.size)
        {
            return self.constant(rate, bytes, now_ns);
        }
        let (oldest_ns, bytes) = self.peek()?;
        self.ahead.pop_front();
        let mut batch =
            Batch { packets: 1, bytes: u64::from(bytes), oldest_ns, newest_ns: oldest_ns };
        let due_ns = oldest_ns.saturating_add(self.delay_ns).max(now_ns);
        while batch.packets < self.batch_packets {
            match self.peek() {
                Some((at_ns, bytes)) if at_ns <= due_ns => {
                    self.ahead.pop_front();
                    batch.packets += 1;
                    batch.bytes += u64::from(bytes);
                    batch.newest_ns = at_ns;
                }
                Some(_) => return Some((due_ns, batch)),
                None => break,
            }
        }
        Some((batch.newest_ns, batch))
    }

    /// A batch of equal packets at equal distances, without a step for each of them.
    fn constant(&mut self, rate: f64, bytes: u32, now_ns: u64) -> Option<(u64, Batch)> {
        let at_ns = |number: u64| (number as f64 * 1e9 / rate) as u64;
        let (first, oldest_ns) = (self.number, at_ns(self.number));
        if oldest_ns >= self.ends_ns {
            return None;
        }
        let due_ns = oldest_ns.saturating_add(self.delay_ns).max(now_ns);
        let until_ns = due_ns.min(self.ends_ns - 1);
        let within = (until_ns as f64 * rate / 1e9) as u64;
        let mut last = within.saturating_add(1).min(first + self.batch_packets - 1).max(first);
        while at_ns(last) > until_ns {
            last -= 1;
        }
        self.number = last + 1;
        let packets = last + 1 - first;
        let is_open = packets < self.batch_packets && at_ns(last + 1) < self.ends_ns;
        let newest_ns = at_ns(last);
        let batch = Batch { packets, bytes: packets * u64::from(bytes), oldest_ns, newest_ns };
        Some((if is_open { due_ns } else { newest_ns }, batch))
    }

    /// The packets that arrived by `until_ns`, as far as a batch has room for them.
    pub(crate) fn take(&mut self, until_ns: u64) -> Option<Batch> {
        let mut batch = Batch { packets: 0, bytes: 0, oldest_ns: until_ns, newest_ns: until_ns };
        self.fill(&mut batch, until_ns);
        (batch.packets > 0).then_some(batch)
    }

    /// Adds packets that arrived by `until_ns` to a batch, as far as it has room for them.
    pub(crate) fn fill(&mut self, batch: &mut Batch, until_ns: u64) {
        if let (&Arrivals::Constant(rate), Size::Fixed(bytes)) =
            (&self.traffic.arrivals, self.traffic.size)
        {
            let until_ns = until_ns.min(self.ends_ns - 1);
            let room = self.batch_packets - batch.packets;
            let waiting = self.arrived(rate, until_ns).saturating_sub(self.number).min(room);
            self.number += waiting;
            batch.packets += waiting;
            batch.bytes += waiting * u64::from(bytes);
            return;
        }
        while batch.packets < self.batch_packets {
            let Some((_, bytes)) = self.peek().filter(|(at_ns, _)| *at_ns <= until_ns) else {
                break;
            };
            self.ahead.pop_front();
            batch.packets += 1;
            batch.bytes += u64::from(bytes);
        }
    }

    /// Packets at equal distances that arrived by `until_ns`.
    fn arrived(&self, rate: f64, until_ns: u64) -> u64 {
        (until_ns as f64 * rate / 1e9) as u64 + 1
    }

    /// When the next packet arrives, if one does.
    pub(crate) fn next_ns(&mut self) -> Option<u64> {
        if let (&Arrivals::Constant(rate), Size::Fixed(_)) =
            (&self.traffic.arrivals, self.traffic.size)
        {
            let at_ns = (self.number as f64 * 1e9 / rate).ceil() as u64;
            return Some(at_ns).filter(|at_ns| *at_ns < self.ends_ns);
        }
        self.peek().map(|(at_ns, _)| at_ns)
    }

    fn peek(&mut self) -> Option<(u64, u32)> {
        if self.ahead.is_empty() {
            self.look_ahead();
        }
        self.ahead.front().copied()
    }

    /// Looks at one more packet. Returns when it arrives.
    fn look_ahead(&mut self) -> Option<u64> {
        if self.drawn == self.drawn_max {
            return None;
        }
        self.drawn += 1;
        let next = self.packet().filter(|&(at_ns, _)| at_ns < self.ends_ns)?;
        self.ahead.push_back(next);
        Some(next.0)
    }

    /// Loses the oldest packets that arrived by `now_ns`, so that `room` of them are left. Returns
    /// their number.
    pub(crate) fn lose(&mut self, room: u64, now_ns: u64) -> u64 {
        if let (Arrivals::Constant(_), Size::Fixed(_)) = (&self.traffic.arrivals, self.traffic.size)
        {
            let lost = self.waiting(now_ns).saturating_sub(room);
            self.number += lost;
            return lost;
        }
        let mut lost = 0;
        let mut last = self.ahead.back().map(|(at_ns, _)| *at_ns).or_else(|| self.look_ahead());
        while last.is_some_and(|at_ns| at_ns <= now_ns) {
            if self.ahead.len() as u64 > room {
                self.ahead.pop_front();
                lost += 1;
            }
            last = self.look_ahead();
        }
        lost
    }

    /// Packets that arrived by `now_ns` and were not taken.
    pub(crate) fn waiting(&mut self, now_ns: u64) -> u64 {
        if let (&Arrivals::Constant(rate), Size::Fixed(_)) =
            (&self.traffic.arrivals, self.traffic.size)
        {
            let until_ns = now_ns.min(self.ends_ns - 1);
            return self.arrived(rate, until_ns).saturating_sub(self.number);
        }
        let mut last = self.ahead.back().map(|(at_ns, _)| *at_ns).or_else(|| self.look_ahead());
        while last.is_some_and(|at_ns| at_ns <= now_ns) {
            last = self.look_ahead();
        }
        self.ahead.iter().take_while(|(at_ns, _)| *at_ns <= now_ns).count() as u64
    }

    fn packet(&mut self) -> Option<(u64, u32)> {
        let number = self.number;
        let size = self.traffic.size;
        let at_ns = match &self.traffic.arrivals {
            Arrivals::Constant(rate) => (number as f64 * 1e9 / rate) as u64,
            Arrivals::Poisson(rate) => {
                self.clock_ns += self.random.exponential(1e9 / rate);
                self.clock_ns as u64
            }
            Arrivals::OnOff { rate, on_ns, off_ns } => {
                let sent_ns = (number as f64 * 1e9 / rate) as u64;
                sent_ns + sent_ns / (*on_ns).max(1) * off_ns
            }
            Arrivals::Steps(_) => self.stepped()?,
            Arrivals::Replay(all) => {
                self.number += 1;
                return all.get(number as usize).copied();
            }
        };
        self.number += 1;
        Some((at_ns, size.of(number)))
    }

    /// The next packet of a step, or of the first later one that has packets.
    fn stepped(&mut self) -> Option<u64> {
        let Arrivals::Steps(steps) = &self.traffic.arrivals else { return None };
        loop {
            let (begins_ns, index, sent) = self.step;
            let &(lasts_ns, rate) = steps.get(index)?;
            let at_ns = if rate > 0.0 { (sent as f64 * 1e9 / rate) as u64 } else { u64::MAX };
            if at_ns < lasts_ns {
                self.step.2 += 1;
                return Some(begins_ns + at_ns);
            }
            self.step = (begins_ns.saturating_add(lasts_ns), index + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(arrivals: Arrivals, batch: (u64, u64), ends_ns: u64) -> Vec<(u64, Batch)> {
        let traffic = Traffic { arrivals, size: Size::Fixed(100) };
        let mut source = Source::new(&traffic, batch, ends_ns, Random::new(1, 0));
        std::iter::from_fn(|| source.next(0)).collect()
    }

    #[test]
    fn batches_close_when_full_when_due_and_at_the_end() {
        let full = batches(Arrivals::Constant(1e6), (4, u64::MAX), 10_000);
        let times: Vec<_> = full.iter().map(|(at_ns, one)| (*at_ns, one.packets)).collect();
        assert_eq!(times, [(3_000, 4), (7_000, 4), (9_000, 2)]);
        let due = batches(Arrivals::Constant(1e6), (4, 1_500), 4_000);
        let times: Vec<_> = due.iter().map(|(at_ns, one)| (*at_ns, one.packets)).collect();
        assert_eq!(times, [(1_500, 2), (3_000, 2)]);
    }

    #[test]
    fn a_source_that_waited_takes_all_that_arrived() {
        for arrivals in [Arrivals::Constant(1e6), Arrivals::Steps(vec![(u64::MAX, 1e6)])] {
            let traffic = Traffic { arrivals, size: Size::Fixed(100) };
            let mut source = Source::new(&traffic, (64, 1_500), 100_000, Random::new(1, 0));
            let mut next = |now_ns| source.next(now_ns).map(|(at_ns, one)| (at_ns, one.packets));
            assert_eq!(next(20_000), Some((20_000, 21)));
            assert_eq!(next(98_000), Some((84_000, 64)));
        }
    }

    #[test]
    fn constant_batches_are_those_of_their_packets() {
        for rate in [1e6, 3.7e6, 123_456.7, 1e9 / 67.2, 1e9] {
            for batch in [(1, 0), (7, u64::MAX), (64, 1_500), (1 << 20, 2_000)] {
                let ends_ns = 100_000;
                let by_packet = batches(Arrivals::Steps(vec![(u64::MAX, rate)]), batch, ends_ns);
                assert_eq!(batches(Arrivals::Constant(rate), batch, ends_ns), by_packet, "{rate}");
            }
        }
    }

    #[test]
    fn packets_that_are_lost_count_as_events() {
        for arrivals in [
            Arrivals::Poisson(1e18),
            Arrivals::OnOff { rate: 1e15, on_ns: 1, off_ns: 0 },
            Arrivals::Steps(vec![(u64::MAX, 1e15)]),
        ] {
            let traffic = Traffic { arrivals, size: Size::Fixed(100) };
            let source = Source::new(&traffic, (64, 0), u64::MAX, Random::new(1, 0));
            let mut source = source.limited(1_000);
            assert!(source.lose(32, 1_000_000) > 63_000);
            assert_eq!(source.events(), 1_000);
            source.waiting(2_000_000);
            assert_eq!(source.events(), 1_000);
        }
    }

    #[test]
    fn on_off_and_steps_keep_their_times() {
        let on_off = Arrivals::OnOff { rate: 1e9 / 100.0, on_ns: 200, off_ns: 1_000 };
        let times: Vec<u64> =
            batches(on_off, (1, 0), 2_500).iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [0, 100, 1_200, 1_300, 2_400]);
        let steps = Arrivals::Steps(vec![(300, 1e7), (500, 0.0), (400, 5e6)]);
        let times: Vec<u64> =
            batches(steps, (1, 0), u64::MAX).iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [0, 100, 200, 800, 1_000]);
    }

    #[test]
    fn a_capture_is_replayed_once_with_its_sizes() {
        let all: Arc<[(u64, u32)]> = Arc::from([(10, 60), (20, 1500)]);
        let replayed = batches(Arrivals::Replay(all), (8, u64::MAX), u64::MAX);
        let batch = Batch { packets: 2, bytes: 1560, oldest_ns: 10, newest_ns: 20 };
        assert_eq!(replayed, [(20, batch)]);
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_its_variance() {
        let gaps = batches(Arrivals::Poisson(1e6), (1, 0), 200_000_000);
        let count = gaps.len() as f64;
        assert!((count / 200_000.0 - 1.0).abs() < 0.01, "{count}");
        let gaps: Vec<f64> =
            gaps.windows(2).map(|two| (two[1].0 - two[0].0) as f64 / 1_000.0).collect();
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((square / 2.0 - 1.0).abs() < 0.02, "{square}");
    }
}
