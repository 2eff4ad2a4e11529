//! Files of IPsec SAs and policies, read without a disk, and checks of the result. Also two
//! gateways with an SA of every kind between them.

use toml::de::DeTable;
use warpline_ipsec::sa::{Action, Database, Direction, Mode};
use warpline_ipsec::{DEFINITION, files};
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, Resources, Section, SourceText};
use warpline_verify::Harness;

use crate::functions::try_build;
use crate::reported::check_reported;

/// Reads files with these texts as a chain does, and checks them.
pub fn read(sas: &str, policies: &str, keys: &str) {
    let files = [("sas", sas), ("policies", policies)];
    let table = format!("sas = \"sas\"\npolicies = \"policies\"\n{keys}");
    let source = SourceText::new("chain.toml", table);
    let parsed = DeTable::parse(&source.text).expect("TOML");
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let (mut mistakes, mut resources) = (Diagnostics::default(), Resources::default());
    let folder = Folder::Bundled(&files);
    let mut section = Section::new(vec![layer], "ipsec", folder, &mut mistakes);
    let database = files::read(&mut section, &mut resources);
    assert_eq!(database.is_none(), !mistakes.is_empty(), "nothing is refused without a word");
    for (reported, own) in mistakes.iter().map(|own| (own.to_string(), own)) {
        let text = match &*own.file {
            "sas" => sas,
            "policies" => policies,
            _ => &source.text,
        };
        assert!(!reported.is_empty() && own.line <= text.split('\n').count());
    }
    let texts = format!("{sas}\n{policies}");
    check_reported(mistakes.iter().chain(resources.notices().iter()), &texts);
    check_reported(resources.remarks().iter(), &texts);
    let reported = format!("{mistakes}\n{}\n{database:?}", resources.notices());
    for key in keys_of(sas) {
        assert!(!reported.contains(key), "a key is shown: {reported}");
    }
    if let Some(database) = database {
        check(&database);
    }
}

