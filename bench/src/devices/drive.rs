//! Runs chains for a while, and reads the meters in between.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use warpline_device::{Failure, power};
use warpline_engine::{Control, Deployment, Ports, Report, Settings, StartError, run};
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{NullSink, Sink, Source};

use super::Bench;
use crate::memory::{Frames, MemorySource};

/// Results of a run.
pub struct Driven {
    /// Counters of the chains, one report after the other.
    pub reports: Vec<Report>,
    /// CPU seconds of all lanes for each second, between warm-up and stop; 1 is a whole core.
    pub lane_share: f64,
    /// CPU nanoseconds of the lanes for each packet read meanwhile.
    pub lane_ns: f64,
    /// Share of time in which the device ran a kernel, if a meter reports it.
    pub device_share: Option<f64>,
}

/// Packets that reached the end of the chain, where they are counted and not sent.
fn passed(report: &Report) -> u64 {
    report.part.packets.sent + report.part.packets.absorbed
}

impl Driven {
    /// Packets that came to the end of the chain, millions a second: the sum over the chains.
    pub fn mpps(&self) -> f64 {
        self.rate(|report| passed(report) as f64) / 1e6
    }

    /// Gigabits of frames, as they were read, that were sent in a second.
    pub fn gbps(&self) -> f64 {
        self.rate(|report| {
            let (packets, bytes) = (&report.part.packets, report.part.bytes_read as f64);
            8.0 * bytes * passed(report) as f64 / packets.read.max(1) as f64
        }) / 1e9
    }

    fn rate(&self, of: impl Fn(&Report) -> f64) -> f64 {
        let seconds = |report: &Report| {
            report.part.span_ns.map_or(f64::NAN, |(first, last)| (last - first) as f64 / 1e9)
        };
        self.reports.iter().map(|report| of(report) / seconds(report)).sum()
    }

    /// The share `share` of packets took no longer than this, in microseconds; of the first chain.
    pub fn latency_us(&self, share: f64) -> f64 {
        let first = self.reports.first();
        first.map_or(f64::NAN, |one| one.part.latency.value_at_quantile(share) as f64 / 1e3)
    }

    /// The meter of the device in per cent, or nothing where there is none.
    pub fn device_percent(&self) -> String {
        self.device_share.map_or(String::new(), |share| format!("{:.0}", share * 100.0))
    }
}

impl Bench {
    /// Runs `deployments` at once, each with `frames` from memory on each of `lanes` lanes.
    ///
    /// # Errors
    /// A chain can't start, or its device failed.
    pub fn drive(
        &self,
        deployments: &[Deployment],
        frames: &[Vec<u8>],
        lanes: usize,
    ) -> Result<Driven, Failure> {
        let settings = Settings { lanes, ..Settings::default() };
        let ports = |deployment: &Deployment| {
            let all = Frames::of(frames)
                .split(settings.fit(deployment).lanes, &deployment.chain().steering);
            let port = |frames: Frames| -> (Box<dyn Source>, Box<dyn Sink>) {
                let source = MemorySource::new(Arc::new(frames), u64::MAX);
                (Box::new(source), Box::new(NullSink))
            };
            Ports::PerLane(all.into_iter().map(port).collect())
        };
        self.drive_ports(
            deployments,
            &settings,
            deployments.iter().map(ports).collect(),
            self.seconds,
        )
    }

    /// Runs `chain` with `settings` on one lane with the packets of `source`.
    ///
    /// # Errors
    /// As [`Bench::drive`].
    pub fn drive_source(
        &self,
        deployment: &Deployment,
        settings: &Settings,
        source: Box<dyn Source>,
    ) -> Result<Driven, Failure> {
        let ports = Ports::PerLane(vec![(source, Box::new(NullSink))]);
        self.drive_ports(std::slice::from_ref(deployment), settings, vec![ports], self.seconds)
    }

