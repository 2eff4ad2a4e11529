//! Collectors of others read what is exported: nfdump and tshark.
//!
//! Skipped where they are not installed, unless `WARPLINE_REQUIRE_PEERS` is 1.

use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use super::traffic::{Body, Sent};
use super::*;

/// Whether a program is installed; panics where it has to be.
fn has(program: &str) -> bool {
    // To nfdump's programs another option is the version, with which tshark would listen.
    let version = if program == "tshark" { "--version" } else { "-V" };
    let found = Command::new(program).arg(version).output().is_ok();
    let required = std::env::var_os("WARPLINE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(found || !required, "{program} is not installed");
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn text_of(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A connection, a question, echoes, and a packet of another protocol, over both families.
fn packets() -> Vec<Sent> {
    let start = 1_700_000_000 * SECOND + 250_000_000;
    let mut packets = Vec::new();
    let families = [("10.0.0.1", "192.0.2.80", 8, 0), ("2001:db8::1", "2001:db8:80::1", 128, 129)];
    for (a, b, request, reply) in families {
        let mut send = |millis: u64, forward: bool, body, payload| {
            let (src, dst) = if forward { (a, b) } else { (b, a) };
            let sent = Sent::new(start + millis * 1_000_000, src, dst, body);
            packets.push(Sent { payload, ..sent });
        };
        let to = |flags| Body::Tcp { src: 40_000, dst: 443, flags };
        let from = |flags| Body::Tcp { src: 443, dst: 40_000, flags };
        send(0, true, to(0x02), 0);
        send(1, false, from(0x12), 0);
        send(2, true, to(0x18), 500);
        send(3, false, from(0x18), 1400);
        send(4, true, to(0x11), 0);
        send(5, false, from(0x11), 0);
        send(6, true, to(0x10), 0);
        send(7, true, Body::Udp { src: 5353, dst: 53 }, 30);
        send(8, true, Body::Icmp { kind: request, code: 0, ident: 9 }, 56);
        send(9, false, Body::Icmp { kind: reply, code: 0, ident: 9 }, 56);
        send(10, true, Body::Other { protocol: 47 }, 100);
    }
    packets.sort_by_key(|packet| packet.nanos);
    packets
}

/// A collector that is ended with the test.
struct Collector(Child);

impl Collector {
    /// nfcapd on a free port of the loopback, writing to `folder`.
    fn start(folder: &Path) -> (Self, u16) {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new("nfcapd");
        command.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"]).arg(folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The collector has the port once another socket can't bind it.
        for _ in 0..200 {
            if UdpSocket::bind(("127.0.0.1", port)).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        (Self(child), port)
    }

    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until no datagram is in the receive queue of the loopback's `port`.
fn wait_until_read(port: u16) {
    let is_read = || {
        let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
        let own = format!("0100007F:{port:04X}");
        let mut own = sockets.lines().filter(|line| line.contains(&own));
        // Addresses, state, then the queues: bytes to send and bytes to read.
        own.all(|line| {
            line.split_whitespace().nth(4).is_some_and(|both| both.ends_with(":00000000"))
        })
    };
    for _ in 0..6000 {
        if is_read() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the collector reads nothing");
}

#[test]
fn nfdump_reads_what_is_sent() {
    assert_nfdump_reads("", &NFDUMP_LINES);
}

#[test]
fn nfdump_reads_one_direction_a_record() {
    assert_nfdump_reads("export = \"uniflow\"", &UNIFLOW_LINES);
}

fn assert_nfdump_reads(keys: &str, expected: &[&str]) {
    if !has("nfdump") || !has("nfcapd") {
        return;
    }
    let folder = Folder::new();
    let (collector, port) = Collector::start(&folder.0);
    let table = format!("ipfix_udp = \"127.0.0.1:{port}\"\n{keys}");
    let mut monitor = Monitor::new(&table, &folder.0);
    monitor.send(&packets(), 256);
    monitor.close().unwrap();
    assert_eq!(monitor.counter("udp-errors"), 0);
    wait_until_read(port);
    collector.stop();
    let format = "fmt:%ts|%te|%sa|%sp|%da|%dp|%pr|%ipkt|%ibyt|%opkt|%obyt|%flg";
    let mut nfdump = Command::new("nfdump");
    nfdump.env("TZ", "UTC").args(["-q", "-6", "-N", "-o", format, "-R"]).arg(&folder.0);
    let text = text_of(nfdump.output().unwrap());
    let mut lines: Vec<String> = text.lines().map(|line| line.replace(' ', "")).collect();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn tshark_reads_what_is_written() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let mut monitor = Monitor::new("ipfix = \"f.ipfix\"", &folder.0);
    monitor.send(&packets(), 256);
    monitor.close().unwrap();
    assert_dissected(&folder.0.join("f.ipfix"), &[]);
}

#[test]
fn tshark_reads_what_is_sent() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let table = format!("ipfix_udp = \"{}\"", collector.local_addr().unwrap());
    let mut monitor = Monitor::new(&table, &folder.0);
    monitor.send(&packets(), 256);
    monitor.close().unwrap();
    let mut buffer = [0; 65536];
    let datagrams: Vec<Vec<u8>> = (0..monitor.counter("udp-messages"))
        .map(|_| collector.recv(&mut buffer).map(|len| buffer[..len].to_vec()).unwrap())
        .collect();
    let path = folder.0.join("udp.pcap");
    std::fs::write(&path, capture(&datagrams)).unwrap();
    assert_dissected(&path, &["-d", "udp.port==4739,cflow"]);
}

/// A capture of datagrams to port 4739, in packets of raw IPv4.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0]);
    for datagram in datagrams {
        let len = (28 + datagram.len()) as u32;
        bytes.extend([0; 8]);
        bytes.extend(len.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend([0x45, 0]);
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        bytes.extend([0x12, 0x83, 0x12, 0x83]);
        bytes.extend((len as u16 - 20).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(datagram);
    }
    bytes
}

/// Whether tshark finds what [`FIELDS`] says, in any order of the records.
fn assert_dissected(path: &Path, options: &[&str]) {
    let sorted = |values: &str| {
        let mut values: Vec<String> = values.split(',').map(str::to_owned).collect();
        values.sort();
        values
    };
    let found = dissected(path, options);
    assert_eq!(found.len(), FIELDS.len());
    for (found, (field, values)) in found.iter().zip(FIELDS) {
        assert_eq!(sorted(found), sorted(values), "{field}");
    }
}

/// The values of each of [`FIELDS`].
fn dissected(path: &Path, options: &[&str]) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(path).args(options).args(["-T", "fields", "-E", "separator=/t"]);
    FIELDS.iter().for_each(|(field, _)| {
        tshark.args(["-e", field]);
    });
    let text = text_of(tshark.output().unwrap());
    text.trim_end_matches('\n').split('\t').map(str::to_owned).collect()
}

/// Fields of tshark and their expected values; the first two are its complaints.
const FIELDS: [(&str, &str); 10] = [
    ("_ws.malformed", ""),
    ("_ws.expert.message", ""),
    ("cflow.srcaddr", "10.0.0.1,10.0.0.1,10.0.0.1,10.0.0.1"),
    ("cflow.srcaddrv6", "2001:db8::1,2001:db8::1,2001:db8::1,2001:db8::1"),
    ("cflow.dstport", "443,53,0,443,53,0"),
    ("cflow.protocol", "6,17,1,47,6,17,58,47"),
    ("cflow.packets", "3,4,1,1,1,1,3,4,1,1,1,1"),
    ("cflow.octets", "1520,660,58,84,84,120,1580,740,78,104,104,140"),
    ("cflow.flow_end_reason", "3,4,4,4,3,4,4,4"),
    ("cflow.biflow_direction", "1,1,1,1,1,1,1,1"),
];

/// First and last time, source, destination, protocol, packets and bytes there and back, flags.
/// ICMP has its type and code for a port.
const NFDUMP_LINES: [&str; 8] = [
    "2023-11-1422:13:20.250|2023-11-1422:13:20.256|\
     10.0.0.1|40000|192.0.2.80|443|6|4|660|3|1520|...AP.SF",
    "2023-11-1422:13:20.250|2023-11-1422:13:20.256|\
     2001:db8::1|40000|2001:db8:80::1|443|6|4|740|3|1580|...AP.SF",
    "2023-11-1422:13:20.257|2023-11-1422:13:20.257|\
     10.0.0.1|5353|192.0.2.80|53|17|1|58|0|0|........",
    "2023-11-1422:13:20.257|2023-11-1422:13:20.257|\
     2001:db8::1|5353|2001:db8:80::1|53|17|1|78|0|0|........",
    "2023-11-1422:13:20.258|2023-11-1422:13:20.258|10.0.0.1|0|192.0.2.80|8.0|1|1|84|1|84|........",
    "2023-11-1422:13:20.258|2023-11-1422:13:20.258|\
     2001:db8::1|0|2001:db8:80::1|128.0|58|1|104|1|104|........",
    "2023-11-1422:13:20.260|2023-11-1422:13:20.260|10.0.0.1|0|192.0.2.80|0|47|1|120|0|0|........",
    "2023-11-1422:13:20.260|2023-11-1422:13:20.260|\
     2001:db8::1|0|2001:db8:80::1|0|47|1|140|0|0|........",
];

/// The same of records of one direction each.
const UNIFLOW_LINES: [&str; 12] = [
    "2023-11-1422:13:20.250|2023-11-1422:13:20.256|\
     10.0.0.1|40000|192.0.2.80|443|6|4|660|0|0|...AP.SF",
    "2023-11-1422:13:20.250|2023-11-1422:13:20.256|\
     2001:db8::1|40000|2001:db8:80::1|443|6|4|740|0|0|...AP.SF",
    "2023-11-1422:13:20.251|2023-11-1422:13:20.255|\
     192.0.2.80|443|10.0.0.1|40000|6|3|1520|0|0|...AP.SF",
    "2023-11-1422:13:20.251|2023-11-1422:13:20.255|\
     2001:db8:80::1|443|2001:db8::1|40000|6|3|1580|0|0|...AP.SF",
    "2023-11-1422:13:20.257|2023-11-1422:13:20.257|\
     10.0.0.1|5353|192.0.2.80|53|17|1|58|0|0|........",
    "2023-11-1422:13:20.257|2023-11-1422:13:20.257|\
     2001:db8::1|5353|2001:db8:80::1|53|17|1|78|0|0|........",
    "2023-11-1422:13:20.258|2023-11-1422:13:20.258|10.0.0.1|0|192.0.2.80|8.0|1|1|84|0|0|........",
    "2023-11-1422:13:20.258|2023-11-1422:13:20.258|\
     2001:db8::1|0|2001:db8:80::1|128.0|58|1|104|0|0|........",
    "2023-11-1422:13:20.259|2023-11-1422:13:20.259|192.0.2.80|0|10.0.0.1|0.0|1|1|84|0|0|........",
    "2023-11-1422:13:20.259|2023-11-1422:13:20.259|\
     2001:db8:80::1|0|2001:db8::1|129.0|58|1|104|0|0|........",
    "2023-11-1422:13:20.260|2023-11-1422:13:20.260|10.0.0.1|0|192.0.2.80|0|47|1|120|0|0|........",
    "2023-11-1422:13:20.260|2023-11-1422:13:20.260|\
     2001:db8::1|0|2001:db8:80::1|0|47|1|140|0|0|........",
];
