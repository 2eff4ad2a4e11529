//! Values, files and mistakes of tables.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::*;

fn with(text: &str, test: impl FnOnce(&mut Section<'_>)) -> Vec<String> {
    let source = SourceText::new("chain.toml", text);
    let table = DeTable::parse(&source.text).unwrap();
    let mut mistakes = Diagnostics::default();
    let layer = Layer { source: &source, table: table.get_ref(), span: table.span() };
    let folder = Folder::Disk(Path::new("."));
    test(&mut Section::new(vec![layer], "nat", folder, &mut mistakes));
    mistakes.sort();
    mistakes.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.message)).collect()
}

#[test]
fn outputs_lie_beside_the_chain_file() {
    let reported = with("a = \"out.csv\"\nb = \"\"\n", |section| {
        assert_eq!(section.output("a"), Some(PathBuf::from("./out.csv")));
        assert_eq!(section.output("b"), None);
        assert_eq!(section.output("c"), None);
        section.folder = Folder::Bundled(&[]);
        assert_eq!(section.output("a"), Some(PathBuf::from("out.csv")));
    });
    assert_eq!(reported, ["2:5 `b` is empty: it must be the name of a file"]);
}

#[test]
fn packed_files_are_read_as_plain_ones() {
    let folder = std::env::temp_dir().join(format!("warpline-packed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a"), zstd::encode_all(&b"\xef\xbb\xbfone\n"[..], 1).unwrap())
        .unwrap();
    std::fs::write(folder.join("b"), b"\x1f\x8bno").unwrap();
    let names = ["a", "b"].map(|name| folder.join(name).display().to_string());
    let reported = with(&format!("a = {:?}\nb = {:?}\n", names[0], names), |section| {
        assert_eq!(&*section.file("a").unwrap().text, "one\n");
        assert_eq!(section.files_bytes("b").len(), 1);
    });
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(
        matches!(&reported[..], [one] if one.contains("b\": can't be unpacked: ")),
        "{reported:?}"
    );
}

#[test]
fn every_mistake_is_found_and_placed() {
    let text = "a = 70000\nb = \"no\"\nc = [\"10.0.0.0\", \"10.0.0.1/8\", 3]\nd = 1\nx = 1\n";
    let reported = with(text, |section| {
        assert_eq!(section.integer("a", 1..=65535, 7), 7);
        assert!(section.boolean("b", true));
        assert_eq!(section.parsed_list::<Ipv4Addr>("c").len(), 1);
        assert_eq!(section.choice("d", &[("one", 1), ("two", 2), ("three", 3)], 2), 2);
        assert!(section.file("missing").is_none());
        section.require("rules", "it has nothing to do");
        let key = |name| Key { name, allowed: "", default: "", help: "" };
        section.refuse_unknown(&["a", "b", "c", "d"].map(key));
    });
    assert_eq!(
        reported,
        [
            "1:1 [nat] needs `rules`: it has nothing to do",
            "1:5 `a` must be a whole number from 1 to 65535, found 70000",
            "2:5 `b` must be true or false, found a string",
            "3:18 `c`: \"10.0.0.1/8\": invalid IPv4 address syntax",
            "3:32 `c` must be a list of strings, found a number",
            "4:5 `d` must be \"one\", \"two\" or \"three\", found 1",
            "5:1 [nat] has no key `x`",
        ]
    );
}

#[test]
fn mistakes_in_entries_of_tables_are_placed() {
    let reported = with("[t]\na = \"x\"\nb = \"y\"\n", |section| {
        for name in ["b", "c"] {
            let mistake = section.mistake_in("t", name, "wrong");
            section.note(mistake);
        }
    });
    assert_eq!(reported, ["3:5 wrong", "0:0 wrong"]);
}

#[test]
fn a_fingerprint_tells_values_and_files_apart() {
    let rules: &[(&str, &str)] = &[("rules", "one"), ("other", "two"), ("same", "one")];
    let of = |text: &str| {
        let source = SourceText::new("chain.toml", text);
        let table = DeTable::parse(&source.text).unwrap();
        let mut mistakes = Diagnostics::default();
        let layer = Layer { source: &source, table: table.get_ref(), span: table.span() };
        let layers = vec![layer];
        let mut section = Section::new(layers, "firewall", Folder::Bundled(rules), &mut mistakes);
        let _ = section.file("rules");
        section.fingerprint()
    };
    let base = of("rules = \"rules\"\nlist = [\"1\", 2]\n[t]\na = 1\nb = 2\n");
    let moved = "# a comment\nlist = [ \"1\",2 ]\nrules = 'rules'\n[t]\nb = 2\na = 1\n";
    assert_eq!(of(moved), base);
    let elsewhere = "rules = \"rules\"\nlist = [\"1\", 2]\ndevice = \"host\"\n[t]\na = 1\nb = 2\n";
    assert_eq!(of(elsewhere), base, "common keys do not count");
    for other in [
        "rules = \"other\"\nlist = [\"1\", 2]\n[t]\na = 1\nb = 2\n",
        "rules = \"rules\"\nlist = [\"1\", \"2\"]\n[t]\na = 1\nb = 2\n",
        "rules = \"rules\"\nlist = [\"1\", 2]\n[t]\na = 2\nb = 1\n",
        "rules = \"rules\"\nlist = [[\"1\", 2]]\n[t]\na = 1\nb = 2\n",
        "rules = \"rules\"\nlist = [\"1\", 2]\n",
    ] {
        assert_ne!(of(other), base, "{other}");
    }
}
