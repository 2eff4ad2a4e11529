//! The functions that are measured, with files that they read, and packets for them.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_engine::{Chain, Deployment, Instance, OnDevice, Place, Site};
use warpline_functions::definition;
use warpline_nf::{Definition, Function};
use warpline_packet::hash::mix32;
use warpline_packet::wire::checksum::checksum;
use warpline_verify as harness;

/// A function with its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name in results.
    pub name: &'static str,
    function: &'static str,
    table: &'static str,
    /// Where the payload begins, and how much longer it is than its frame from there on.
    payload_at: usize,
    trailer: usize,
}

/// A case whose payloads are those of UDP in IPv4.
const fn of_udp(name: &'static str, function: &'static str, table: &'static str) -> Case {
    Case { name, function, table, payload_at: 42, trailer: 0 }
}

/// Reads payloads, and leaves frames alone.
pub const DIGEST: Case = of_udp("digest", "digest", "");
/// Reads headers, and looks for the first of 1000 rules: the last ones accept.
pub const FIREWALL: Case = of_udp("firewall", "firewall", "rules = 'rules'");
/// Reads headers.
pub const MONITOR: Case = of_udp("flow-monitor", "flow_monitor", "");
/// Reads and writes all of a packet: AES-CBC with HMAC-SHA1. The payload is the text; two of its
/// bytes are ESP's.
pub const IPSEC_SEAL: Case = Case {
    name: "ipsec-seal",
    function: "ipsec",
    table: "sas = 'sas'\npolicies = 'policies'",
    payload_at: 14,
    trailer: 2,
};
/// Writes an address and the checksums over it, as state has it.
pub const BALANCER_DNAT: Case =
    of_udp("balancer-dnat", "load_balancer", "services = 'services'\ntable_size = 1009");
/// Puts a header before the packet.
pub const BALANCER_IPIP: Case = of_udp(
    "balancer-ipip",
    "load_balancer",
    "services = 'services'\ntable_size = 1009\nmode = 'ipip'",
);
/// Writes Ethernet addresses.
pub const BALANCER_MAC: Case = of_udp(
    "balancer-mac",
    "load_balancer",
    "services = 'services-of-macs'\ntable_size = 1009\nmode = 'mac'\nmac = '02:00:00:00:00:09'",
);
/// Writes an address, a port and the checksums over them, as state has it.
pub const NAT: Case =
    of_udp("nat", "nat", "inside = ['10.0.0.0/8']\noutside = ['203.0.113.1', '203.0.113.2']");
/// Looks for 147 literals in payloads, and keeps what it finds beside the packets: of one packet in
/// 256, and of long ones by chance.
pub const NIDS: Case = of_udp("nids", "nids", "rules = 'sensor'");
/// The same for 10,000 literals: those, and others of 4 to 23 bytes.
pub const NIDS_LARGE: Case = of_udp("nids-large", "nids", "rules = 'large-sensor'");
/// Reads and writes a few bytes of a header.
pub const ROUTER: Case = of_udp("router", "router", "routes = 'routes'");

/// All of them.
pub const ALL: [Case; 11] = [
    DIGEST,
    FIREWALL,
    MONITOR,
    IPSEC_SEAL,
    BALANCER_DNAT,
    BALANCER_IPIP,
    BALANCER_MAC,
    NAT,
    NIDS,
    NIDS_LARGE,
    ROUTER,
];

/// Networks that packets go to: each has a route, a policy, an SA, a rule and a service of its own.
pub(crate) const NETWORKS: u32 = 256;
/// Rules of the firewall before those.
const OTHER_RULES: u32 = 1000 - NETWORKS;
/// Backends of a service.
const BACKENDS: u32 = 4;
/// Literals of a set of rules, of three bytes each.
const LITERALS: u32 = 147;
/// Literals of a large set beside those.
const MORE_LITERALS: u32 = 10_000 - LITERALS;
/// One packet of so many begins with a literal.
const TOLD_EVERY: u32 = 256;
/// Different packets of a load.
pub(crate) const PACKETS: u32 = 4096;

impl Case {
    fn definition(&self) -> &'static Definition {
        definition(self.function).expect("a function of that name")
    }

    /// Packets whose payload has `len` bytes.
    pub fn frames(&self, len: usize, count: usize) -> Vec<Vec<u8>> {
        let frame_len = self.payload_at + len - self.trailer;
        (0..count as u32).map(|number| frame(number % PACKETS, frame_len)).collect()
    }

    /// As many different packets as a load has.
    pub fn load(&self, len: usize) -> Vec<Vec<u8>> {
        self.frames(len, PACKETS as usize)
    }
}

/// The folder of the functions' files, removed in the end.
pub struct Cases {
    folder: PathBuf,
}

