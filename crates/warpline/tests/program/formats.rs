//! Captures in every format, plain and compressed, in and out; dropped packets with their reasons.

use std::collections::BTreeMap;
use std::process::Command;

use crate::ends::{signal, wait_until_running};
use crate::harness::{Demo, output_of, wait};
use crate::pcap::{Record, capture, parse, udp};
use crate::stats::whole;
use crate::{pcapng, stats};

/// Endings of outputs.
const ENDINGS: [&str; 6] = ["pcap", "pcapng", "pcap.gz", "pcapng.gz", "pcap.zst", "pcapng.zst"];

/// Has the file tested by the program that its ending is of, where that is installed.
fn test_stream(demo: &Demo, name: &str) {
    for (ending, program) in [(".gz", "gzip"), (".zst", "zstd")] {
        if name.ends_with(ending) && Command::new(program).arg("--version").output().is_ok() {
            output_of(Command::new(program).arg("-t").arg(demo.path(name)));
        }
    }
}

/// The packets that the program itself reads in `name`, as a plain pcap.
fn read_back(demo: &Demo, name: &str) -> Vec<u8> {
    let copy = "run chain.toml --set chain.functions=[] --output back.pcap --input";
    let ended = demo.warpline(&format!("{copy} {name}")).expect(0);
    assert!(!ended.stderr.contains("warning"), "{name}: {}", ended.stderr);
    demo.read("back.pcap")
}

#[test]
fn written_captures_read_back_the_same() {
    let demo = Demo::new();
    demo.warpline("run chain.toml").expect(0);
    let plain = demo.read("out.pcap");
    for ending in ENDINGS {
        let name = format!("x.{ending}");
        demo.warpline(&format!("run chain.toml --output {name}")).expect(0);
        test_stream(&demo, &name);
        let file = demo.read(&name);
        let magic: &[u8] = match ending.rsplit('.').next() {
            Some("gz") => &[0x1f, 0x8b, 8],
            Some("zst") => &[0x28, 0xb5, 0x2f, 0xfd],
            Some("pcapng") => &[0x0a, 0x0d, 0x0d, 0x0a],
            _ => &plain[..24],
        };
        assert!(file.starts_with(magic), "{name}");
        assert!(read_back(&demo, &name) == plain, "{name}");
        // By what is in it, not by its name, and from standard input.
        demo.write("nameless", &file);
        assert!(read_back(&demo, "nameless") == plain, "{name}");
        let copy = "run chain.toml --set chain.functions=[] --output back.pcap --input -";
        demo.warpline_with(copy, &file).expect(0);
        assert!(demo.read("back.pcap") == plain, "{name}");
    }
    // The tap and the chain file's own key, by their names too.
    demo.warpline(
        "run chain.toml --set chain.tap=tap.pcapng.gz --set chain.output=o.pcap.zst --output none",
    )
    .expect(0);
    test_stream(&demo, "tap.pcapng.gz");
    assert!(read_back(&demo, "tap.pcapng.gz") == demo.read("capture.pcap"));
    demo.warpline("run chain.toml --set chain.output=o.pcap.zst").expect(0);
    assert!(read_back(&demo, "o.pcap.zst") == plain);
}

#[test]
fn a_signal_completes_the_compressed_stream() {
    let demo = Demo::new();
    for name in ["x.pcap.gz", "x.pcapng.zst"] {
        let _ = std::fs::remove_file(demo.path("s.json"));
        let input = "generate:packets=1000000000000,size=200,payload=text";
        let child =
            demo.start(&format!("run chain.toml --stats s.json --input {input} --output {name}"));
        wait_until_running(&demo, &child, 0);
        signal(&child, "INT");
        wait(child).expect(130);
        test_stream(&demo, name);
        let sent = whole(&stats::read(&demo, "s.json")["chains"][0]["packets"]["sent"]);
        assert_eq!(parse(&read_back(&demo, name)).1.len() as u64, sent, "{name}");
    }
}

