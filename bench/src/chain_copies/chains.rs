//! The paper's five chains (AdaptChain, section VI-B and C) of our functions, and packets for them.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use warpline_device::{Device, Failure};
use warpline_engine::stats::FunctionStats;
use warpline_engine::{Deployment, LaunchOptions, OnDevice, PlanOptions};
use warpline_functions::definition;
use warpline_nf::Outputs;
use warpline_packet::BATCH_DEFAULT;
use warpline_sched::Mode;
use warpline_verify::{Harness, Input, build};

use crate::chains::{Member, deploy_members};
use crate::devices::cases::{Cases, NETWORKS, PACKETS, frame, hex};
use crate::devices::launches;
use crate::memory::Frames;

/// A function: its name in the chain, whose name that of its function is too, and its table.
struct Own {
    function: &'static str,
    table: &'static str,
    is_on_device: bool,
}

const fn cpu(function: &'static str, table: &'static str) -> Own {
    Own { function, table, is_on_device: false }
}

const fn device(function: &'static str, table: &'static str) -> Own {
    Own { function, table, is_on_device: true }
}

/// By table, the counter of the function that has every packet it worked on, where there is one.
const COUNTED: &[(&str, &str)] = &[
    (OPEN, "opened"),
    (OPEN_IN_UDP, "opened"),
    (SEAL, "sealed"),
    (NIDS, "inspected"),
    (NAT, "outbound"),
    (BALANCER, "to-backends"),
];

/// Packets that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// UDP in IPv4.
    Clear,
    /// The same in ESP in tunnel mode, which the chain opens.
    Sealed,
    /// The same in ESP in UDP.
    SealedInUdp,
}

/// A chain of the paper.
pub struct PaperChain {
    /// Its name there.
    pub name: &'static str,
    functions: &'static [Own],
    traffic: Traffic,
}

const FIREWALL: &str = "rules = 'rules'\ndefault = 'accept'";
const NIDS: &str = "rules = 'sensor'";
const OPEN: &str = "sas = 'copies-in'\ndefault = 'bypass'";
const OPEN_IN_UDP: &str = "sas = 'copies-udp-in'\ndefault = 'bypass'";
const SEAL: &str =
    "sas = 'copies-out'\npolicies = 'copies-policies'\nnonce_state = 'copies-nonces'";
const NAT: &str = "inside = ['10.0.0.0/8']\noutside = ['203.0.113.1', '203.0.113.2']";
const BALANCER: &str = "services = 'services'\ntable_size = 1009";
const ROUTER: &str = "routes = 'routes'";

/// Functions of which other chains are made: what each is called, its function and its table. The
/// second gateway seals in CBC, which has no file of numbers.
pub(crate) const TABLES: [(&str, &str, &str); 9] = [
    ("firewall", "firewall", FIREWALL),
    ("nids", "nids", NIDS),
    ("open", "ipsec", OPEN),
    ("seal", "ipsec", "sas = 'sas'\npolicies = 'policies'"),
    ("nat", "nat", NAT),
    ("load_balancer", "load_balancer", BALANCER),
    ("router", "router", ROUTER),
    ("digest", "digest", ""),
    ("flow_monitor", "flow_monitor", ""),
];

/// All of them. If a function after the gateway inspects packets, the gateway opens them; a gateway
/// at the end seals.
pub static CHAINS: [PaperChain; 5] = [
    PaperChain {
        name: "C1",
        functions: &[cpu("firewall", FIREWALL), device("ipsec", OPEN), device("nids", NIDS)],
        traffic: Traffic::Sealed,
    },
    PaperChain {
        name: "C2",
        functions: &[device("nids", NIDS), cpu("nat", NAT), device("ipsec", SEAL)],
        traffic: Traffic::Clear,
    },
    PaperChain {
        name: "C3",
        functions: &[device("ipsec", OPEN), cpu("load_balancer", BALANCER), device("nids", NIDS)],
        traffic: Traffic::Sealed,
    },
    PaperChain {
        name: "C4",
        functions: &[
            device("firewall", FIREWALL),
            device("ipsec", OPEN),
            device("nids", NIDS),
            cpu("router", ROUTER),
        ],
        traffic: Traffic::Sealed,
    },
    PaperChain {
        name: "C5",
        functions: &[
            device("firewall", FIREWALL),
            cpu("flow_monitor", ""),
            device("nat", NAT),
            device("ipsec", OPEN_IN_UDP),
            device("nids", NIDS),
        ],
        traffic: Traffic::SealedInUdp,
    },
];

