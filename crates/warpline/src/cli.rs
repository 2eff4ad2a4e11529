//! The command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::chain_file::Setting;
use crate::ctl::{self, Request};
use crate::offered;

/// Service chains of network functions on CPUs and GPUs.
#[derive(Parser)]
#[command(name = "warpline", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a chain; without a chain file, the bundled demo
    #[command(after_help = EXIT_STATUS)]
    Run(Box<RunArguments>),
    /// Parse and build everything that a chain file names; run nothing
    Check {
        /// The chain file
        chain: PathBuf,
        /// Write JSON
        #[arg(long)]
        json: bool,
        /// Show the fields of each function, and memory in huge pages; builds the state of all
        /// lanes
        #[arg(short, long)]
        verbose: bool,
        /// Also run the chain over its input, to verify that functions use only declared fields and
        /// that devices match the CPU; writes the functions' files
        #[arg(long, conflicts_with = "json")]
        strict: bool,
        /// Source of packets for --strict; default: the chain file's input, or generated packets
        #[arg(long, value_name = "SRC", requires = "strict")]
        input: Option<String>,
        /// Check for `run --device NAME`
        #[arg(long, value_name = "NAME")]
        #[arg(value_parser = offered::DEVICES, hide_possible_values = true)]
        device: Option<String>,
        /// Set a key of a table; paths are relative to the chain file
        #[arg(long, value_name = "TABLE.KEY=VALUE")]
        set: Vec<String>,
    },
    /// Show the way of single packets through a chain, function by function; send nothing
    Trace(TraceArguments),
    /// Show which fields are copied to devices and back, and the cost; run nothing
    Plan(PlanArguments),
    /// Recommend devices and launches by rate and delay, and how to divide a GPU between virtual
    /// machines, by a profile; run nothing
    Advise(AdviseArguments),
    /// Simulate a chain in virtual time, by the costs of a profile; run nothing
    Simulate(Box<SimulateArguments>),
    /// Show the tables and figures of five papers beside simulated or measured numbers
    Reproduce(ReproduceArguments),
    /// List the network functions, or show a function's manual, keys, devices, fields and drop
    /// reasons
    Functions {
        /// The function whose manual to show
        #[arg(value_parser = offered::NAMES, hide_possible_values = true)]
        name: Option<String>,
    },
    /// List this machine's devices: memory, units, driver, power, self-test, and why others are
    /// missing
    Devices {
        /// Measure copies each way and both at once
        #[arg(long)]
        measure: bool,
        /// Save the measurements, for `profile` in a chain file's table `plan`
        #[arg(long, value_name = "FILE", requires = "measure")]
        profile: Option<PathBuf>,
        /// Show power, used memory and utilisation once a second until Ctrl-C, one line per device
        #[arg(long, conflicts_with = "measure")]
        watch: bool,
        /// Write one JSON object instead of text; with --watch, one line per second
        #[arg(long)]
        json: bool,
    },
    /// Measure every function on every device of this machine, by launch size and packet length;
    /// a run that ended early is continued
    Profile {
        /// Fewer sizes, no co-runners: 70 seconds; otherwise up to two hours
        #[arg(long)]
        quick: bool,
        /// The profile; earlier measurements in it count by their weight
        #[arg(long, value_name = "FILE", default_value = "machine.json")]
        out: PathBuf,
        /// Write the profile and the break-even report as JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Observe and control a running process, which serves `run --socket PATH`
    Ctl {
        /// The request
        #[arg(value_enum)]
        request: Request,
        /// The values of `place` (FUNCTION DEVICE), `policy` (POLICY) and `trace` (FILTER)
        #[arg(value_name = "VALUE", value_parser = offered::VALUES, hide_possible_values = true)]
        values: Vec<String>,
        /// The socket; default: warpline.sock in $XDG_RUNTIME_DIR or /run, or else in /run/warpline
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// One chain; default: all
        #[arg(long, value_name = "NAME")]
        chain: Option<String>,
        /// Packets that `trace` shows, 1 to 100; default: 10
        #[arg(long, value_name = "K", value_parser = number::<u64>(ctl::COUNTS))]
        count: Option<u64>,
        /// Seconds that `trace` waits for them, 1 to 50; default: 10
        #[arg(long, value_name = "S", value_parser = number::<u64>(ctl::SECONDS))]
        seconds: Option<u64>,
        /// Write JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a completion script: source it, or save it where the shell looks
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, for `man -l -`
    Man,
    /// Write the demo (chain, rules, routes, capture) into a folder
    Demo {
        /// The folder; created if missing
        folder: PathBuf,
    },
}

const EXIT_STATUS: &str = "\
Exit status:
  0    done
  1    the run failed, or packets are unaccounted for
  2    the command line or a file has errors; nothing was run
  130  Ctrl-C ended the run; all output was written
  143  SIGTERM ended the run; all output was written";

/// The arguments of `warpline plan`.
#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The chain file
    pub(crate) chain: PathBuf,
    /// Copy rule: adaptive, local, share_all or per_nf; default: the chain file's
    #[arg(long, value_name = "MODE", value_parser = offered::MODES, hide_possible_values = true)]
    pub(crate) mode: Option<String>,
    /// Bytes of a frame, 42 to 65535; default: the chain file's
    #[arg(long, value_name = "N", value_parser = number::<u32>(42..=65_535))]
    pub(crate) packet_len: Option<u32>,
    /// Gb/s of frames for the share of a link that each step takes, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number::<u32>(1..=10_000))]
    pub(crate) gbps: u32,
    /// Longest delay of a packet, for the bytes in flight: 50ms, 200us; default: the chain file's
    /// `delay_us_max`, or 1ms
    #[arg(long, value_name = "D")]
    pub(crate) delay: Option<String>,
    /// Write JSON: the plans of all modes
    #[arg(long, conflicts_with_all = ["mode", "explain"])]
    pub(crate) json: bool,
    /// Draw the plan into an SVG file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "explain"])]
    pub(crate) svg: Option<PathBuf>,
    /// Follow one field through the chain
    #[arg(long, value_name = "FIELD")]
    pub(crate) explain: Option<String>,
    /// Plan for `run --device NAME`
    #[arg(long, value_name = "NAME", value_parser = offered::DEVICES, hide_possible_values = true)]
    pub(crate) device: Option<String>,
    /// Set a key of a table; paths are relative to the chain file
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The arguments of `warpline trace`.
#[derive(Args)]
#[command(group(ArgGroup::new("picked").required(true).args(["packets", "filter"])))]
pub(crate) struct TraceArguments {
    /// The chain file
    pub(crate) chain: PathBuf,
    /// The packets with these numbers in the input, from 1: 17 or 17,42
    #[arg(long = "packet", value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = number::<u64>(1..=u64::MAX))]
    pub(crate) packets: Vec<u64>,
    /// The first packets that match a filter of tcpdump: "udp and dst port 53"
    #[arg(long, value_name = "EXPR")]
    pub(crate) filter: Option<String>,
    /// Packets that match the filter, at most 10000
    #[arg(long, value_name = "K", default_value_t = 10, conflicts_with = "packets")]
    #[arg(value_parser = number::<u64>(1..=10_000))]
    pub(crate) count: u64,
    /// Source of packets; default: the chain file's input
    #[arg(short = 'r', long, value_name = "SRC")]
    pub(crate) input: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Set a key of a table; paths are relative to the chain file
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The arguments of `warpline advise`.
#[derive(Args)]
pub(crate) struct AdviseArguments {
    /// The chain file; each of its functions may be placed
    pub(crate) chain: PathBuf,
    /// Measurements by `warpline profile --out FILE`; default: the profile that the chain file's
    /// table `placement` names
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Rate of each chain: 400mbps, 10gbps; default: a table of rates
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<String>,
    /// Longest delay of a packet: 50ms, 200us; default: a table of delays
    #[arg(long, value_name = "D")]
    pub(crate) delay: Option<String>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Set a key of a table; paths are relative to the chain file
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The arguments of `warpline simulate`.
#[derive(Args)]
pub(crate) struct SimulateArguments {
    /// The chain file; its devices need not be here
    pub(crate) chain: PathBuf,
    /// Costs of functions on devices, JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: PathBuf,
    /// Packets that each chain gets: constant:gbps=10,size=512, poisson:..., onoff:..., steps:...
    /// or FILE.pcap
    #[arg(long, value_name = "SPEC")]
    pub(crate) load: String,
    /// Part of the packets at a place that take a route there; default: equal parts of the rest
    #[arg(long, value_name = "FROM/TO=PART")]
    pub(crate) share: Vec<String>,
    /// Seconds of simulated time, up to 3600; default: those of a capture or of steps, or 1
    #[arg(long, value_name = "S", value_parser = any_number::<f64>)]
    pub(crate) seconds: Option<f64>,
    /// Tenants that each run the chains on the same devices, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(1..=64))]
    pub(crate) tenants: u64,
    /// How tenants and chains share a device: best_effort, equal_share, fixed_share or
    /// rate_proportional; default: launches in their order
    #[arg(long, value_name = "NAME", value_parser = offered::SHARING, hide_possible_values = true)]
    pub(crate) policy: Option<String>,
    /// How functions without a device are placed: throughput, latency, energy, cpu_only or
    /// device_only
    #[arg(
        long,
        value_name = "NAME",
        default_value = "throughput",
        value_parser = offered::PLACEMENTS,
        hide_possible_values = true
    )]
    pub(crate) placement: String,
    /// Seed of random traffic
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = any_number::<u64>)]
    pub(crate) seed: u64,
    /// Events after which the simulation stops
    #[arg(long, value_name = "N", default_value_t = 50_000_000, value_parser = any_number::<u64>)]
    pub(crate) events: u64,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Save the use of devices over time, in Chrome's trace format
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Set a key of a table; paths are relative to the chain file
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// A parser of numbers in `range`.
fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
    }
}

