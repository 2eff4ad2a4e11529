//! `nids` over real captures beside Suricata, with the same rules and packets, one thread each,
//! load time apart.
//!
//! `nids_captures RULES CAPTURE...`: the Ethernet frames of all captures are written to one file,
//! one after another. They repeat until the file has 512 MiB, each time with other hosts, so that
//! flows begin anew. `warpline` is expected beside this program (`cargo build --release -p
//! warpline`), and `suricata` on the shell's path. A missing program is reported and skipped.
//! Suricata runs as it is installed, and once more without its application layer, which packet
//! rules don't need; both times without EVE. Its time is the elapsed time that it reports, which
//! starts after loading.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant as Clock};

use warpline_bench::median;
use warpline_io::{CaptureReader, Frame, Next, PcapWriter, Sink, Source};
use warpline_packet::{Instant, LinkType};

const LEN: usize = 512 << 20;
const ROUNDS: usize = 2;
/// The gap between captures, and the longest gap between packets. It is short because functions
/// receive a call for each second that passes.
const GAP_MAX: Duration = Duration::from_secs(1);

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(rules), captures) = (args.next(), args.collect::<Vec<_>>()) else {
        return println!("skipped; usage: nids_captures RULES CAPTURE...");
    };
    let folder = std::env::temp_dir().join(format!("warpline-captures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let rules = std::fs::canonicalize(rules).expect("the file of rules");
    let traffic = Traffic::write(&folder.join("all.pcap"), &captures);
    println!(
        "{} packets, {:.1} MB, of {} captures",
        traffic.packets,
        traffic.len as f64 / 1e6,
        captures.len()
    );
    let mut rivals: Vec<Box<dyn Rival>> = Vec::new();
    for matcher in ["hyperscan", "dense", "compact"] {
        rivals.push(Box::new(Warpline { matcher }));
    }
    rivals.push(Box::new(Suricata { has_applications: true }));
    rivals.push(Box::new(Suricata { has_applications: false }));
    compare(&rivals, &folder, &rules, &traffic);
    std::fs::remove_dir_all(&folder).expect("a folder to remove");
}

/// Every rival in turn, so that what else the machine does is shared.
fn compare(rivals: &[Box<dyn Rival>], folder: &Path, rules: &Path, traffic: &Traffic) {
    let mut runs: Vec<Vec<Run>> = rivals.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (rival, runs) in rivals.iter().zip(&mut runs) {
            match rival.run(folder, rules, &traffic.path) {
                Ok(run) => runs.push(run),
                Err(why) if runs.is_empty() => println!("without {}: {why}", rival.name()),
                Err(_) => {}
            }
        }
    }
    let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.seconds).collect());
    let base = runs.iter().zip(rivals).filter(|(_, rival)| rival.is_base());
    let base = base.map(|(runs, _)| seconds(runs)).fold(f64::INFINITY, f64::min);
    for (runs, rival) in runs.iter().zip(rivals).filter(|(runs, _)| !runs.is_empty()) {
        let (time, load) = (seconds(runs), median(runs.iter().map(|run| run.load).collect()));
        let (gbps, kpps) = (traffic.len as f64 * 8e-9 / time, traffic.packets as f64 / time / 1e3);
        println!(
            "{:32} {gbps:6.3} Gb/s, {kpps:6.0} kpps, {:5.2} of the faster Suricata; load \
             {load:5.2} s{}",
            rival.name(),
            base / time,
            runs[0].alerts_text
        );
    }
}

/// One way to look into the packets.
trait Rival {
    fn name(&self) -> String;
    /// Whether ratios are to it.
    fn is_base(&self) -> bool;
    fn run(&self, folder: &Path, rules: &Path, packets: &Path) -> Result<Run, String>;
}

struct Run {
    /// Of the packets alone.
    seconds: f64,
    /// Of all else.
    load: f64,
    alerts_text: String,
}

struct Warpline {
    matcher: &'static str,
}