/// How a chain is built.
#[derive(Clone)]
pub struct Way<'a> {
    /// The device of the functions that are not on the CPU.
    pub device: &'a Arc<dyn Device>,
    /// How its launches are made.
    pub launches: LaunchOptions,
    /// The rule by which fields cross.
    pub mode: Mode,
}

impl<'a> Way<'a> {
    /// With default launches.
    pub fn new(device: &'a Arc<dyn Device>, mode: Mode) -> Self {
        Self { device, launches: launches(), mode }
    }
}

impl PaperChain {
    /// Its functions; those on the device are marked `G`.
    pub fn composition(&self) -> String {
        let of =
            |own: &Own| format!("{}({})", own.function, if own.is_on_device { "G" } else { "C" });
        self.functions.iter().map(of).collect::<Vec<_>>().join(" - ")
    }

    /// For frames of `packet_len` bytes. The files that its functions read are in the folder of
    /// `cases`.
    pub fn build(&self, cases: &Cases, way: &Way<'_>, packet_len: u32) -> Deployment {
        let on = || OnDevice {
            device: Arc::clone(way.device),
            launches: way.launches,
            is_required: true,
        };
        let member = |own: &Own| Member {
            name: own.function,
            function: own.function,
            table: own.table,
            on: own.is_on_device.then(on),
        };
        let members: Vec<Member<'_>> = self.functions.iter().map(member).collect();
        let mut deployment = deploy_members(self.name, &members, cases.folder());
        deployment.set_plan(PlanOptions { mode: way.mode, packet_len, ..PlanOptions::default() });
        deployment
    }

    /// Whether each function did its work on every packet.
    ///
    /// # Errors
    /// One didn't.
    pub fn check(&self, counted: &[FunctionStats]) -> Result<(), Failure> {
        for (own, stats) in self.functions.iter().zip(counted) {
            let Some((_, name)) = COUNTED.iter().find(|(table, _)| *table == own.table) else {
                continue;
            };
            let count = stats.counters.get(name).copied().unwrap_or_default();
            let (is_nids, found) = (own.table == NIDS, stats.counters.get("matches"));
            if count != stats.packets_in || is_nids && found.is_none_or(|&found| found == 0) {
                let Self { name: chain, .. } = self;
                return Err(Failure::Work(format!(
                    "{chain}: {name} is {count} of {}, {:?}",
                    stats.packets_in, stats.counters
                )));
            }
        }
        Ok(())
    }

    /// Frames that arrive, or those inside the ESP packets that arrive, of `len` bytes in the
    /// clear.
    pub fn clear_frames(&self, len: usize) -> Load {
        Load::of(&clear(len))
    }

    /// Distinct frames that arrive, of at most `len` bytes; the shortest possible if `len` is too
    /// few for ESP.
    pub fn frames(&self, cases: &Cases, len: usize) -> Load {
        let frames = match self.traffic {
            Traffic::Clear => clear(len),
            Traffic::Sealed => seal(cases, "copies-out", &clear(clear_len(len, OF_ESP))),
            Traffic::SealedInUdp => {
                seal(cases, "copies-udp-out", &clear(clear_len(len, OF_ESP + OF_UDP)))
            }
        };
        Load::of(&frames)
    }
}

fn clear(len: usize) -> Vec<Vec<u8>> {
    (0..PACKETS).map(|number| frame(number, len)).collect()
}

/// Frames of one length.
pub struct Load {
    /// Their bytes, each.
    pub len: u32,
    /// The frames.
    pub frames: Arc<Frames>,
}

