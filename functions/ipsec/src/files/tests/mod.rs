//! Valid files, and invalid files with their messages.

use std::path::Path;

use toml::de::DeTable;

use super::*;
use warpline_nf::config::{Folder, Layer};
use warpline_nf::{Diagnostics, SourceText};

mod ip_policy;
mod ip_state;
mod toml_lists;
mod toml_tables;

/// A database, mistakes and notices.
struct ReadFiles {
    database: Option<Database>,
    mistakes: Vec<String>,
    notices: Vec<String>,
    /// All messages, as they are shown.
    shown: String,
}

fn read_in(folder: Folder<'_>, table: &str) -> ReadFiles {
    let source = SourceText::new("chain.toml", table);
    let parsed = DeTable::parse(&source.text).unwrap();
    let layer = Layer { source: &source, table: parsed.get_ref(), span: parsed.span() };
    let (mut mistakes, mut resources) = (Diagnostics::default(), Resources::default());
    let mut section = Section::new(vec![layer], "ipsec", folder, &mut mistakes);
    section.refuse_unknown(&KEYS);
    let database = read(&mut section, &mut resources);
    assert_eq!(database.is_none(), !mistakes.is_empty());
    let lines = |all: &Diagnostics| {
        all.iter().map(|d| format!("{}:{}:{} {}", d.file, d.line, d.column, d.message)).collect()
    };
    let shown = format!("{mistakes}\n{}\n{database:?}", resources.notices());
    ReadFiles { database, mistakes: lines(&mistakes), notices: lines(resources.notices()), shown }
}

/// Reads files with these texts; `more` are keys of the table.
fn read_texts(sas: &str, policies: Option<&str>, more: &str) -> ReadFiles {
    let files = [("sas", sas), ("policies", policies.unwrap_or_default())];
    let named = if policies.is_some() { "policies = \"policies\"\n" } else { "" };
    let found = read_in(Folder::Bundled(&files), &format!("sas = \"sas\"\n{named}{more}"));
    for key in KEY_PARTS {
        assert!(!found.shown.contains(key), "{key} is shown:\n{}", found.shown);
    }
    found
}

/// Parts of all keys in these tests.
const KEY_PARTS: [&str; 3] = ["5ec2e7", "5EC2E7", "94, 194, 231"];

fn good(found: ReadFiles) -> Database {
    assert_eq!(found.mistakes, Vec::<String>::new(), "{}", found.shown);
    found.database.unwrap()
}

/// `0x` and a key of `len` bytes, whose second is `second`.
fn hex(len: usize, second: u8) -> String {
    let bytes = (0..len).map(|at| match at {
        0 => 0x5e,
        1 => 0xc2,
        2 => 0xe7,
        3 => second,
        _ => at as u8,
    });
    bytes.fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[test]
fn key_files_are_for_their_owner_alone() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = std::env::temp_dir().join(format!("warpline-sa-files-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("sas"), toml_tables::one_sa("")).unwrap();
    fs::write(folder.join("policies"), "").unwrap();
    let table = "sas = \"sas\"\npolicies = \"policies\"\n";
    for (mode, reads) in
        [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
    {
        fs::set_permissions(folder.join("sas"), Permissions::from_mode(mode)).unwrap();
        let found = read_in(Folder::Disk(&folder), table);
        let path = folder.join("sas");
        let reported = format!(
            "chain.toml:1:7 other users may read or change {path:?}, which has keys: `chmod 600` it"
        );
        let reported = if reads { Vec::new() } else { vec![reported] };
        assert_eq!(found.mistakes, reported, "{mode:o}");
    }
    fs::remove_dir_all(&folder).unwrap();
    let found = read_in(Folder::Disk(Path::new("/nonexistent")), table);
    assert_eq!(
        found.mistakes,
        [
            "chain.toml:1:7 can't read \"sas\": no such file or directory",
            "chain.toml:2:12 can't read \"policies\": no such file or directory",
        ]
    );
}

#[test]
fn the_table_itself() {
    let found = read_in(Folder::Bundled(&[]), "local = [\"x\"]\nunsupported = 1\n");
    assert_eq!(
        found.mistakes,
        [
            "chain.toml:1:1 [ipsec] needs `sas`: the file of security associations",
            "chain.toml:1:10 `local`: \"x\": not an IPv4 or IPv6 address",
            "chain.toml:2:15 `unsupported` must be \"error\" or \"skip\", found 1",
        ]
    );
}

#[test]
fn a_file_of_many_mistakes_ends_soon() {
    let rows = "[[sa]]\nspi = 1\n".repeat(20_000);
    assert!(read_texts(&rows, None, "").mistakes.len() <= warpline_nf::LISTED_MAX + 1);
    let rows = "src 192.0.2.1 dst 192.0.2.2\n\tproto ah spi 0x00000001 reqid 0 mode tunnel\n";
    assert!(
        read_texts(&rows.repeat(20_000), None, "").mistakes.len() <= warpline_nf::LISTED_MAX + 1
    );
}