impl Rival for Warpline {
    fn name(&self) -> String {
        format!("warpline, {}", self.matcher)
    }

    fn is_base(&self) -> bool {
        false
    }

    fn run(&self, folder: &Path, rules: &Path, packets: &Path) -> Result<Run, String> {
        let [chain, stats, cache] =
            ["chain.toml", "stats.json", "cache"].map(|name| folder.join(name));
        let text = format!(
            "[chain]\nfunctions = [\"nids\"]\ninput = {packets:?}\n[nids]\nrules = {rules:?}\n\
             matcher = {:?}\n\
             cache = {cache:?}\n[nids.variables]\nEXTERNAL_NET = \"any\"\n",
            self.matcher
        );
        std::fs::write(&chain, text).map_err(|e| e.to_string())?;
        let program =
            std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("warpline");
        let mut command = Command::new(program);
        command.arg("run").arg(&chain).args(["--lanes", "1", "--stats"]).arg(&stats);
        command.arg("--alerts").arg(folder.join("alerts.json"));
        let (_, total) = run(&mut command)?;
        let stats = std::fs::read(&stats).map_err(|e| e.to_string())?;
        let stats: serde_json::Value = serde_json::from_slice(&stats).map_err(|e| e.to_string())?;
        let chain = &stats["chains"][0];
        let seconds = chain["duration"].as_f64().ok_or("statistics without a duration")?;
        let packets = chain["packets"]["read"].as_f64().unwrap_or(f64::NAN);
        let count =
            |name: &str| chain["functions"][0]["counters"][name].as_f64().unwrap_or(f64::NAN);
        let alerts_text = format!(
            "; a packet: rules asked {:.2}, candidates {:.2}; alerts {}",
            count("rules-asked") / packets,
            count("candidates") / packets,
            count("alerts")
        );
        Ok(Run { seconds, load: total - seconds, alerts_text })
    }
}

struct Suricata {
    has_applications: bool,
}

/// Application layers of Suricata 7.
const APPLICATIONS: &[&str] = &[
    "telnet",
    "rfb",
    "mqtt",
    "krb5",
    "bittorrent-dht",
    "snmp",
    "ike",
    "tls",
    "pgsql",
    "dcerpc",
    "ftp",
    "ssh",
    "http2",
    "smtp",
    "imap",
    "smb",
    "nfs",
    "tftp",
    "dns.tcp",
    "dns.udp",
    "http",
    "modbus",
    "dnp3",
    "enip",
    "ntp",
    "quic",
    "dhcp",
    "sip",
    "rdp",
];

impl Rival for Suricata {
    fn name(&self) -> String {
        format!("suricata{}", if self.has_applications { "" } else { ", no application layer" })
    }

    fn is_base(&self) -> bool {
        true
    }

