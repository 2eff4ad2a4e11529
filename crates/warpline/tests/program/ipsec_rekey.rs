//! Rekeying an IPsec gateway by SIGHUP while packets flow: old and new SA side by side, and nothing
//! lost.

use std::io::Write;
use std::sync::mpsc::Receiver;

use crate::ends::{signal, wait_until_running};
use crate::harness::{Child, LIMIT, wait};
use crate::ipsec::{CBC, GCM, Site, has_no_key, policies, sa};
use crate::pcap;
use crate::reload::lines_of;
use crate::stats::whole;

/// A run whose files change.
struct Run {
    child: Child,
    lines: Receiver<String>,
}

impl Run {
    fn new(site: &Site, arguments: &str) -> Self {
        let mut child = site.start(arguments);
        let lines = lines_of(child.stderr.take().unwrap());
        Self { child, lines }
    }

    /// Sends SIGHUP, and gives the lines that come back: the last begins with `last`.
    #[track_caller]
    fn reload(&self, last: &str) -> String {
        signal(&self.child, "HUP");
        let mut reported = String::new();
        loop {
            let line = self.lines.recv_timeout(LIMIT).expect("an answer to SIGHUP");
            reported += &format!("{line}\n");
            if line.starts_with(last) {
                has_no_key(reported.as_bytes());
                return reported;
            }
            assert!(!line.starts_with("reload: [ipsec] in place"), "{reported}");
        }
    }

    #[track_caller]
    fn end(self, status: i32) {
        wait(self.child).expect(status);
        let rest: Vec<String> = self.lines.iter().collect();
        has_no_key(rest.join("\n").as_bytes());
    }
}

const IN_PLACE: &str = "reload: [ipsec] in place";
const GOES_ON: &str = "reload: the previous version keeps running";

fn one(direction: &str) -> String {
    sa("one", direction, 0x1001, CBC, 0)
}

fn two(direction: &str) -> String {
    sa("two", direction, 0x1002, CBC, 1)
}

/// Seals endless traffic by SA one and then by SA two, into `sealed.pcap`; what came in is in
/// `plain.pcap`.
fn rekeyed(site: &Site) {
    site.write_secret("out.sas", &one("out"));
    site.write("policies", policies(&["two", "one"]).replace("\"two\", ", ""));
    let run = Run::new(
        site,
        "run seal.toml --lanes 2 --output sealed.pcap --stats s.json --set chain.tap=plain.pcap \
         --input generate:packets=1000000000000,size=200,flows=50,ip=mix,rate_gbps=0.02",
    );
    wait_until_running(site.demo(), &run.child, 1);
    assert_eq!(run.reload("reload: "), "reload: nothing changed\n");
    // A broken file changes nothing, and its error has the place.
    site.write_secret("out.sas", &(one("out") + &two("out").replace("tunnel", "tonnel")));
    let reported = run.reload(GOES_ON);
    assert!(reported.starts_with("reload: seal.toml: 1 mistake\n"), "{reported}");
    assert!(reported.contains("out.sas:18:8: "), "{reported}");
    // Nor does a missing file, or one that others may read.
    std::fs::remove_file(site.path("out.sas")).unwrap();
    assert!(run.reload(GOES_ON).contains("no such file"));
    site.write("out.sas", one("out") + &two("out"));
    assert!(run.reload(GOES_ON).contains("`chmod 600` it"));
    // Both SAs are present before the policies name the new one.
    site.write_secret("out.sas", &(one("out") + &two("out")));
    assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
    site.write("policies", policies(&["two", "one"]));
    assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&run.child, "INT");
    run.end(130);
}

