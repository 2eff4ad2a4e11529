//! An IPsec gateway from its owner's view: sealed packets are opened, bad files are reported, and
//! no key is ever shown.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Child, Demo, Ended, wait};
use crate::stats;
use crate::stats::whole;

/// Keys that look like nothing else: 32 bytes each, of which ciphers take as many as they need.
const SEEDS: [u8; 4] = [0x3b, 0xc5, 0x71, 0x9e];

fn key(seed: u8) -> String {
    (0..32).map(|at: u8| format!("{:02x}", at.wrapping_mul(83).wrapping_add(seed) ^ 0x5a)).collect()
}

/// A folder with the files of a gateway and of the one that it talks to.
pub(crate) struct Site(Demo);

/// The suite and key lengths of an SA.
pub(crate) const CBC: &str = "aes-cbc 16 hmac-sha2-256-128 32";
pub(crate) const CTR: &str = "aes-ctr 20 hmac-sha1-96 20";
pub(crate) const GCM: &str = "aes-gcm 36 none 0";

/// An SA of a file. Its keys are its own: of `place` among [`SEEDS`].
pub(crate) fn sa(name: &str, direction: &str, spi: u32, suite: &str, place: usize) -> String {
    let [cipher, enc_len, auth, auth_len] = suite.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{suite}")
    };
    let (enc_len, auth_len): (usize, usize) = (enc_len.parse().unwrap(), auth_len.parse().unwrap());
    let mut text = format!(
        "[[sa]]\nname = \"{name}\"\ndirection = \"{direction}\"\nspi = {spi}\nsrc = \"192.0.2.1\"\n\
         dst = \"198.51.100.1\"\nmode = \"tunnel\"\ncipher = \"{cipher}\"\nauth = \"{auth}\"\n"
    );
    let long = key(SEEDS[place]) + &key(SEEDS[place].wrapping_add(1));
    text += &format!("enc_key = \"0x{}\"\n", &long[..2 * enc_len]);
    if auth_len > 0 {
        text += &format!("auth_key = \"0x{}\"\n", &long[2 * enc_len..][..2 * auth_len]);
    }
    text
}

/// Everything by one SA of these, the first that there is.
pub(crate) fn policies(sas: &[&str]) -> String {
    let of = |all: &str| {
        format!(
            "[[policy]]\nsrc = \"{all}\"\ndst = \"{all}\"\naction = \"protect\"\nsa = {sas:?}\n"
        )
    };
    of("0.0.0.0/0") + &of("::/0")
}

impl Site {
    /// Chains `seal.toml` and `open.toml`, that take `out.sas` with `policies` and `in.sas`.
    pub(crate) fn new() -> Self {
        let site = Self(Demo::new());
        let chain = "[chain]\nfunctions = [\"ipsec\"]\n[ipsec]\n";
        site.write(
            "seal.toml",
            format!(
                "{chain}sas = \"out.sas\"\npolicies = \"policies\"\nnonce_state = \"nonces\"\n"
            ),
        );
        site.write("open.toml", format!("{chain}sas = \"in.sas\"\n"));
        site
    }

    /// With one SA in both files.
    pub(crate) fn with(suite: &str) -> Self {
        let site = Self::new();
        site.write_secret("out.sas", &sa("one", "out", 0x1001, suite, 0));
        site.write_secret("in.sas", &sa("one", "in", 0x1001, suite, 0));
        site.write("policies", policies(&["one"]));
        site
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.0.write(name, text);
    }

    pub(crate) fn write_secret(&self, name: &str, text: &str) {
        self.write(name, text);
        self.chmod(name, 0o600);
    }

    pub(crate) fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        self.0.read(name)
    }

    pub(crate) fn demo(&self) -> &Demo {
        &self.0
    }

    /// Runs the program. Its output has no key in it.
    #[track_caller]
    pub(crate) fn warpline(&self, arguments: &str) -> Ended {
        silent(self.0.warpline(arguments))
    }

    pub(crate) fn start(&self, arguments: &str) -> Child {
        self.0.start(arguments)
    }

    /// Statistics, which have no key in them.
    #[track_caller]
    pub(crate) fn stats(&self, name: &str) -> Value {
        has_no_key(&self.read(name));
        stats::read(&self.0, name)
    }

    /// The function of the only chain in the statistics.
    #[track_caller]
    pub(crate) fn function(&self, name: &str) -> Value {
        self.stats(name)["chains"][0]["functions"][0].clone()
    }
}

/// Fails where the run showed a key.
#[track_caller]
pub(crate) fn silent(ended: Ended) -> Ended {
    has_no_key(&ended.stdout);
    has_no_key(ended.stderr.as_bytes());
    ended
}

/// Fails where `bytes` have eight bytes of a key or more, as they are or in digits.
#[track_caller]
pub(crate) fn has_no_key(bytes: &[u8]) {
    let text: String = bytes.iter().map(|&byte| char::from(byte.to_ascii_lowercase())).collect();
    for digits in SEEDS.iter().flat_map(|&seed| [key(seed), key(seed.wrapping_add(1))]) {
        for at in (0..=digits.len() - 16).step_by(2) {
            let part = &digits[at..at + 16];
            assert!(!text.contains(part), "a key is shown: {part}");
            let raw = u64::from_str_radix(part, 16).unwrap().to_be_bytes();
            assert!(!bytes.windows(8).any(|window| window == raw), "a key is there: {part}");
        }
    }
}

