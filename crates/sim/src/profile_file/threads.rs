//! The times of a chain's threads besides its functions.

use super::{At, Result};
use crate::model::Cost;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadTimes {
    /// Cores that all threads share.
    pub cores: u32,
    /// Reading.
    pub read: ThreadTime,
    /// A lane's own work.
    pub lane: ThreadTime,
    /// Sending.
    pub send: ThreadTime,
    /// By packets a second, in ascending order: nanoseconds from one batch of a reader to the next.
    pub rests: Vec<(f64, f64)>,
    /// How late a thread wakes by a timer, in nanoseconds: quantiles at equal distances.
    pub timer_late_ns: Vec<f64>,
}

/// The time of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadTime {
    /// For a batch, without waking.
    pub cost: Cost,
    /// To wake, in nanoseconds.
    pub wake_ns: f64,
}

impl ThreadTimes {
    /// How long a reader rests at this rate: as at the highest measured one below it.
    pub(crate) fn rest_ns(&self, packets_per_s: f64) -> Option<f64> {
        let below = self.rests.partition_point(|(rate, _)| *rate <= packets_per_s);
        self.rests.get(below.saturating_sub(1)).map(|(_, rest_ns)| *rest_ns)
    }
}

/// Reads them, if the file has them.
pub(super) fn read(at: &At<'_>) -> Result<Option<ThreadTimes>> {
    if !at.is_given() {
        return Ok(None);
    }
    at.only(&["cores", "read", "lane", "send", "rests", "timer_late_s"])?;
    let rest = |one: &At<'_>| {
        one.only(&["packets_per_s", "seconds"])?;
        let rate = one.get("packets_per_s").within(1.0..=1e12)?;
        Ok((rate, one.get("seconds").within(0.0..=1.0)? * 1e9))
    };
    let rests = at.get("rests");
    let mut rests = rests.list()?.iter().map(rest).collect::<Result<Vec<_>>>()?;
    rests.sort_by(|one, other| one.0.total_cmp(&other.0));
    let late = at.get("timer_late_s");
    let timer_late_ns = match late.is_given() {
        true => late.list()?.iter().map(|one| Ok(one.within(0.0..=1.0)? * 1e9)).collect(),
        false => Ok(Vec::new()),
    };
    let timer_late_ns = timer_late_ns?;
    Ok(Some(ThreadTimes {
        timer_late_ns,
        cores: at.get("cores").count(4096.0)?,
        read: time(&at.get("read"))?,
        lane: time(&at.get("lane"))?,
        send: time(&at.get("send"))?,
        rests,
    }))
}

fn time(at: &At<'_>) -> Result<ThreadTime> {
    at.only(&["wake_s", "packet_s", "byte_s"])?;
    let seconds = |key: &str| at.get(key).within(0.0..=1.0);
    let [packet_ps, byte_ps] = [seconds("packet_s")? * 1e12, seconds("byte_s")? * 1e12];
    let cost = Cost { launch_ps: 0.0, packet_ps, byte_ps };
    Ok(ThreadTime { cost, wake_ns: seconds("wake_s")? * 1e9 })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sound() -> Value {
        let time = |wake: f64| json!({ "wake_s": wake, "packet_s": 4e-8, "byte_s": 5e-11 });
        json!({
            "cores": 2, "read": time(2e-5), "lane": time(1e-5), "send": time(0.0),
            "rests": [{ "packets_per_s": 1e5, "seconds": 1e-4 },
                { "packets_per_s": 1e4, "seconds": 5e-5 }],
        })
    }

    fn of(value: &Value) -> Result<Option<ThreadTimes>> {
        read(&At { value, path: "threads".into() })
    }

    #[test]
    fn times_are_read_and_missing_ones_are_no_mistake() {
        assert_eq!(of(&Value::Null), Ok(None));
        let times = of(&sound()).expect("sound").expect("given");
        let read = times.read;
        assert_eq!((times.cores, read.wake_ns.round(), read.cost.packet_ps.round()), (2, 2e4, 4e4));
        let rests = [1.0, 1e4, 9e4, 1e5, 1e9].map(|rate| times.rest_ns(rate).map(f64::round));
        assert_eq!(rests, [5e4, 5e4, 5e4, 1e5, 1e5].map(Some));
        assert!(times.timer_late_ns.is_empty(), "as in older profiles");
        let mut with_late = sound();
        with_late["timer_late_s"] = json!([2e-5, 4e-5]);
        let late = of(&with_late).expect("sound").expect("given").timer_late_ns;
        assert_eq!(late, [2e-5 * 1e9, 4e-5 * 1e9]);
    }

    #[test]
    fn mistakes_are_named() {
        for (place, value, why) in [
            ("/cores", json!(0), "`threads.cores`"),
            ("/read/wake_s", json!(-1), "`threads.read.wake_s` must be"),
            ("/lane/packet_s", json!("x"), "`threads.lane.packet_s`"),
            ("/send", json!({ "wake_s": 0, "packet_s": 0 }), "`threads.send.byte_s`"),
            ("/rests/0/packets_per_s", json!(0), "`threads.rests[0].packets_per_s`"),
            ("/timer_late_s", json!([0, -1]), "`threads.timer_late_s[1]` must be"),
            ("/rests", json!(3), "`threads.rests` must be a list"),
        ] {
            let mut wrong = sound();
            wrong["timer_late_s"] = json!([0]);
            *wrong.pointer_mut(place).expect("a place") = value;
            let reported = of(&wrong).expect_err(place).to_string();
            assert!(reported.contains(why), "{place}: {reported}");
        }
    }
}
