//! Kernel texts name fields by their accessors. None contains a field's offset in a header, or a
//! kernel's parameters.

use std::fs;
use std::path::{Path, PathBuf};

/// Prefixes of old constants for fields, by the header in which the field lies.
const HEADERS: [&str; 7] = ["LINK_", "V4_", "V6_", "TCP_", "UDP_", "ICMP_", "ESP_"];

/// The words of a text: what names may be made of.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Why `text` is not to be, if so.
fn mistake(text: &str) -> Option<String> {
    let is_number = |word: &&str| HEADERS.iter().any(|head| word.starts_with(head));
    let is_head = |word: &&str| *word == "KERNEL" || word.starts_with("HEAD_OF_");
    let mut found = words(text).filter(|word| is_number(word) || is_head(word));
    found.next().map(|word| format!("{word}: fields have accessors, heads are PACKET_KERNEL(name)"))
}

/// All texts below `folder`, and the descriptions that give them numbers.
fn texts(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        let is_text = path.extension().is_some_and(|kind| kind == "cl" || kind == "h");
        let is_description = path.ends_with("kernels.rs") && !path.ends_with("src/kernels.rs");
        if path.is_dir() {
            texts(&path, all);
        } else if is_text || is_description {
            all.push(path);
        }
    }
}

#[test]
fn texts_name_fields_and_not_their_places() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["functions", "crates/rewrite/src", "crates/nf/kernels", "crates/launch/kernels"]
    {
        texts(&workspace.join(folder), &mut all);
    }
    assert!(all.len() > 24, "{all:?}");
    for path in all {
        // The definition of the macro for all heads.
        let text = fs::read_to_string(&path).expect("a text");
        let text = text.replace("#define PACKET_KERNEL(name) HEAD_OF_##name", "");
        assert_eq!(mistake(&text), None, "{}", path.display());
    }
}

#[test]
fn mistakes_are_seen() {
    for text in ["header[V4_TTL]", "x(UDP_UDP_LEN)", "KERNEL(route, 128)(", "(\"V6_TTL\", 7)"] {
        assert!(mistake(text).is_some(), "{text}");
    }
    assert_eq!(mistake("set_ttl_v4(f, IP_PROTOCOL_TCP) PACKET_KERNEL(route) LINKTYPE_NULL"), None);
}