/// A parser of numbers.
fn any_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "not a number".into())
}

/// The arguments of `warpline reproduce`.
#[derive(Args)]
pub(crate) struct ReproduceArguments {
    /// An entry (PAPER/ITEM), a paper, or all; without it, the verdicts of all entries
    pub(crate) entries: Option<String>,
    /// Show the bench that measures each entry instead of simulating it
    #[arg(long, conflicts_with = "simulated")]
    pub(crate) live: bool,
    /// Record of a bench, whose numbers stand beside the paper's
    #[arg(long, value_name = "FILE", requires = "live")]
    pub(crate) record: Option<PathBuf>,
    /// Simulate the entries; this is the default
    #[arg(long)]
    pub(crate) simulated: bool,
    /// Save a report, tables and drawings in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `warpline run`.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// The chain file
    pub(crate) chain: Option<PathBuf>,
    /// Source of packets: FILE.pcap[,pace=1.0], FILE.pcapng, either as .gz or .zst, -,
    /// af_packet:IF, af_xdp:IF or generate:KEY=VALUE,...
    #[arg(short = 'r', long, value_name = "SRC")]
    pub(crate) input: Option<String>,
    /// Destination of packets: FILE.pcap, FILE.pcapng, either with .gz or .zst, and with
    /// ,size_mib=N,every_s=N,keep=N for several files; - (a pcap), af_packet:IF, af_xdp:IF or none
    #[arg(short = 'w', long, value_name = "DST")]
    pub(crate) output: Option<String>,
    /// Stop after N packets of the input
    #[arg(short, long, value_name = "N", value_parser = any_number::<u64>)]
    pub(crate) count: Option<u64>,
    /// Show counters and tables of functions in the summary
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show rates, drops, queues and latency on the terminal while it runs; q leaves the view
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) live: bool,
    /// Show warnings and errors only: no summary and no progress
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also write dropped packets, each with its reason as a comment; the output must be pcapng
    #[arg(long)]
    pub(crate) annotate: bool,
    /// Write alerts, one JSON object per line, to a file, unix:PATH or tcp:HOST:PORT; - is standard
    /// output
    #[arg(long, value_name = "DST")]
    pub(crate) alerts: Option<PathBuf>,
    /// Write statistics as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,
    /// Serve `warpline ctl` on this Unix socket, which only its owner may use
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Become this user once the interfaces are open
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics, and /healthz: 127.0.0.1:9464; other
    /// addresses than loopback need ,insecure after the port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Worker threads, 1 to 64
    #[arg(long, value_name = "N", value_parser = number::<u64>(1..=64))]
    pub(crate) lanes: Option<u64>,
    /// Processor cores of the lanes, one each, in this order: 2-5,8. Without --lanes, as many lanes
    /// as cores
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<String>,
    /// Run every function with kernels on this device
    #[arg(long, value_name = "NAME", value_parser = offered::DEVICES, hide_possible_values = true)]
    pub(crate) device: Option<String>,
    /// Set a key of a table; paths are relative to the chain file
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl RunArguments {
    /// Settings that override the chain file: those of `--set`, then options that have a key.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = Setting::of_set(&self.set);
        let lanes = self.lanes.map(|lanes| lanes.to_string());
        let text = |text: Option<&str>| text.map(|own| serde_json::Value::from(own).to_string());
        // A list of one is a string, too.
        let cores = text(self.cores.as_deref());
        let (user, metrics) = (text(self.user.as_deref()), text(self.metrics.as_deref()));
        for (option, key, value) in [
            ("--lanes", "chain.lanes", lanes),
            ("--cores", "chain.cores", cores),
            ("--user", "process.user", user),
            ("--metrics", "process.metrics", metrics),
        ] {
            let text = value.map(|value| format!("{key}={value}"));
            settings.extend(text.map(|text| Setting { option, text }));
        }
        settings
    }
}