impl Load {
    fn of(frames: &[Vec<u8>]) -> Self {
        Self { len: frames[0].len() as u32, frames: Arc::new(Frames::of(frames)) }
    }
}

/// Bytes that ESP adds around a packet in tunnel mode, without padding: two headers, SPI and
/// number, IV, ICV. And those of a header of UDP.
const OF_ESP: usize = 14 + 20 + 8 + 8 + 12;
const OF_UDP: usize = 8;
const SHORTEST: usize = 64;

/// The longest frame that has at most `len` bytes when `around` bytes and padding to words are put
/// around what is in it.
fn clear_len(len: usize, around: usize) -> usize {
    let text = len.saturating_sub(around) / 4 * 4;
    (text.saturating_sub(2) + 14).max(SHORTEST)
}

/// Seals `frames` with a gateway that has these SAs.
fn seal(cases: &Cases, sas: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let table =
        format!("sas = '{sas}'\npolicies = 'copies-policies'\nnonce_state = '{sas}-nonces'");
    let ipsec = definition("ipsec").expect("a function of that name");
    let (function, words) = build(ipsec, &table, cases.folder());
    function.report(&Outputs::default()).expect("a file of numbers");
    let mut harness = Harness::new(function, words);
    let inputs: Vec<Input> = frames.iter().map(|frame| Input::at(0, frame)).collect();
    let sealed = inputs.chunks(BATCH_DEFAULT).flat_map(|inputs| harness.process(inputs));
    sealed.map(|outcome| outcome.bytes).collect()
}

/// Writes the files of SAs beside those of `cases`: AES-CTR and HMAC-SHA1 as in the paper, an SA a
/// network.
///
/// # Errors
/// I/O errors.
pub fn write_files(cases: &Cases) -> std::io::Result<()> {
    let folder = cases.folder();
    let mut policies = String::new();
    for network in 0..NETWORKS {
        let _ = writeln!(
            policies,
            "[[policy]]\ndst = '11.0.{network}.0/24'\naction = 'protect'\nsa = 'sa-{network}'"
        );
    }
    std::fs::write(folder.join("copies-policies"), policies)?;
    for (name, is_in, is_in_udp) in [
        ("copies-out", false, false),
        ("copies-in", true, false),
        ("copies-udp-out", false, true),
        ("copies-udp-in", true, true),
    ] {
        let path = folder.join(name);
        let sas: String = (0..NETWORKS).map(|network| sa(network, is_in, is_in_udp)).collect();
        std::fs::write(&path, sas)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// An SA without a replay window: the same frames come over and over. In UDP each begins at a host
/// of its own, for a translator.
fn sa(network: u32, is_in: bool, is_in_udp: bool) -> String {
    let direction = if is_in { "in" } else { "out" };
    let (src, encap) = match is_in_udp {
        true => (format!("10.200.0.{network}"), "encap = { src_port = 4500, dst_port = 4500 }\n"),
        false => ("192.0.2.1".into(), ""),
    };
    let window = if is_in { "replay_window = 0\n" } else { "" };
    let spi = 0x1000 + network;
    let [enc_key, auth_key] = [(0, 20), (1, 20)].map(|(seed, len)| hex(network << 1 | seed, len));
    format!(
        "[[sa]]\nname = 'sa-{network}'\ndirection = '{direction}'\nspi = {spi}\nsrc = '{src}'\n\
         dst = '192.0.2.2'\nmode = 'tunnel'\ncipher = 'aes-ctr'\nenc_key = '0x{enc_key}'\n\
         auth = 'hmac-sha1-96'\nauth_key = '0x{auth_key}'\n{encap}{window}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_frames_are_as_long_as_asked_or_up_to_three_bytes_shorter() {
        let cases = Cases::new().expect("files");
        write_files(&cases).expect("files");
        for (chain, shortest) in [(&CHAINS[0], 114), (&CHAINS[4], 122)] {
            assert_eq!(chain.frames(&cases, 64).len, shortest);
            for len in [128, 512, 1518] {
                let own = chain.frames(&cases, len).len as usize;
                assert!(own <= len && own + 3 >= len, "{own}, {len}");
            }
        }
    }
}
