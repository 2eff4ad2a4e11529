//! What kernel texts don't say: where a field lies in a header, and what a kernel takes. Both are made, of the table of fields and of the
//! descriptions of kernels.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// What numbers of fields began with, by the header in which the field lies.
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
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    texts(&crate_folder.join("src"), &mut all);
    texts(&crate_folder.join("kernels"), &mut all);
    assert!(all.len() > 12, "{all:?}");
    for path in all {
        // What the macro of all heads is.
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

#[test]
fn heads_are_what_the_description_says() {
    const STEPS: &[KernelStep] =
        &[KernelStep { name: "look", group: 32, shared_big: 0, items_per_packet: 1 }];
    let table = |name, element| KernelTable { name, element, bytes: vec![0] };
    let kernels = Kernels {
        name: "look.cl",
        text: "",
        headers: &[BYTES],
        defines: Vec::new(),
        all_steps: STEPS,
        steps: STEPS.to_vec(),
        tables: vec![table("leaves", Element::U16), table("rows", Element::U8)],
        findings: ScratchWord::new(2),
        reaches_host: false,
        declared: ReadWrite::NONE,
    };
    let headers = kernels.headers(&Binding::MIRROR);
    let names: Vec<&str> = headers.iter().map(|one| one.name).collect();
    assert_eq!(names, ["packet.h", "fields.h", "heads.h", "bytes.h"]);
    assert_eq!(
        headers[2].text,
        "#define HEAD_OF_look KERNEL(look, 32)(GLOBAL u8 *arena, GLOBAL u8 *packets, const GLOBAL u16 *leaves, \
         const GLOBAL u8 *rows, GLOBAL u32 *findings, u32 findings_room, u32 packet_rows, u32 count, u32 place)\n"
    );
}

#[test]
fn heads_of_what_copies_rooms_have_both_arenas() {
    let headers = room_copies().headers(&Binding::MIRROR);
    let head = "#define HEAD_OF_pull_rooms KERNEL(pull_rooms, 128)(GLOBAL u8 *arena, GLOBAL u8 *host, GLOBAL u8 *packets, \
                u32 packet_rows, u32 count, u32 place, u32 without)";
    assert_eq!(headers[2].text.lines().next(), Some(head));
}
