//! Counter modes with keys from a file: no sequence number comes twice, whatever happens to a run.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::ends::{signal, wait_until_running};
use crate::harness::wait;
use crate::ipsec::{CBC, CTR, GCM, Site, TRAFFIC, has_no_key, policies, sa, silent};
use crate::pcap;

const SEAL: &str = "run seal.toml --output sealed.pcap --stats s.json --input";

/// The sequence numbers of a sealed capture, in its order.
fn numbers(site: &Site) -> Vec<u32> {
    let (_, records) = pcap::parse(&site.read("sealed.pcap"));
    // Ethernet, an IPv4 header, an SPI.
    records
        .iter()
        .map(|record| u32::from_be_bytes(record.bytes[38..42].try_into().unwrap()))
        .collect()
}

const ENDLESS: &str = "generate:packets=1000000000000,size=200,flows=50,rate_gbps=0.05";

#[test]
fn no_number_comes_twice() {
    for suite in [GCM, CTR] {
        let site = Site::with(suite);
        site.write("none.toml", "[chain]\nfunctions = []\n");
        site.warpline(&format!("run none.toml --input {TRAFFIC} --output plain.pcap")).expect(0);
        let mut used = HashSet::new();
        let mut is_new = |number: &u32| used.insert(*number);
        // An orderly end loses no number, on any engine and lanes.
        for (options, first) in
            [("", 1), ("--lanes 3", 3001), ("--set ipsec.crypto=software", 6001)]
        {
            site.warpline(&format!("{SEAL} plain.pcap {options}")).expect(0);
            let run = numbers(&site);
            assert_eq!((run[0], run.len()), (first, 3000), "{suite} {options}");
            assert!(run.iter().all(&mut is_new));
            has_no_key(&site.read("sealed.pcap"));
            let open = "run open.toml --input sealed.pcap --output opened.pcap --stats o.json";
            site.warpline(open).expect(0);
            assert!(site.read("opened.pcap") == site.read("plain.pcap"), "{suite} {options}");
            site.stats("s.json");
            site.stats("o.json");
        }
        // A crash loses the rest of a block, and repeats none.
        fs::remove_file(site.path("s.json")).unwrap();
        let child = site.start(&format!("{SEAL} {ENDLESS}"));
        wait_until_running(site.demo(), &child, 0);
        signal(&child, "KILL");
        assert_eq!(silent(wait(child)).status, None);
        site.warpline(&format!("{SEAL} plain.pcap")).expect(0);
        assert_eq!(numbers(&site)[0], 9001 + (1 << 20));
        assert!(numbers(&site).iter().all(&mut is_new));
        let file = site.read("nonces");
        assert!(file.starts_with(b"warpline nonces 1\n"));
        has_no_key(&file);
        let mode = fs::metadata(site.path("nonces")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn one_process_at_a_time_has_the_file() {
    let site = Site::with(GCM);
    let child = site.start(&format!("{SEAL} {ENDLESS}"));
    wait_until_running(site.demo(), &child, 0);
    let ended = site.warpline(&format!("run seal.toml --output none --input {TRAFFIC}")).expect(1);
    let reported = "[ipsec]: ./nonces: it is in use: one running chain at a time may have it";
    assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    signal(&child, "INT");
    silent(wait(child)).expect(130);
    let before = numbers(&site);
    assert!(before.iter().zip(1..).all(|(number, expected)| *number == expected));
    site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
    assert_eq!(numbers(&site)[0], before.len() as u32 + 1);
    // Nor two chains of one process.
    let chain = |name: &str| {
        format!(
            "[[chain]]\nname = \"{name}\"\nfunctions = [\"{name}-ipsec\"]\ninput = \"{TRAFFIC}\"\n\
             [{name}-ipsec]\nfunction = \"ipsec\"\nsas = \"out.sas\"\npolicies = \"policies\"\n\
             nonce_state = \"nonces\"\n"
        )
    };
    site.write("two.toml", chain("a") + &chain("b"));
    let ended = site.warpline("run two.toml").expect(2);
    assert!(ended.stderr.contains("nonces is both the file that [a-ipsec] keeps and"));
}

#[test]
fn a_command_without_a_run_keeps_the_file() {
    let site = Site::with(GCM);
    let known = |site: &Site| {
        fs::metadata(site.path("nonces"))
            .ok()
            .map(|meta| (meta.ino(), meta.mtime_nsec(), meta.mode()))
    };
    let refused = [
        ("check seal.toml", 0),
        ("run seal.toml --input nothing.pcap", 2),
        ("run seal.toml --output nonces --input generate:packets=1", 2),
        ("run seal.toml --stats nonces --input generate:packets=1", 2),
        ("run seal.toml --stats missing/s.json --input generate:packets=1", 2),
    ];
    for (arguments, status) in refused {
        site.warpline(arguments).expect(status);
        assert_eq!(known(&site), None, "{arguments}");
    }
    site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
    let (before, text) = (known(&site), site.read("nonces"));
    for (arguments, status) in refused {
        site.warpline(arguments).expect(status);
        assert_eq!(known(&site), before, "{arguments}");
    }
    // Nor does a run that has no use for it.
    site.write_secret("out.sas", &sa("one", "out", 0x1001, CBC, 0));
    site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
    assert_eq!(known(&site), before);
    assert!(site.read("nonces") == text);
}

#[test]
fn a_file_that_can_not_be_trusted_is_refused() {
    let site = Site::with(GCM);
    let run = format!("run seal.toml --output none --input {TRAFFIC}");
    site.warpline(&run).expect(0);
    let text = site.read("nonces");
    let torn: [&[u8]; 3] = [b"", &text[..text.len() / 2], &text.repeat(2)];
    for text in torn {
        site.write("nonces", text);
        let ended = site.warpline(&run).expect(1);
        assert!(ended.stderr.contains("./nonces: it is torn or was changed"), "{}", ended.stderr);
        assert!(site.read("nonces") == text, "it is left for a person to look at");
    }
    site.write("nonces", &text);
    site.chmod("nonces", 0o644);
    let ended = site.warpline(&run).expect(1);
    assert!(ended.stderr.contains("`chmod 600` it"), "{}", ended.stderr);
    site.chmod("nonces", 0o600);
    site.warpline(&run).expect(0);
}

/// A new key is in the file before the first packet that it seals.
#[test]
fn a_new_key_is_reserved_by_a_reload() {
    let site = Site::with(GCM);
    let keys = |site: &Site| site.read("nonces").split(|&byte| byte == b'\n').count() - 3;
    let mut child = site.start(&format!("{SEAL} {ENDLESS}"));
    let lines = crate::reload::lines_of(child.stderr.take().unwrap());
    wait_until_running(site.demo(), &child, 0);
    assert_eq!(keys(&site), 1);
    let both = sa("one", "out", 0x1001, GCM, 0) + &sa("two", "out", 0x1002, GCM, 1);
    site.write_secret("out.sas", &both);
    site.write("policies", policies(&["two", "one"]));
    signal(&child, "HUP");
    assert_eq!(lines.recv_timeout(crate::harness::LIMIT).unwrap(), "reload: [ipsec] in place");
    assert_eq!(keys(&site), 2);
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&child, "INT");
    wait(child).expect(130);
    has_no_key(lines.iter().collect::<Vec<_>>().join("\n").as_bytes());
    let run = numbers(&site);
    let second = run.iter().skip(1).position(|&number| number == 1).unwrap() + 1;
    for part in [&run[..second], &run[second..]] {
        assert!(part.iter().zip(1..).all(|(number, expected)| *number == expected));
    }
    // Both continue where they were.
    site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
    assert_eq!(numbers(&site)[0] as usize, run.len() - second + 1);
}

/// A reload that removes a key frees it, though a client may still ask for the deployment.
#[test]
fn a_removed_key_costs_others_no_numbers() {
    let site = Site::with(GCM);
    let [one, two] = [("one", 0x1001, 0), ("two", 0x1002, 1)]
        .map(|(name, spi, key)| sa(name, "out", spi, GCM, key));
    site.write_secret("out.sas", &(one + &two));
    site.write("policies", policies(&["two", "one"]));
    let mut child = site.start(&format!("{SEAL} {ENDLESS} --socket ctl.sock"));
    let lines = crate::reload::lines_of(child.stderr.take().unwrap());
    wait_until_running(site.demo(), &child, 0);
    site.write_secret("out.sas", &two);
    site.write("policies", policies(&["two"]));
    signal(&child, "HUP");
    assert_eq!(lines.recv_timeout(crate::harness::LIMIT).unwrap(), "reload: [ipsec] in place");
    signal(&child, "INT");
    wait(child).expect(130);
    let sealed = numbers(&site).len() as u32;
    site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
    assert_eq!(numbers(&site)[0], sealed + 1);
}

/// A strict check uses numbers of a copy: the file stays as it is, whether there is one or not.
#[test]
fn a_strict_check_uses_no_number() {
    for suite in [GCM, CTR] {
        let site = Site::with(suite);
        let strict = format!("check seal.toml --strict --input {TRAFFIC}");
        let first = site.warpline(&strict).expect(0);
        assert!(String::from_utf8_lossy(&first.stdout).contains("ipsec          as declared"));
        assert!(!site.path("nonces").exists());
        site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
        let (before, sealed) = (site.read("nonces"), numbers(&site));
        let modified = fs::metadata(site.path("nonces")).unwrap().modified().unwrap();
        // No option names an input.
        let second = site.warpline("check seal.toml --strict").expect(0);
        assert!(String::from_utf8_lossy(&second.stdout).contains("1000 packets and "));
        assert!(site.read("nonces") == before);
        assert_eq!(fs::metadata(site.path("nonces")).unwrap().modified().unwrap(), modified);
        site.warpline(&format!("{SEAL} {TRAFFIC}")).expect(0);
        assert_eq!(numbers(&site)[0], sealed.last().unwrap() + 1, "{suite}");
    }
}