impl Cases {
    /// Writes the files.
    ///
    /// # Errors
    /// I/O errors.
    pub fn new() -> std::io::Result<Self> {
        // Each has its own: one that is dropped takes its folder along.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpline-device-run-{}-{count}", std::process::id());
        let own = Self { folder: std::env::temp_dir().join(name) };
        write_files(&own.folder)?;
        Ok(own)
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The function, and how many scratch words it was handed.
    pub fn build(&self, case: Case) -> (Box<dyn Function>, usize) {
        harness::build(case.definition(), case.table, &self.folder)
    }

    /// A chain of it, `count` times, on a device or on the CPU.
    pub fn deploy(
        &self,
        case: Case,
        count: usize,
        own_stage: bool,
        on_device: Option<OnDevice>,
    ) -> Deployment {
        let mut words = 0;
        let instance = |number| {
            let (function, own_words) = self.build(case);
            assert!(count == 1 || own_words == 0, "each would be handed the same words");
            words = own_words;
            Instance {
                name: format!("{}-{number}", case.name),
                definition: case.definition(),
                function: Arc::from(function),
                fingerprint: 0,
                place: Place::Only,
            }
        };
        let instances = (0..count).map(instance).collect();
        let chain = Chain::new(case.name, instances, words).expect("a chain of few");
        let site = Site { on_device, own_stage, ..Site::default() };
        Deployment::new(Arc::new(chain), vec![site; count])
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// UDP over IPv4 to one of the networks.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let network = (mix32(number) % NETWORKS) as u8;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((len as u16 - 14).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0]);
    frame.extend((number as u16).to_be_bytes());
    frame.extend([11, 0, network, 1]);
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x13, 0x88, 0, 53]);
    frame.extend((len as u16 - 34).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((42..len as u32).map(|at| mix32(number << 12 ^ at) as u8));
    frame
}

fn write_files(folder: &Path) -> std::io::Result<()> {
    let (mut routes, mut policies, mut sas) = (String::new(), String::new(), String::new());
    for network in 0..NETWORKS {
        let (dst, hop) = (format!("11.0.{network}.0/24"), 1 + network % 200);
        let _ = writeln!(routes, "{dst} 192.0.2.{hop}");
        let _ = writeln!(
            policies,
            "[[policy]]\nsrc = '10.0.0.0/8'\ndst = '{dst}'\naction = 'protect'\nsa = 'sa-{network}'"
        );
        let spi = 256 + network;
        let [enc_key, auth_key] =
            [(0, 16), (1, 20)].map(|(seed, len)| hex(network << 1 | seed, len));
        let _ = writeln!(
            sas,
            "[[sa]]\nname = 'sa-{network}'\ndirection = 'out'\nspi = {spi}\nsrc = '192.0.2.1'\n\
             dst = '192.0.2.2'\nmode = 'tunnel'\ncipher = 'aes-cbc'\nenc_key = '0x{enc_key}'\n\
             auth = 'hmac-sha1-96'\nauth_key = '0x{auth_key}'"
        );
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("rules"), rules())?;
    let (few, more) = (sensor(), more_rules());
    std::fs::write(folder.join("large-sensor"), [&*few, &more].concat())?;
    std::fs::write(folder.join("sensor"), few)?;
    std::fs::write(folder.join("services"), services(false))?;
    std::fs::write(folder.join("services-of-macs"), services(true))?;
    std::fs::write(folder.join("routes"), routes)?;
    std::fs::write(folder.join("policies"), policies)?;
    std::fs::write(folder.join("sas"), sas)?;
    std::fs::set_permissions(folder.join("sas"), std::fs::Permissions::from_mode(0o600))
}

/// Rules that drop what does not come, and one for each network.
fn rules() -> String {
    let others = (0..OTHER_RULES).map(|rule| {
        let port = 1000 + rule;
        format!("drop udp from 12.{}.{}.0/24 to 11.0.0.0/16 port {port}\n", rule / 256, rule % 256)
    });
    let own = (0..NETWORKS).map(|network| format!("accept udp to 11.0.{network}.0/24 port 53\n"));
    others.chain(own).collect()
}

/// A rule for each literal: what begins the payload of one packet in [`TOLD_EVERY`], then any.
fn sensor() -> String {
    let rule = |number: u32| {
        let reported = number * TOLD_EVERY;
        let literal = match reported < PACKETS {
            true => frame(reported, 45)[42..].iter().map(|byte| format!("{byte:02x}")).collect(),
            false => hex(number, 3),
        };
        let sid = 1 + number;
        format!(
            "alert udp any any -> any any (msg:\"{sid}\"; content:\"|{literal}|\"; sid:{sid};)\n"
        )
    };
    (0..LITERALS).map(rule).collect()
}

/// A rule for each of the literals that a large set has more.
fn more_rules() -> String {
    let rule = |number: u32| {
        let (literal, sid) = (hex(0x10_0000 | number, 4 + number % 20), 1 + LITERALS + number);
        format!(
            "alert udp any any -> any any (msg:\"{sid}\"; content:\"|{literal}|\"; sid:{sid};)\n"
        )
    };
    (0..MORE_LITERALS).map(rule).collect()
}

/// A service in each network.
fn services(has_macs: bool) -> String {
    let mut text = String::new();
    for network in 0..NETWORKS {
        let _ = writeln!(text, "vip 11.0.{network}.1 udp 53");
        for backend in 1..=BACKENDS {
            let _ = write!(text, " backend 172.16.0.{backend}");
            let _ = writeln!(
                text,
                "{}",
                if has_macs { format!(" mac 02:00:00:00:01:{backend:02x}") } else { String::new() }
            );
        }
    }
    text
}

/// `len` bytes of a key in hexadecimal.
pub(crate) fn hex(seed: u32, len: u32) -> String {
    (0..len).map(|at| format!("{:02x}", mix32(seed << 8 | at) as u8)).collect()
}