    /// Runs `chain` on one lane with packets of a generator with `config`, for `seconds`.
    ///
    /// # Errors
    /// As [`Bench::drive`].
    pub fn drive_generated(
        &self,
        deployment: &Deployment,
        config: &str,
        seconds: f64,
    ) -> Result<Driven, Failure> {
        let config = GeneratorConfig::parse(config).expect("a configuration without a mistake");
        let ports = Ports::Shared(Box::new(Generator::new(config)), Box::new(NullSink));
        self.drive_ports(
            std::slice::from_ref(deployment),
            &Settings::default(),
            vec![ports],
            seconds,
        )
    }

    fn drive_ports(
        &self,
        deployments: &[Deployment],
        settings: &Settings,
        ports: Vec<Ports>,
        seconds: f64,
    ) -> Result<Driven, Failure> {
        let controls: Vec<Control> = deployments.iter().map(|_| Control::default()).collect();
        let (over, is_over) = channel::<()>();
        thread::scope(|scope| {
            let controls = &controls;
            let meter = scope.spawn(move || self.watch(controls, is_over, seconds));
            let start = |((deployment, control), ports)| {
                let over = over.clone();
                scope.spawn(move || {
                    let report = run(deployment, settings, ports, control);
                    drop(over);
                    report
                })
            };
            let runs: Vec<_> = deployments.iter().zip(controls).zip(ports).map(start).collect();
            let ended = runs.into_iter().map(|run| run.join().expect("a run"));
            let reports: Result<Vec<Report>, StartError> = ended.collect();
            drop(over);
            let (lane_share, lane_ns, device_share) = meter.join().expect("a meter");
            let reports = reports.map_err(|why| Failure::Work(why.to_string()))?;
            check(&reports)?;
            Ok(Driven { reports, lane_share, lane_ns, device_share })
        })
    }

    /// Waits until packets flow, and a part of the time more; looks at the meters for `seconds`;
    /// stops the chains.
    fn watch(
        &self,
        controls: &[Control],
        is_over: Receiver<()>,
        seconds: f64,
    ) -> (f64, f64, Option<f64>) {
        // Says whether all runs are over.
        let rest = |seconds| {
            let heard = is_over.recv_timeout(Duration::from_secs_f64(seconds));
            heard == Err(RecvTimeoutError::Disconnected)
        };
        let read = || controls.iter().map(Control::read).sum::<u64>();
        let is_flowing = || controls.iter().all(|control| control.read() > 0);
        let give_up = Instant::now() + Duration::from_secs(300);
        while !is_flowing() && Instant::now() < give_up && !rest(1e-3) {}
        rest(seconds * WARM_UP);
        let (start, cpu, packets) = (Instant::now(), lanes_ns(), read());
        rest(seconds);
        let (spent, packets) = (lanes_ns().saturating_sub(cpu), read() - packets);
        let share = spent as f64 / start.elapsed().as_nanos() as f64;
        let device = power::of_device(self.device.description()).busy.ok();
        controls.iter().for_each(Control::stop);
        (share, spent as f64 / packets.max(1) as f64, device)
    }
}

/// Share of a point's time that goes before it.
const WARM_UP: f64 = 0.25;

/// Every packet is accounted for, and none came back to the CPU.
fn check(reports: &[Report]) -> Result<(), Failure> {
    for report in reports {
        let part = &report.part;
        assert!(part.packets.balanced(), "{:?}", part.packets);
        if let Some(reported) =
            part.warnings.iter().find(|reported| reported.contains("on the CPU"))
        {
            return Err(Failure::Work(reported.clone()));
        }
        assert_eq!((part.packets.dropped, part.packets.malformed), (0, 0), "of those sent");
    }
    Ok(())
}

/// CPU nanoseconds of all lanes of this process so far, as Linux counts them (`schedstat`, the
/// first number).
fn lanes_ns() -> u64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return 0 };
    let of = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let counted = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        name.starts_with("lane-").then(|| counted.split(' ').next()?.parse::<u64>().ok())?
    };
    threads.flatten().filter_map(of).sum()
}
