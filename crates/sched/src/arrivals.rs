//! The arrivals at a stage, as if no pause had held packets back. The demand of a tenant is this
//! rate times the device time of a packet (Simmer, 3.1).
//!
//! A paused stage takes no packets, so those before it and the source take none either. A count at
//! the stage would be the rate that it was served at. So packets count where they come for the
//! chain, taken or lost there. Of these the stage gets the part that it got of those taken.

/// Packets after which the part that reaches the stage is measured anew.
const WINDOW: u64 = 1 << 16;

/// Counts of packets since the start of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Those that came for the chain: taken, waiting, or lost before its first queue.
    pub offered: u64,
    /// Those that the first stage took from its queue.
    pub entered: u64,
    /// Those that came to the queue of the stage: taken, or dropped by it.
    pub reached: u64,
}

/// See the module. One for each stage on a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrivals {
    /// At the start of the measured part, with the arrivals reported until then.
    from: (Arrived, u64),
    /// The same later, from where it is measured next.
    next: (Arrived, u64),
    reported: u64,
}

impl Arrivals {
    /// The packets that arrived at the stage since the last call.
    pub fn handle(&mut self, now: Arrived) -> u64 {
        let since = |of: fn(&Arrived) -> u64| of(&now).saturating_sub(of(&self.from.0));
        let (offered, entered) = (since(|all| all.offered), since(|all| all.entered));
        let reached = since(|all| all.reached);
        // Until packets enter, each may come to the stage.
        let arrived = match u128::from(entered) {
            0 => offered,
            entered => (u128::from(offered) * u128::from(reached) / entered) as u64,
        };
        let new = arrived.saturating_sub(self.reported - self.from.1);
        self.reported += new;
        if now.entered.saturating_sub(self.next.0.entered) >= WINDOW {
            (self.from, self.next) = (self.next, (now, self.reported));
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(arrivals: &mut Arrivals, steps: impl IntoIterator<Item = [u64; 3]>) -> u64 {
        let at = |[offered, entered, reached]: [u64; 3]| Arrived { offered, entered, reached };
        steps.into_iter().map(|step| arrivals.handle(at(step))).sum()
    }

    #[test]
    fn packets_that_a_pause_holds_back_count() {
        for (what, steps, expected) in [
            ("all are taken", vec![[64, 64, 64], [128, 128, 128]], 128),
            ("nothing enters", vec![[64, 0, 0], [640, 0, 0]], 640),
            ("half is lost at the source", vec![[100, 50, 50], [1000, 500, 500]], 1000),
            ("half is routed past", vec![[100, 100, 50], [1000, 1000, 500]], 500),
            ("both", vec![[1000, 500, 250], [2000, 1000, 500]], 1000),
            ("the stage lags", vec![[100, 100, 0], [200, 200, 200]], 200),
            ("nothing new", vec![[100, 100, 100], [100, 100, 100]], 100),
        ] {
            assert_eq!(sum(&mut Arrivals::default(), steps), expected, "{what}");
        }
    }

    #[test]
    fn a_new_part_of_the_packets_is_followed() {
        let mut arrivals = Arrivals::default();
        let all = (1..=100).map(|step| [step * 10_000; 3]);
        assert_eq!(sum(&mut arrivals, all), 1_000_000);
        // From here on a quarter of the packets comes to the stage.
        let later = |step: u64| {
            let all = 1_000_000 + step * 10_000;
            [all, all, 1_000_000 + step * 2_500]
        };
        let first = sum(&mut arrivals, (1..=20).map(later));
        let next = sum(&mut arrivals, (21..=120).map(later));
        assert!((50_000..=130_000).contains(&first), "{first}");
        assert!((249_000..=251_000).contains(&next), "{next}");
    }
}
