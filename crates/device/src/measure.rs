//! Measures how fast a device copies: each way, both at once, and the time of the shortest copy.

use std::time::Instant;

use crate::{Device, Failure, Part, Step, Stream, Work};

/// Rates of copies between host memory and a device, in bytes per second, and the time of the
/// shortest, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// To the device.
    pub copy_in: f64,
    /// From the device.
    pub copy_out: f64,
    /// To the device while as much comes from it.
    pub both_in: f64,
    /// From the device while as much goes to it.
    pub both_out: f64,
    /// Of a copy, beside what its bytes take.
    pub each_copy: f64,
}

/// Bytes of one copy, and how many make one measurement.
const BLOCK: usize = 4 << 20;
const BLOCKS: usize = 16;

/// Bytes of the shortest copies that are measured, and how many make one measurement.
const SHORT: usize = 64;
const SHORTS: usize = 256;

/// Rounds after one warm-up; the median counts.
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
enum CopyDirection {
    In,
    Out,
}

/// Measures copies of 4 MiB blocks on `device`, and short ones.
///
/// # Errors
/// The device's.
pub fn measure(device: &dyn Device) -> Result<Speeds, Failure> {
    let mut inward = Lane::new(device, CopyDirection::In, (BLOCK, BLOCKS))?;
    let mut outward = Lane::new(device, CopyDirection::Out, (BLOCK, BLOCKS))?;
    let mut short = Lane::new(device, CopyDirection::In, (SHORT, SHORTS))?;
    let copy_in = median(|| rates([&mut inward]))?[0];
    let copy_out = median(|| rates([&mut outward]))?[0];
    let [both_in, both_out] = median(|| rates([&mut inward, &mut outward]))?;
    let each_copy = SHORT as f64 / median(|| rates([&mut short]))?[0];
    Ok(Speeds { copy_in, copy_out, both_in, both_out, each_copy })
}

/// A stream and the copies it is given each time.
struct Lane {
    stream: Box<dyn Stream>,
    work: Option<Work>,
    /// Of its copies together.
    bytes: usize,
}

impl Lane {
    /// With `count` copies of `len` bytes each.
    fn new(
        device: &dyn Device,
        way: CopyDirection,
        (len, count): (usize, usize),
    ) -> Result<Self, Failure> {
        let bytes = len * count;
        let piece = device.host_memory(bytes)?;
        let buffer = device.allocate(bytes)?;
        let copy = |number: usize| {
            let range = number * len..(number + 1) * len;
            let (part, slice) = (Part { piece: 0, range: range.clone() }, buffer.at(range));
            match way {
                CopyDirection::In => Step::CopyIn { from: part, to: slice },
                CopyDirection::Out => Step::CopyOut { from: slice, to: part },
            }
        };
        let work = Work::new(vec![piece], (0..count).map(copy).collect());
        Ok(Self { stream: device.stream()?, work: Some(work), bytes })
    }

    fn submit(&mut self) -> Result<(), Failure> {
        let work = self.work.take().unwrap_or_default();
        self.stream.submit(work).map_err(|refused| refused.why)
    }

    fn poll(&mut self) -> Result<bool, Failure> {
        let Some(done) = self.stream.poll() else { return Ok(false) };
        self.work = Some(done.work);
        done.outcome.map(|()| true)
    }
}

/// Submits the copies of all lanes and polls until each is done; each lane's own rate.
fn rates<const N: usize>(mut lanes: [&mut Lane; N]) -> Result<[f64; N], Failure> {
    let start = Instant::now();
    for lane in &mut lanes {
        lane.submit()?;
    }
    let mut rates = [0.0; N];
    while rates.contains(&0.0) {
        for (rate, lane) in rates.iter_mut().zip(&mut lanes) {
            if *rate == 0.0 && lane.poll()? {
                *rate = lane.bytes as f64 / start.elapsed().as_secs_f64().max(1e-9);
            }
        }
        std::thread::yield_now();
    }
    Ok(rates)
}

fn median<const N: usize>(
    mut once: impl FnMut() -> Result<[f64; N], Failure>,
) -> Result<[f64; N], Failure> {
    once()?;
    let rounds: Vec<[f64; N]> = (0..ROUNDS).map(|_| once()).collect::<Result<_, _>>()?;
    Ok(core::array::from_fn(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    }))
}