/// Words that are keys by any reading: `0x` and 32 hexadecimal digits or more.
fn keys_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| {
        let digits = word.strip_prefix("0x").unwrap_or_default();
        digits.len() >= 32 && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn check(database: &Database) {
    for sa in &database.sas {
        assert!(sa.spi >= 256 && !sa.name.is_empty());
        assert_eq!(sa.src.is_ipv4(), sa.dst.is_ipv4());
        assert!(sa.esn || sa.sequence <= u64::from(u32::MAX));
        assert!(matches!(sa.replay_window, 0 | 32..=4096));
        assert!(sa.direction == Direction::In || sa.replay_window == 0);
        for own in &sa.selectors {
            assert_eq!(own.src.address().is_ipv4(), own.dst.address().is_ipv4());
            let of_v4 = own.src.address().is_ipv4();
            assert!(sa.mode == Mode::Tunnel || of_v4 == sa.src.is_ipv4());
        }
    }
    for policy in &database.policies {
        if let Action::Protect(at) = policy.action {
            assert_eq!(database.sas[at].direction, Direction::Out);
        }
    }
}

const V4: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
const V6: [&str; 2] = ["2001:db8:f::1", "2001:db8:f::2"];
const HOSTS_V4: [&str; 2] = ["10.0.0.1", "192.0.2.9"];
const HOSTS_V6: [&str; 2] = ["2001:db8:1::1", "2001:db8:2::2"];

/// SAs: name, ends, mode, suite, more lines.
const SAS: &[(&str, [&str; 2], &str, Suite, &str)] = &[
    ("cbc", V4, "tunnel", ("aes-cbc", 16, "hmac-sha1-96", 20), "esn = true"),
    ("gcm", V6, "tunnel", ("aes-gcm", 36, "none", 0), ""),
    ("ctr", V4, "tunnel", ("aes-ctr", 28, "hmac-sha2-256-128", 32), "encap = {}\nmtu = 576"),
    ("null", V4, "tunnel", ("null", 0, "hmac-sha1-96", 20), "df = \"clear\"\nmtu = 600"),
    ("hosts-v4", HOSTS_V4, "transport", ("aes-cbc", 32, "hmac-sha2-256-128", 32), ""),
    ("hosts-v6", HOSTS_V6, "transport", ("aes-gcm", 20, "none", 0), "esn = true"),
];

/// A cipher, the length of its key, an authentication, the length of its key.
type Suite = (&'static str, usize, &'static str, usize);

/// Which packets each of them gets: the first that matches.
const POLICIES: &[(&str, &str, &str)] = &[
    ("0.0.0.0/0", "tcp", "cbc"),
    ("0.0.0.0/0", "icmp", "ctr"),
    ("10.0.0.1/32", "udp", "hosts-v4"),
    ("0.0.0.0/0", "any", "gcm"),
    ("2001:db8:1::1/128", "udp", "hosts-v6"),
    ("::/0", "tcp", "cbc"),
    ("::/0", "any", "null"),
];

/// A gateway that seals, and the one that opens what it sealed. Both do their ciphers in software,
/// which is what takes bytes apart in Rust.
pub fn gateways() -> [Harness; 2] {
    let sas = |direction: &str| -> String { SAS.iter().map(|sa| sa_text(sa, direction)).collect() };
    let policy = |(src, protocol, sa): &(&str, &str, &str)| {
        // A transport SA has one destination.
        let dst = match *sa {
            "hosts-v4" => format!("dst = \"{}/32\"\n", HOSTS_V4[1]),
            "hosts-v6" => format!("dst = \"{}/128\"\n", HOSTS_V6[1]),
            _ => String::new(),
        };
        format!(
            "[[policy]]\nsrc = \"{src}\"\n{dst}protocol = \"{protocol}\"\naction = \"protect\"\n\
             sa = \"{sa}\"\n"
        )
    };
    let policies: String = POLICIES.iter().map(policy).collect();
    // Numbers of counter modes must be on disk before they are used.
    let nonces = std::env::temp_dir().join(format!("warpline-fuzz-{}-nonces", std::process::id()));
    let _ = std::fs::remove_file(&nonces);
    let common = "sas = \"sas\"\ncrypto = \"software\"\nicmp = \"on\"\nicmp_src_v4 = \
                  \"198.51.100.1\"\n\
                  icmp_src_v6 = \"2001:db8:f::1\"\nicmp_rate_pps = 1000000\n";
    let here = format!("{common}policies = \"policies\"\nnonce_state = {nonces:?}\n");
    let there = format!("{common}default = \"bypass\"\nreassembly = 64\n");
    [(here, sas("out")), (there, sas("in"))].map(|(table, sas)| {
        let files = [("sas", &*sas), ("policies", &*policies)];
        let built = try_build(&DEFINITION, &table, &files).expect("TOML");
        let (function, words) = built.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        function.report(&warpline_nf::Outputs::default()).expect("a file of numbers");
        Harness::new(function, words)
    })
}

fn sa_text(sa: &(&str, [&str; 2], &str, Suite, &str), direction: &str) -> String {
    let (name, [src, dst], mode, (cipher, enc_len, auth, auth_len), more) = sa;
    let key = |what: &str, len: usize| {
        // Two SAs that go out don't share one.
        let byte = |at: usize| format!("{:02x}", (at * 29 + name.len() * 7 + mode.len()) as u8);
        let digits: String = (0..len).map(byte).collect();
        if len == 0 { String::new() } else { format!("{what} = \"0x{digits}\"\n") }
    };
    let (enc_key, auth_key) = (key("enc_key", *enc_len), key("auth_key", *auth_len));
    let spi = 0x1000 + SAS.iter().position(|own| own.0 == *name).unwrap_or_default();
    format!(
        "[[sa]]\nname = \"{name}\"\ndirection = \"{direction}\"\nspi = {spi}\nsrc = \"{src}\"\n\
         dst = \"{dst}\"\n\
         mode = \"{mode}\"\ncipher = \"{cipher}\"\nauth = \"{auth}\"\n{enc_key}{auth_key}{more}\n"
    )
}