#[test]
fn old_and_new_sa_stand_side_by_side() {
    let site = Site::new();
    rekeyed(&site);
    let stats = site.stats("s.json");
    let packets = &stats["chains"][0]["packets"];
    assert!(whole(&packets["read"]) > 0);
    assert_eq!(packets["read"], packets["sent"], "{packets}");
    let rows = &stats["chains"][0]["functions"][0]["tables"]["sas"];
    let each: Vec<u64> =
        rows.as_array().unwrap().iter().map(|row| whole(&row["packets"])).collect();
    assert_eq!(each.len(), 2, "{rows}");
    assert!(each[0] > 0 && each[1] > 0, "{rows}");
    assert_eq!(each[0] + each[1], whole(&packets["sent"]));
    // The numbers of the old SA continued over the reloads, and the new one's began with 1.
    let (_, sealed) = pcap::parse(&site.read("sealed.pcap"));
    let mut next = [1; 2];
    for record in &sealed {
        let word = |at: usize| u32::from_be_bytes(record.bytes[at..at + 4].try_into().unwrap());
        // Ethernet, an IPv4 header, ESP: its SPI and its number.
        let [spi, sequence] = [word(34), word(38)];
        let own = &mut next[(spi - 0x1001) as usize];
        assert_eq!(sequence, *own, "of SA {spi:#x}");
        *own += 1;
    }
    assert_eq!(next.map(|next| u64::from(next) - 1), [each[0], each[1]]);
}

/// A wrong key in a reload is put right by the next one, which continues the numbers of the key.
#[test]
fn a_counter_mode_key_that_was_removed_comes_back() {
    let site = Site::with(GCM);
    let one = sa("one", "out", 0x1001, GCM, 0);
    let run = Run::new(
        &site,
        "run seal.toml --lanes 2 --output sealed.pcap --stats s.json \
         --input generate:packets=1000000000000,size=200,flows=50,rate_gbps=0.02",
    );
    wait_until_running(site.demo(), &run.child, 1);
    for _ in 0..3 {
        site.write_secret("out.sas", &sa("one", "out", 0x1002, GCM, 1));
        assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        site.write_secret("out.sas", &one);
        assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    signal(&run.child, "INT");
    run.end(130);
    let packets = &site.stats("s.json")["chains"][0]["packets"];
    assert_eq!(packets["read"], packets["sent"], "{packets}");
    // Each key uses a number once. Ethernet, an IPv4 header, ESP: its SPI and its number.
    let (_, sealed) = pcap::parse(&site.read("sealed.pcap"));
    let mut used = std::collections::HashSet::new();
    assert!(sealed.iter().all(|record| used.insert(record.bytes[34..42].to_vec())));
    let of = |spi: u8| used.iter().filter(|own| own[3] == spi).count();
    assert!(of(1) > 0 && of(2) > 0);
}

/// The other end learns the new SA between two packets, and removes the old one when none of its
/// packets can come.
#[test]
fn the_other_end_opens_both() {
    let site = Site::new();
    rekeyed(&site);
    let sealed = site.read("sealed.pcap");
    let (_, records) = pcap::parse(&sealed);
    let first = records.iter().position(|record| record.bytes[37] == 2).unwrap();
    // A file header, and one of 16 bytes for each record.
    let at = 24 + records[..first].iter().map(|record| 16 + record.bytes.len()).sum::<usize>();
    std::fs::remove_file(site.path("s.json")).unwrap();
    site.write_secret("in.sas", &one("in"));
    let mut run =
        Run::new(&site, "run open.toml --input - --output opened.pcap --stats s.json --lanes 2");
    let mut stdin = run.child.stdin.take().unwrap();
    stdin.write_all(&sealed[..at]).unwrap();
    wait_until_running(site.demo(), &run.child, 1);
    site.write_secret("in.sas", &(one("in") + &two("in")));
    assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
    let third = (sealed.len() - at) / 3;
    let end = |from: usize| (from..).find(|&end| is_record_end(&sealed, end)).unwrap();
    let middle = end(at + third);
    stdin.write_all(&sealed[at..middle]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    site.write_secret("in.sas", &two("in"));
    assert_eq!(run.reload("reload: "), format!("{IN_PLACE}\n"));
    stdin.write_all(&sealed[middle..]).unwrap();
    drop(stdin);
    run.end(0);
    assert!(site.read("opened.pcap") == site.read("plain.pcap"));
    let rows = site.function("s.json")["tables"]["sas"].clone();
    let two = rows.as_array().unwrap().iter().find(|row| row["sa"] == "two").unwrap();
    assert_eq!(whole(&two["packets"]), (records.len() - first) as u64, "{rows}");
}

/// Whether a record of the capture ends at `end`.
fn is_record_end(capture: &[u8], end: usize) -> bool {
    let mut at = 24;
    while at < end {
        let len = u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap());
        at += 16 + len as usize;
    }
    at == end
}
