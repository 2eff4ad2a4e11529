//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::chain_file::Setting;

/// Service chains of network functions on CPUs and GPUs.
#[derive(Parser)]
#[command(name = "warpline", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a chain; without a chain file, the bundled demo
    #[command(after_help = EXIT_STATUS)]
    Run(Box<RunArguments>),
    /// Parse and build everything a chain file names, run nothing
    Check {
        /// The chain file
        chain: PathBuf,
        /// Say it as JSON
        #[arg(long)]
        json: bool,
        /// Say as well how much lies in huge pages; builds the state of all lanes for that
        #[arg(short, long)]
        verbose: bool,
        /// Run it over its input as well, to prove that functions read and write only what they declare, and devices what the CPU
        /// would; writes what functions write
        #[arg(long, conflicts_with = "json")]
        strict: bool,
        /// Where the packets for --strict come from, if not from the chain file's input; made where there is none
        #[arg(long, value_name = "SRC", requires = "strict")]
        input: Option<String>,
        /// Check it as `run --device NAME` would have it
        #[arg(long, value_name = "NAME")]
        device: Option<String>,
        /// Set a key of a table
        #[arg(long, value_name = "TABLE.KEY=VALUE")]
        set: Vec<String>,
    },
    /// Which fields of packets have to cross to devices and back, and what it costs; runs nothing
    Plan(PlanArguments),
    /// The network functions: what each does, its keys, devices, fields, drop reasons
    Functions {
        /// The function whose manual to show
        name: Option<String>,
    },
    /// The devices of this machine: memory, units, driver, power, self-test, and why others are not there
    Devices {
        /// Measure copies each way and both at once
        #[arg(long)]
        measure: bool,
        /// Store what was measured in a file, for `profile` in a chain file's table `plan`
        #[arg(long, value_name = "FILE", requires = "measure")]
        profile: Option<PathBuf>,
        /// Read power, memory in use and utilisation once a second until Ctrl-C, a line a device
        #[arg(long, conflicts_with = "measure")]
        watch: bool,
        /// Write one JSON object instead of text; with --watch, one a second, each on a line
        #[arg(long)]
        json: bool,
    },
    /// Write the demo (chain, rules, routes, capture) into a folder, to try things on
    Demo {
        /// The folder, made if it is not there
        folder: PathBuf,
    },
}

const EXIT_STATUS: &str = "\
Exit status:
  0    done
  1    the run failed, or its packets don't balance
  2    something that you wrote is wrong, and nothing was run
  130  Ctrl-C ended it, and all was written
  143  SIGTERM ended it, and all was written";

/// What `warpline plan` takes.
#[derive(Args)]
pub(crate) struct PlanArguments {
    /// The chain file
    pub(crate) chain: PathBuf,
    /// By which rule: adaptive, local, share_all or per_nf; the chain file's otherwise
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<String>,
    /// Bytes of a frame, 42 to 65535; the chain file's otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(42..=65_535))]
    pub(crate) packet_len: Option<u32>,
    /// Gb/s of frames at which to say what share of a link each step takes, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) gbps: u32,
    /// Say it as JSON: the plans of all modes
    #[arg(long, conflicts_with_all = ["mode", "explain"])]
    pub(crate) json: bool,
    /// Draw it into a file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "explain"])]
    pub(crate) svg: Option<PathBuf>,
    /// Follow one field through the chain
    #[arg(long, value_name = "FIELD")]
    pub(crate) explain: Option<String>,
    /// Plan it as `run --device NAME` would have it
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Set a key of a table
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// What `warpline run` takes.
#[derive(Args)]
pub(crate) struct RunArguments {
    /// The chain file
    pub(crate) chain: Option<PathBuf>,
    /// Where packets come from: FILE.pcap[,pace=1.0], FILE.pcapng, either as .gz or .zst, - or
    /// generate:KEY=VALUE,...
    #[arg(long, value_name = "SRC")]
    pub(crate) input: Option<String>,
    /// Where packets go: FILE.pcap, FILE.pcapng, either with .gz or .zst, - (a pcap) or none
    #[arg(long, value_name = "DST")]
    pub(crate) output: Option<String>,
    /// Write dropped packets as well, each with its reason as a comment; the output is pcapng
    #[arg(long)]
    pub(crate) annotate: bool,
    /// Write alerts, one JSON object a line; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) alerts: Option<PathBuf>,
    /// Write statistics as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,
    /// Worker threads, 1 to 64
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) lanes: Option<u64>,
    /// The processor cores that lanes run on, one each, in this order: 2-5,8. As many lanes as cores, unless --lanes says
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<String>,
    /// Run every function on this device
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Set a key of a table
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl RunArguments {
    /// What is set on top of the chain file: by `--set`, then by options that have a key.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let mut settings = Setting::of_set(&self.set);
        let lanes = self.lanes.map(|lanes| lanes.to_string());
        // A list of one is a string, too.
        let cores = self.cores.as_deref().map(|cores| serde_json::Value::from(cores).to_string());
        for (option, key, value) in [("--lanes", "lanes", lanes), ("--cores", "cores", cores)] {
            let text = value.map(|value| format!("chain.{key}={value}"));
            settings.extend(text.map(|text| Setting { option, text }));
        }
        settings
    }
}
