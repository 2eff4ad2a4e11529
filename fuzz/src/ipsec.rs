//! Files of IPsec SAs and policies, read without a disk, and what must hold of what was read.

use toml::de::DeTable;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::ipsec::files;
use warpline_nf::ipsec::sa::{Action, Database, Direction, Mode};
use warpline_nf::{Diagnostics, Resources, Section, SourceText};

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
    for (told, own) in mistakes.iter().map(|own| (own.to_string(), own)) {
        let text = match &*own.file {
            "sas" => sas,
            "policies" => policies,
            _ => &source.text,
        };
        assert!(!told.is_empty() && own.line <= text.split('\n').count());
    }
    let told = format!("{mistakes}\n{}\n{database:?}", resources.notices());
    for key in keys_of(sas) {
        assert!(!told.contains(key), "a key is shown: {told}");
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