pub(crate) const TRAFFIC: &str = "generate:packets=3000,size=imix,flows=50,ip=mix,protocol=mix";

#[test]
fn sealed_packets_are_opened() {
    let site = Site::with(CBC);
    site.write("none.toml", "[chain]\nfunctions = []\n");
    site.warpline(&format!("run none.toml --input {TRAFFIC} --output plain.pcap")).expect(0);
    let mut sealed = Vec::new();
    for options in ["", "--set ipsec.crypto=software", "--lanes 3 --set chain.batch_packets=7"] {
        let seal = "run seal.toml --input plain.pcap --output sealed.pcap --stats s.json";
        site.warpline(&format!("{seal} {options}")).expect(0);
        let open = "run open.toml --input sealed.pcap --output opened.pcap --stats o.json";
        site.warpline(&format!("{open} {options}")).expect(0);
        assert!(site.read("opened.pcap") == site.read("plain.pcap"), "{options}");
        sealed.push(site.read("sealed.pcap"));
        let rows = ["s.json", "o.json"].map(|name| site.function(name)["tables"]["sas"].clone());
        for (rows, direction) in rows.iter().zip(["out", "in"]) {
            assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
            let row = &rows[0];
            assert_eq!((&row["sa"], &row["direction"]), (&"one".into(), &direction.into()));
            assert_eq!([&row["packets"], &row["sequence"]].map(whole), [3000; 2], "{row}");
            assert!(whole(&row["bytes"]) > 28 * 3000, "{row}");
            let refused = ["bad_icv", "replay", "lifetime", "other"].map(|what| whole(&row[what]));
            assert_eq!(refused, [0; 4], "{row}");
        }
    }
    // A run begins with number 1 again, and what CBC makes of it is the same on any engine and
    // lanes.
    assert!(sealed[0] == sealed[1] && sealed[0] == sealed[2]);
    has_no_key(&sealed[0]);
}

#[test]
fn a_file_of_keys_that_others_may_read_is_refused() {
    let site = Site::with(CBC);
    for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o666] {
        site.chmod("out.sas", mode);
        for command in ["check seal.toml", "run seal.toml --input generate:packets=1"] {
            let ended = site.warpline(command).expect(2);
            assert!(ended.stderr.contains("seal.toml:4:7: other users may read or change"));
            assert!(ended.stderr.contains("`chmod 600` it"), "{}", ended.stderr);
        }
    }
    site.chmod("out.sas", 0o400);
    site.warpline("run seal.toml --input generate:packets=1").expect(0);
}

#[test]
fn all_mistakes_in_files_of_keys_are_reported_and_no_key() {
    let site = Site::with(CBC);
    let good = sa("one", "out", 0x1001, CBC, 0);
    let again = sa("one", "out", 0x1002, GCM, 2);
    let broken = [
        good.replace("192.0.2.1", "192.0.2.256").replace("tunnel", "tunel"),
        again.replace("enc_key = \"0x", "enc_key = \"0xg"),
        sa("two", "up", 255, CTR, 1).replace("\"\nauth_key", "00\"\nauth_key"),
        sa("three", "out", 0x1003, CBC, 3).replace("enc_key", "key").replace("0x", ""),
    ]
    .concat();
    site.write_secret("out.sas", &broken);
    site.write(
        "policies",
        policies(&["one"]) + "[[policy]]\naction = \"protekt\"\nsa = \"four\"\n",
    );
    let checked = site.warpline("check seal.toml").expect(2);
    let run = site.warpline("run seal.toml --input generate:packets=1").expect(2);
    assert_eq!(checked.stderr, run.stderr);
    for place in [
        "seal.toml: 10 mistakes",
        "out.sas:5:7: `src`: \"192.0.2.256\"",
        "out.sas:7:8: `mode` must be \"tunnel\" or \"transport\"",
        "out.sas:21:11: `enc_key` must be 0x and an even number of hexadecimal digits",
        "out.sas:24:13: `direction` must be \"in\" or \"out\"",
        "out.sas:25:7: `spi` must be a number from 256",
        "out.sas:31:11: `enc_key`: aes-ctr requires a key of 16, 24 or 32 bytes and 4 of nonce",
        "out.sas:42:1: [sa] has no key `key`",
        "out.sas:43:12: `auth_key` must be 0x and",
        "policies:11:1: [policy] needs `src`: a prefix",
        "policies:12:10: `action` must be \"protect\", \"bypass\" or",
    ] {
        assert!(run.stderr.contains(place), "{place}: {}", run.stderr);
    }
    // A line that is not TOML is quoted without any text that may be a key.
    for (from, to) in
        [("enc_key = ", "enc_key "), ("enc_key = \"", "enc_key = "), ("\"\nauth_key", "\nauth_key")]
    {
        site.write_secret("out.sas", &good.replace(from, to));
        let ended = site.warpline("check seal.toml").expect(2);
        assert!(ended.stderr.contains("out.sas:10:"), "{from}: {}", ended.stderr);
    }
}

