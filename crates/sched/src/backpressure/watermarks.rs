//! The two marks of a queue, and how much a queue must hold above them.

use std::fmt;

/// One launch, in thousandths.
const LAUNCH: u32 = 1_000;

/// The occupancies at which a queue pauses its feeder and resumes it, in thousandths of a launch.
///
/// The default for `high` is the threshold that Simmer measured (section 4.2). Below two launches a
/// consumer that has one of them in flight may lack a full one when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    high: u32,
    low: u32,
}

impl Default for Watermarks {
    /// 2.8 and 2 launches.
    fn default() -> Self {
        Self { high: 2_800, low: 2_000 }
    }
}

impl Watermarks {
    /// Marks for a queue of `capacity`, all in thousandths of a launch. With equal marks a queue
    /// pauses its feeder at the mark and resumes it below.
    ///
    /// # Errors
    /// The mark that is out of its range, with the range.
    pub fn checked(high: i64, low: i64, capacity: u32) -> Result<Self, WatermarkError> {
        if capacity < LAUNCH {
            return Err(WatermarkError::CapacityBelowLaunch { capacity });
        }
        let Some(within) = u32::try_from(high).ok().filter(|&high| high >= LAUNCH) else {
            return Err(match high < i64::from(LAUNCH) {
                true => WatermarkError::HighBelowLaunch { high, capacity },
                false => WatermarkError::HighAboveCapacity { high, capacity },
            });
        };
        if within > capacity {
            return Err(WatermarkError::HighAboveCapacity { high, capacity });
        }
        match u32::try_from(low) {
            Ok(low) if (1..=within).contains(&low) => Ok(Self { high: within, low }),
            _ if low <= 0 => Err(WatermarkError::LowNotPositive { low, high }),
            _ => Err(WatermarkError::LowAboveHigh { low, high }),
        }
    }

    /// At this occupancy or above, a queue pauses its feeder.
    pub fn high(&self) -> u32 {
        self.high
    }

    /// At this occupancy or below, a queue resumes its feeder.
    pub fn low(&self) -> u32 {
        self.low
    }

    /// Whether a queue holds its feeder at occupancy `milli`, if it did so before.
    pub(super) fn hold(&self, milli: u32, held: bool) -> bool {
        milli >= self.high || held && milli > self.low
    }
}

/// Why two numbers are no [`Watermarks`]. All are in thousandths of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of `Watermarks::checked`")]
pub enum WatermarkError {
    /// The queue holds less than one launch.
    CapacityBelowLaunch { capacity: u32 },
    /// The high mark is below one launch.
    HighBelowLaunch { high: i64, capacity: u32 },
    /// The high mark is above the capacity of the queue.
    HighAboveCapacity { high: i64, capacity: u32 },
    /// The low mark is above the high one.
    LowAboveHigh { low: i64, high: i64 },
    /// The low mark is zero or negative.
    LowNotPositive { low: i64, high: i64 },
}

impl fmt::Display for WatermarkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::CapacityBelowLaunch { capacity } => {
                let capacity = Launches(capacity.into());
                write!(f, "the queue holds {capacity} launches; the least is 1")
            }
            Self::HighBelowLaunch { high, capacity }
            | Self::HighAboveCapacity { high, capacity } => {
                let (high, capacity) = (Launches(high), Launches(capacity.into()));
                write!(
                    f,
                    "`high` is {high} launches; allowed are 1 to {capacity}, the queue's size"
                )
            }
            Self::LowAboveHigh { low, high } | Self::LowNotPositive { low, high } => {
                let (low, high) = (Launches(low), Launches(high));
                write!(
                    f,
                    "`low` is {low} launches; allowed are 0.001 to {high}, the value of `high`"
                )
            }
        }
    }
}

impl std::error::Error for WatermarkError {}

/// Thousandths, shown as a decimal number.
struct Launches(i64);

impl fmt::Display for Launches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / 1_000, self.0.unsigned_abs() % 1_000);
        match rest {
            0 => write!(f, "{sign}{whole}"),
            _ => write!(f, "{sign}{}", format!("{whole}.{rest:03}").trim_end_matches('0')),
        }
    }
}

/// The packets that can still reach a queue after it crossed its high mark. All amounts are in one
/// unit, for instance packets or batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inflow {
    /// A launch of the consumer.
    pub launch: u64,
    /// The most that the feeder can have taken and not passed on: forming, waiting and in flight.
    /// Packets that it makes from them are included.
    pub held_upstream: u64,
    /// The most that the feeder can take in a second.
    pub rate: u64,
    /// Nanoseconds from a signal to its effect. It is 0 where feeder and queue share a machine.
    pub signal_delay_ns: u64,
}

/// How much a queue must hold so that nothing is lost, in thousandths of a launch.
///
/// Before the queue crosses `high` its occupancy is lower. All that reaches it from then on is
/// either held by the feeder at that moment, or taken by it before the signal arrives.
pub fn required_capacity(high: u32, inflow: &Inflow) -> u32 {
    let taken = u128::from(inflow.rate) * u128::from(inflow.signal_delay_ns);
    let comes = u128::from(inflow.held_upstream) + taken.div_ceil(1_000_000_000);
    let above = (comes * u128::from(LAUNCH)).div_ceil(inflow.launch.max(1).into());
    u32::try_from(u128::from(high) + above).unwrap_or(u32::MAX)
}