#[test]
fn compressed_captures_that_are_cut_or_corrupt() {
    let demo = Demo::new();
    for name in ["x.pcap.gz", "x.pcap.zst"] {
        demo.warpline(&format!("run chain.toml --set chain.functions=[] --output {name}"))
            .expect(0);
        let whole_file = demo.read(name);
        for part in [1, 2, 3] {
            let len = whole_file.len() * part / 4;
            let read = "run chain.toml --stats s.json --input";
            demo.write("cut", &whole_file[..len]);
            for (input, stdin) in [("cut", &b""[..]), ("-", &whole_file[..len])] {
                let ended = demo.warpline_with(&format!("{read} {input}"), stdin).expect(0);
                let reported = format!("warning: capture cut short at byte {len} of its ");
                assert!(ended.stderr.contains(&reported), "{}", ended.stderr);
                let packets = &stats::read(&demo, "s.json")["chains"][0]["packets"];
                let count = whole(&packets["read"]);
                assert!(count > 1000 * part as u64 && count < 11_851, "{name} {part}: {count}");
            }
            let mut corrupt = whole_file.clone();
            corrupt[len..len + 40].fill(0x55);
            demo.write("corrupt", corrupt);
            let ended = demo.warpline(&format!("{read} corrupt")).expect(1);
            // Decoded bytes may look wrong before the decoder finds an error.
            assert!(ended.stderr.contains("input: at byte "), "{}", ended.stderr);
            assert!(ended.stderr.contains(" data"), "{}", ended.stderr);
            let packets = &stats::read(&demo, "s.json")["chains"][0]["packets"];
            assert!(whole(&packets["read"]) > 1000 * part as u64, "{name} {part}: {packets}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_every_format() {
    let demo = Demo::new();
    for ending in ENDINGS {
        let name = format!("full.{ending}");
        std::os::unix::fs::symlink("/dev/full", demo.path(&name)).unwrap();
        let ended = demo.warpline(&format!("run chain.toml --output {name}")).expect(1);
        assert!(ended.stderr.contains("output: no space left"), "{}", ended.stderr);
    }
}

#[test]
fn interfaces_keep_their_names() {
    let demo = Demo::new();
    let record = |at_us: u64| Record::new(at_us * 1000, udp(20, |_| {}));
    let records: Vec<_> = (0..6).map(|i| (i as u32 % 2, record(i))).collect();
    demo.write("in.pcapng", pcapng::capture(&["lan", "wan"], &records));
    let copy = "run chain.toml --set chain.functions=[]";
    for more in ["--input in.pcapng", "--input in.pcapng,pace=1000000 --lanes 2"] {
        demo.warpline(&format!("{copy} {more} --output o.pcapng")).expect(0);
        let packets = pcapng::parse(&demo.read("o.pcapng"));
        assert_eq!(packets.len(), 6);
        for (packet, (interface, record)) in packets.iter().zip(&records) {
            assert_eq!(packet.record, *record);
            assert_eq!(packet.interface, ["lan", "wan"][*interface as usize]);
        }
    }
    demo.write("in.pcap", capture(101, &[record(1)]));
    demo.warpline(&format!("{copy} --input in.pcap --output o.pcapng")).expect(0);
    assert_eq!(pcapng::parse(&demo.read("o.pcapng"))[0].interface, "if0");
}

/// The counts of every function, by the comment that its packets must have.
fn expected_comments(chain: &serde_json::Value) -> BTreeMap<String, u64> {
    let mut expected = BTreeMap::new();
    for function in chain["functions"].as_array().unwrap() {
        let name = function["name"].as_str().unwrap();
        for (reason, count) in function["drops"].as_object().unwrap() {
            expected.insert(format!("dropped by {name}: {reason}"), whole(count));
        }
        for (lie, count) in function["malformed"].as_object().unwrap() {
            expected.insert(format!("rejected by {name}: malformed: {lie}"), whole(count));
        }
    }
    expected.retain(|_, count| *count > 0);
    expected
}

#[test]
fn annotated_captures_say_why_packets_were_dropped() {
    let demo = Demo::new();
    demo.warpline("run chain.toml --stats s.json").expect(0);
    let (plain, unannotated) = (demo.read("out.pcap"), stats::read(&demo, "s.json"));
    let mut first = None;
    for more in ["", "--lanes 4", "--lanes 2 --set chain.batch_packets=1 --set nat.stage=own"] {
        let run = format!("run chain.toml --annotate --output a.pcapng --stats s.json {more}");
        demo.warpline(&run).expect(0);
        let file = demo.read("a.pcapng");
        let annotated = stats::read(&demo, "s.json");
        let packets = pcapng::parse(&file);
        let mut comments = BTreeMap::new();
        for packet in packets.iter().filter(|packet| !packet.comment.is_empty()) {
            *comments.entry(packet.comment.clone()).or_insert(0) += 1;
        }
        assert_eq!(comments, expected_comments(&annotated["chains"][0]));
        assert!(comments.len() > 10, "{comments:?}");
        // Forwarded packets are sent and counted as without comments.
        let sent = packets.iter().filter(|packet| packet.comment.is_empty());
        assert!(sent.map(|packet| &packet.record).eq(&parse(&plain).1));
        let packets = |stats: &serde_json::Value| stats["chains"][0]["packets"].clone();
        assert_eq!(packets(&annotated), packets(&unannotated));
        assert!(*first.get_or_insert(file.clone()) == file, "{more}");
    }
}

/// A packet that a function changed before another dropped it is shown as it was then, in its
/// place.
#[test]
fn dropped_packets_are_in_their_place() {
    let demo = Demo::new();
    let records: Vec<Record> = (0..9)
        .map(|i| Record::new(i, udp(20, |ip| ip[8] = if i % 3 == 1 { 1 } else { 64 })))
        .collect();
    demo.write("in.pcap", capture(1, &records));
    demo.warpline(
        "run chain.toml --input in.pcap --annotate --output a.pcapng \
         --set chain.functions=[\"router\"]",
    )
    .expect(0);
    let packets = pcapng::parse(&demo.read("a.pcapng"));
    let original = packets.iter().filter(|packet| packet.record.bytes.len() == 62);
    for (packet, record) in original.clone().zip(&records) {
        let is_late = record.bytes[22] == 1;
        let comment = if is_late { "dropped by router: ttl-exceeded" } else { "" };
        assert_eq!((packet.record.at_ns, packet.comment.as_str()), (record.at_ns, comment));
    }
    assert_eq!(original.count(), 9);
}

#[test]
fn annotations_need_pcapng() {
    let demo = Demo::new();
    for output in ["", "--output a.pcap", "--output a.pcap.gz", "--output -", "--output none"] {
        let ended = demo.warpline(&format!("run chain.toml --annotate {output}")).expect(2);
        assert!(ended.stderr.contains("comments go into a pcapng file"), "{}", ended.stderr);
        assert!(!demo.path("a.pcap").exists() && !demo.path("out.pcap").exists());
    }
}
