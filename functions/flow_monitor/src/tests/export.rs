//! Written files and sent messages.

use super::reader::{Reader, rows};
use super::traffic::{Body, Sent};
use super::*;
use std::net::UdpSocket;
use std::time::Duration;

/// A flow for each number, half of them answered, of all kinds of templates.
fn packets(count: u32) -> Vec<Sent> {
    let mut packets = Vec::new();
    for n in 0..count {
        let nanos = (1_700_000_000 + u64::from(n / 100)) * SECOND;
        let (src, dst) = match n % 2 {
            0 => (format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255), "192.0.2.1"),
            _ => (format!("2001:db8::{:x}:{:x}", n >> 16, n & 0xffff), "2001:db8:1::1"),
        };
        let echo = if n % 2 == 0 { (8, 0) } else { (128, 129) };
        let (there, back) = match n % 3 {
            0 => (
                Body::Icmp { kind: echo.0, code: 0, ident: 7 },
                Body::Icmp { kind: echo.1, code: 0, ident: 7 },
            ),
            _ => (Body::Udp { src: 5000, dst: 53 }, Body::Udp { src: 53, dst: 5000 }),
        };
        packets.push(Sent::new(nanos, &src, dst, there));
        if n % 4 < 2 {
            packets.push(Sent::new(nanos, dst, &src, back));
        }
    }
    packets
}

#[test]
fn a_file_has_templates_again_and_right_sequence_numbers() {
    let folder = Folder::new();
    let mut monitor = Monitor::new("ipfix = \"f\"\ncsv = \"c\"\ndomain = 77", &folder.0);
    monitor.send(&packets(20_000), 256);
    monitor.close().unwrap();
    let bytes = folder.read("f");
    let messages = Reader::default().read(&bytes);
    assert_eq!(rows(&bytes).len(), 20_000);
    assert_eq!(monitor.counter("records"), 20_000);
    assert_eq!(monitor.counter("ipfix-messages"), messages.len() as u64);
    assert!(messages.iter().all(|message| message.len <= 8192 && message.domain == 77));
    // Each has the time of the latest packet in it, whichever flows end first.
    let times = || messages.iter().map(|message| message.export_s);
    assert_eq!(times().max(), Some(1_700_000_199));
    assert!(times().all(|time| time >= 1_700_000_000));
    assert_eq!(messages[0].templates, 8);
    assert!(messages[1..].iter().all(|message| message.templates == 0));
    let text = String::from_utf8(folder.read("c")).unwrap();
    assert_eq!(text.lines().count(), 20_001);
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(text.lines().all(|line| line.split(',').count() == columns));
}

/// RFC 7011, 8.4: a collector may forget templates that don't come again in time.
#[test]
fn datagrams_have_templates_again_in_time() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let table = format!("ipfix_udp = \"{}\"", collector.local_addr().unwrap());
    let mut monitor = Monitor::new(&table, Path::new("."));
    let (mut reader, mut buffer, mut templates) = (Reader::default(), [0; 2000], Vec::new());
    let udp = Body::Udp { src: 5000, dst: 53 };
    for n in 0..9 {
        // A record ends with the next packet, which comes 200 seconds later.
        let nanos = (1_700_000_000 + 200 * n) * SECOND;
        monitor.send(&[Sent::new(nanos, "192.0.2.1", "192.0.2.2", udp)], 1);
        monitor.ended();
        monitor.report.rest();
        if n > 0 {
            let len = collector.recv(&mut buffer).unwrap();
            templates.push(reader.message(&buffer[..len]).templates);
        }
    }
    assert_eq!(templates, [8, 0, 0, 8, 0, 0, 8, 0]);
}

#[test]
fn datagrams_are_short_and_have_templates_again() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let table = format!("ipfix_udp = \"{}\"", collector.local_addr().unwrap());
    let mut monitor = Monitor::new(&table, Path::new("."));
    let (mut reader, mut records, mut messages) = (Reader::default(), 0, Vec::new());
    let mut buffer = [0; 65536];
    // The socket holds what one turn sends.
    for packets in packets(2000).chunks(100) {
        monitor.send(packets, 100);
        monitor.tick((1_700_000_000 + 1000 + messages.len() as u64) * SECOND);
        for _ in 0..8 {
            monitor.tick((1_700_000_000 + 2000) * SECOND);
        }
        monitor.ended();
        monitor.report.rest();
        while (messages.len() as u64) < monitor.counter("udp-messages") {
            let len = collector.recv(&mut buffer).unwrap();
            let message = reader.message(&buffer[..len]);
            assert!(len <= 1400 && message.sequence == records);
            records += message.records.len() as u32;
            messages.push(message);
        }
    }
    monitor.close().unwrap();
    assert_eq!((records, monitor.counter("udp-errors")), (2000, 0));
    let with: Vec<usize> = (0..messages.len()).filter(|&n| messages[n].templates > 0).collect();
    assert!(with.len() > 3 && with.iter().enumerate().all(|(n, &at)| at == 20 * n), "{with:?}");
}

#[test]
fn a_collector_that_is_not_there_is_counted_and_no_error() {
    let absent = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let registry = Registry::default();
    let outputs = Outputs::of_run(None, registry.clone());
    // The network reports the first message after it was sent, and there may be no second one.
    for (count, least) in [(1, 1), (500, 2)] {
        let table = format!("ipfix_udp = \"{absent}\"");
        let mut monitor = Monitor::with_outputs(&table, Path::new("."), &outputs);
        monitor.send(&packets(count), 256);
        monitor.close().unwrap();
        assert!(monitor.counter("udp-errors") >= least, "{count} packets");
        let text =
            format!("collector {absent}: connection refused; `udp-errors` counts lost messages");
        assert_eq!(registry.take_warnings(), [text], "{count} packets: the first error alone");
    }
}

#[test]
fn a_full_disk_is_reported_at_the_end_and_once() {
    let mut monitor = Monitor::new("csv = \"/dev/full\"", Path::new("."));
    monitor.send(&packets(5000), 256);
    let reported = monitor.close().unwrap_err();
    assert_eq!(reported, "can't write /dev/full: no space left on device");
    assert_eq!(monitor.counter("records"), 5000, "all were counted");
}

#[test]
fn files_are_created_by_the_report_alone() {
    let folder = Folder::new();
    let (function, _) = build(&DEFINITION, "ipfix = \"f\"\ncsv = \"c\"", &folder.0);
    assert_eq!(function.writes(), [folder.0.join("f"), folder.0.join("c")]);
    assert!(!folder.0.join("f").exists());
    function.report(&Outputs::default()).unwrap().unwrap().finish().unwrap();
    assert_eq!(folder.read("f"), b"");
    assert!(folder.read("c").starts_with(b"first,last,src,dst,"));
    let (function, _) = build(&DEFINITION, "csv = \"no/such/folder\"", &folder.0);
    let reported = function.report(&Outputs::default()).err().unwrap();
    assert!(
        reported.starts_with("can't create ") && reported.ends_with("no such file or directory")
    );
}
