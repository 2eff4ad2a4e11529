//! Copies by their length, to the device, from it and both ways at once, next to the device layer's
//! measurements of itself.
//!
//! Each copy is a work of its own. A few of them are under way on a stream for each way, as in the
//! engine.

use std::time::Instant;

use warpline_device::{Failure, Part, Step, Stream, Work};

use super::Bench;

/// Bytes of a copy.
const BYTES: [usize; 9] =
    [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20, 64 << 20];
/// Works under way at once on a stream.
pub(super) const UNDER_WAY: usize = 4;

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head("copies", "bytes,in_gbytes_s,out_gbytes_s,both_in_gbytes_s,both_out_gbytes_s");
    for bytes in BYTES {
        let [inward, outward] = [Way::new(bench, bytes, true), Way::new(bench, bytes, false)];
        let (mut inward, mut outward) = (inward?, outward?);
        let [copy_in] = rates(bench, [&mut inward])?;
        let [copy_out] = rates(bench, [&mut outward])?;
        let [both_in, both_out] = rates(bench, [&mut inward, &mut outward])?;
        println!("{bytes},{copy_in:.3},{copy_out:.3},{both_in:.3},{both_out:.3}");
    }
    let own = warpline_device::measure(&*bench.device)?;
    let [copy_in, copy_out] = [own.copy_in, own.copy_out].map(|rate| rate / 1e9);
    let [both_in, both_out] = [own.both_in, own.both_out].map(|rate| rate / 1e9);
    println!("device-layer,{copy_in:.3},{copy_out:.3},{both_in:.3},{both_out:.3}");
    Ok(())
}

/// Works that move bytes one way.
pub(super) struct Way {
    stream: Box<dyn Stream>,
    /// Works that are not under way.
    idle: Vec<Work>,
    bytes: usize,
    done: u64,
}

impl Way {
    fn new(bench: &Bench, bytes: usize, is_in: bool) -> Result<Self, Failure> {
        let work = |_| {
            let (piece, buffer) = (bench.device.host_memory(bytes)?, bench.device.allocate(bytes)?);
            let part = Part { piece: 0, range: 0..bytes };
            let step = match is_in {
                true => Step::CopyIn { from: part, to: buffer.whole() },
                false => Step::CopyOut { from: buffer.whole(), to: part },
            };
            Ok(Work::new(vec![piece], vec![step]))
        };
        let idle = (0..UNDER_WAY).map(work).collect::<Result<_, Failure>>()?;
        Self::of(bench, bytes, idle)
    }

    /// Of `works`, each of which moves so many bytes.
    pub(super) fn of(bench: &Bench, bytes: usize, works: Vec<Work>) -> Result<Self, Failure> {
        Ok(Self { stream: bench.device.stream()?, idle: works, bytes, done: 0 })
    }

    fn submit(&mut self) -> Result<(), Failure> {
        while let Some(work) = self.idle.pop() {
            self.stream.submit(work).map_err(|refused| refused.why)?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Failure> {
        while let Some(done) = self.stream.poll() {
            done.outcome?;
            self.idle.push(done.work);
            self.done += 1;
        }
        Ok(())
    }
}

/// Gigabytes a second of each way, all at once, for the time of a point.
pub(super) fn rates<const N: usize>(
    bench: &Bench,
    mut ways: [&mut Way; N],
) -> Result<[f64; N], Failure> {
    // Once around first: memory is touched, and clocks go up.
    for way in &mut ways {
        way.submit()?;
        while way.stream.in_flight() > 0 {
            way.poll()?;
        }
        way.done = 0;
    }
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < bench.seconds || ways.iter().any(|way| way.done == 0) {
        for way in &mut ways {
            way.submit()?;
            way.poll()?;
        }
        std::thread::yield_now();
    }
    let seconds = start.elapsed().as_secs_f64();
    let rates =
        core::array::from_fn(|at| (ways[at].done * ways[at].bytes as u64) as f64 / seconds / 1e9);
    for way in ways {
        while way.stream.in_flight() > 0 {
            way.poll()?;
        }
    }
    Ok(rates)
}