    fn run(&self, folder: &Path, rules: &Path, packets: &Path) -> Result<Run, String> {
        let log = folder.join("suricata");
        std::fs::create_dir_all(&log).map_err(|e| e.to_string())?;
        let mut command = Command::new("suricata");
        command.args(["--runmode", "single", "-k", "none", "-v", "-r"]).arg(packets);
        command.arg("-S").arg(rules).arg("-l").arg(&log);
        command.args(["--set", "vars.address-groups.EXTERNAL_NET=any"]);
        command.args(["--set", "outputs.1.eve-log.enabled=no"]);
        for name in APPLICATIONS.iter().filter(|_| !self.has_applications) {
            command.args(["--set", &format!("app-layer.protocols.{name}.enabled=no")]);
        }
        let (text, total) = run(&mut command)?;
        let elapsed = text.split("time elapsed ").nth(1).and_then(|rest| rest.split('s').next());
        let seconds: f64 = elapsed.and_then(|text| text.parse().ok()).ok_or("it tells no time")?;
        let alerts = text.split("Alerts: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let alerts_text = alerts.map_or(String::new(), |alerts| format!("; alerts {alerts}"));
        Ok(Run { seconds, load: total - seconds, alerts_text })
    }
}

/// The output of a program, and its run time in seconds.
fn run(command: &mut Command) -> Result<(String, f64), String> {
    let program = PathBuf::from(command.get_program());
    let start = Clock::now();
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let seconds = start.elapsed().as_secs_f64();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() { Ok((text, seconds)) } else { Err(text) }
}

/// The file that all read.
struct Traffic {
    path: PathBuf,
    packets: u64,
    len: u64,
}

impl Traffic {
    fn write(path: &Path, captures: &[String]) -> Self {
        let captures: Vec<Vec<(Duration, Vec<u8>)>> =
            captures.iter().map(|path| read(path)).collect();
        let mut traffic = Self { path: path.into(), packets: 0, len: 0 };
        let mut writer = PcapWriter::create(path).expect("a file").with_link(LinkType::ETHERNET);
        let mut now = Instant::from_secs(1_000_000_000);
        let has_frames = captures.iter().any(|frames| !frames.is_empty());
        let mut round = 0_u8;
        while has_frames && traffic.len < LEN as u64 {
            for (gap, bytes) in captures.iter().flatten() {
                now = now.after(*gap);
                let bytes = &elsewhere(bytes, round);
                let frame = Frame {
                    bytes,
                    timestamp: now,
                    wire_len: bytes.len() as u32,
                    link: LinkType::ETHERNET,
                    interface: 0,
                };
                writer.send(&frame).expect("room on disk");
                traffic.packets += 1;
                traffic.len += bytes.len() as u64;
            }
            round = round.wrapping_add(1);
        }
        writer.finish().expect("room on disk");
        traffic
    }
}

/// The frame as of other hosts in the same networks, so that flows begin anew: the third byte of
/// IPv4 addresses and the eighth of IPv6 addresses differ. Checksums that were right stay right.
fn elsewhere(frame: &[u8], round: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let (places, transport, protocol) = match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.len() >= 34 => {
            let transport = 14 + usize::from(frame[14] & 15) * 4;
            let is_first = frame[20] & 0x1f == 0 && frame[21] == 0;
            ([28, 32], transport, if is_first { frame[23] } else { 0 })
        }
        Some([0x86, 0xdd]) if frame.len() >= 54 => ([29, 45], 54, frame[20]),
        _ => return frame,
    };
    let sums = [
        (frame[12] == 0x08).then_some(24),
        (protocol == 6).then_some(transport + 16),
        (protocol == 17 && frame.get(transport + 6..transport + 8) != Some(&[0, 0]))
            .then_some(transport + 6),
    ];
    for place in places {
        let old = frame[place];
        frame[place] ^= round;
        for sum in sums.into_iter().flatten() {
            if sum + 2 > frame.len() {
                continue;
            }
            // RFC 1624: the new sum is ~(~old sum + ~old word + new word).
            let word =
                |byte: u8| if place % 2 == 0 { u32::from(byte) << 8 } else { u32::from(byte) };
            let total = u32::from(!u16::from_be_bytes([frame[sum], frame[sum + 1]]))
                + (0xffff - word(old))
                + word(frame[place]);
            let folded = (total >> 16) + (total & 0xffff);
            let folded = ((folded >> 16) + (folded & 0xffff)) as u16;
            frame[sum..sum + 2].copy_from_slice(&(!folded).to_be_bytes());
        }
    }
    frame
}

/// The Ethernet frames of a capture, each with the time since the one before it.
fn read(path: &str) -> Vec<(Duration, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (mut frames, mut last) = (Vec::new(), None);
    while let Ok(Next::Frame(frame)) = reader.next() {
        if frame.link == LinkType::ETHERNET {
            let since = last.map_or(GAP_MAX, |last| frame.timestamp.since(last).min(GAP_MAX));
            last = Some(frame.timestamp);
            frames.push((since, frame.bytes.to_vec()));
        }
    }
    frames
}