#[test]
fn counter_modes_need_a_file_of_numbers() {
    for suite in [GCM, CTR] {
        let site = Site::with(suite);
        let chain = site.read("seal.toml");
        let chain = String::from_utf8(chain).unwrap().replace("nonce_state = \"nonces\"\n", "");
        site.write("bare.toml", chain);
        for command in ["check bare.toml", "run bare.toml --input generate:packets=1"] {
            let ended = site.warpline(command).expect(2);
            let messages = "bare.toml:4:7: SA \"one\": AES-CTR and AES-GCM with keys from a file \
                need `nonce_state`";
            assert!(ended.stderr.contains(messages), "{}", ended.stderr);
        }
        // Inbound packets carry their own counters, and need no file.
        site.warpline("check open.toml").expect(0);
    }
}

/// Places a library that can't be loaded before one that may be installed.
fn without_library(site: &Site, arguments: &str) -> Ended {
    fs::create_dir_all(site.path("lib")).unwrap();
    site.write("lib/libIPSec_MB.so.1", "this is not a library");
    let path = site.path("lib").into_os_string();
    silent(wait(site.0.start_with(arguments, &[("LD_LIBRARY_PATH", &path)])))
}

#[test]
fn the_cipher_library_is_used_where_it_is() {
    let site = Site::with(CBC);
    let run = "run seal.toml -v --output none --stats s.json --input generate:packets=100";
    let engine = |site: &Site| site.function("s.json")["tables"]["crypto"][0].clone();
    let ended = without_library(&site, &format!("{run} --set ipsec.crypto=ipsec-mb")).expect(2);
    assert!(
        ended.stderr.contains("--set:1:12: there is no intel-ipsec-mb here: "),
        "{}",
        ended.stderr
    );
    without_library(&site, run).expect(0);
    assert_eq!(engine(&site)["engine"], "software");
    assert!(engine(&site)["why_not_ipsec_mb"].as_str().unwrap().len() > 1);
    let installed = |folder: &&str| Path::new(folder).join("libIPSec_MB.so.1").exists();
    let folders = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/lib64"];
    if !folders.iter().any(installed) {
        eprintln!("skipped: intel-ipsec-mb is not installed");
        return;
    }
    for choice in ["ipsec-mb", "auto"] {
        site.warpline(&format!("{run} --set ipsec.crypto={choice}")).expect(0);
        assert_eq!(engine(&site)["engine"], "intel-ipsec-mb");
    }
}

/// The summary has the busiest, the statistics have all.
#[test]
fn ten_thousand_sas_are_summarised() {
    const SAS: u32 = 10_000;
    let site = Site::new();
    let (mut sas, mut rules) = (String::new(), String::new());
    for n in 0..SAS {
        sas += &sa(&format!("sa-{n:05}"), "out", 0x1000 + n, CBC, n as usize % SEEDS.len());
        let [high, low] = (n as u16).to_be_bytes();
        rules += &format!(
            "[[policy]]\nsrc = \"10.{high}.{low}.0/24\"\naction = \"protect\"\nsa = \"sa-{n:05}\"\n"
        );
    }
    site.write_secret("out.sas", &sas);
    site.write("policies", rules + &policies(&["sa-00077"]));
    let run = "run seal.toml -v --output none --stats s.json --input \
               generate:packets=100000,flows=100000,size=64";
    let ended = site.warpline(run).expect(0);
    let stats = site.function("s.json");
    let rows = stats["tables"]["sas"].as_array().unwrap();
    assert!(rows.len() > 100, "{}", rows.len());
    let packets: u64 = rows.iter().map(|row| whole(&row["packets"])).sum();
    assert_eq!(packets, 100_000);
    let messages: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(" sa-")).collect();
    assert_eq!(messages.len(), 20, "{}", ended.stderr);
    assert!(messages.iter().any(|line| line.contains("sa-00077")), "the busiest is listed");
    assert!(ended.stderr.contains(" more\n"), "{}", ended.stderr);
    assert!(ended.stderr.lines().count() < 50, "{}", ended.stderr);
}

/// A tunnel too narrow for IPv6 gets a remark, and the memory of a lane is printed for every chain.
#[test]
fn check_says_what_does_not_fit_and_what_is_taken() {
    let site = Site::with(CBC);
    for (mtu, is_narrow) in [(1280, true), (1400, false)] {
        site.write_secret(
            "out.sas",
            &(sa("one", "out", 0x1001, CBC, 0) + &format!("mtu = {mtu}\n")),
        );
        let messages =
            String::from_utf8(site.warpline("check seal.toml").expect(0).stdout).unwrap();
        let remark = format!("SA \"one\": `mtu` {mtu} is too small for IPv6");
        assert_eq!(messages.contains(&remark), is_narrow, "{messages}");
        assert!(messages.contains("MiB a lane: 48 for packets, "), "{messages}");
    }
    let json = site.warpline("check seal.toml --json").expect(0).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["chains"][0]["memory"]["packets"], 48 << 20);
}
