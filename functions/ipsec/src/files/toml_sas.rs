//! SAs in TOML, one `[[sa]]` table each.

use core::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::entry::{SaEntry, SaFile};
use super::source::{Source, scrubbed};
use super::toml_file::{self, SELECTOR_KEYS, Table, of, table, tables};
use super::values;
use crate::cipher::{Auth, Cipher};
use crate::sa::{
    Direction, DontFragment, Encap, Lifetime, Limits, Mode, Outer, Sa, Secret, Selector,
};
use warpline_nf::{Diagnostics, Section, SourceText};

const KEYS: &[&str] = &[
    "name",
    "direction",
    "spi",
    "reqid",
    "src",
    "dst",
    "mode",
    "cipher",
    "enc_key",
    "auth",
    "auth_key",
    "esn",
    "replay_window",
    "encap",
    "selectors",
    "lifetime",
    "sequence",
    "dscp",
    "ecn",
    "df",
    "hops",
    "mtu",
];

const MODES: [(&str, Mode); 2] = [("tunnel", Mode::Tunnel), ("transport", Mode::Transport)];

const CIPHERS: [(&str, Cipher); 4] = [
    ("aes-cbc", Cipher::Cbc),
    ("aes-ctr", Cipher::Ctr),
    ("aes-gcm", Cipher::Gcm),
    ("null", Cipher::Null),
];

const AUTHS: [(&str, Auth); 3] =
    [("hmac-sha1-96", Auth::Sha1), ("hmac-sha2-256-128", Auth::Sha256), ("none", Auth::None)];

const DIRECTIONS: [(&str, Option<Direction>); 2] =
    [("in", Some(Direction::In)), ("out", Some(Direction::Out))];

const FRAGMENTS: [(&str, DontFragment); 3] =
    [("copy", DontFragment::Copy), ("set", DontFragment::Set), ("clear", DontFragment::Clear)];

/// Characters of a name.
const NAME_LEN_MAX: usize = 64;

/// Reads the file; every mistake is noted.
pub(super) fn read(source: &mut Source, section: &mut Section<'_>) -> SaFile {
    let mut file = SaFile::default();
    toml_file::read(source, section, "sa", |shown, item, mistakes| {
        let mut found = Diagnostics::default();
        let entry = sa(shown, &item, &mut found);
        if found.is_empty() {
            file.entries.extend(entry);
        }
        found.iter().for_each(|mistake| mistakes.push(mistake.clone()));
    });
    file
}

fn sa(shown: &SourceText, item: &Table<'_>, mistakes: &mut Diagnostics) -> Option<SaEntry> {
    let own = item.0;
    let encap = table(shown, own, "encap", mistakes).map(|table| encap(shown, &table, mistakes));
    let lifetime = table(shown, own, "lifetime", mistakes)
        .map_or_else(Lifetime::default, |table| lifetime(shown, &table, mistakes));
    let selectors = selectors(shown, own, mistakes);
    let mut section = of(shown, item, "sa", mistakes);
    section.refuse_all_but(KEYS);
    let name = name(&mut section);
    let direction = section.choice("direction", &DIRECTIONS, None);
    let spi = spi(&mut section, own);
    let (src, dst) = (address(&mut section, "src"), address(&mut section, "dst"));
    if let (Some(src), Some(dst)) = (src, dst)
        && src.is_ipv4() != dst.is_ipv4()
    {
        section.mistake("dst", "`src` and `dst` are of different IP versions");
    }
    section.require("mode", "\"tunnel\" or \"transport\"");
    let mode = section.choice("mode", &MODES, Mode::Tunnel);
    let transform = transform(&mut section);
    let esn = section.boolean("esn", false);
    let last = if esn { u64::MAX - 1 } else { u64::from(u32::MAX) };
    let sequence = section.integer("sequence", 0..=last, 0);
    let reqid = section.integer("reqid", 0..=u64::from(u32::MAX), 0) as u32;
    let (replay_window, outer) = (replay_window(&mut section), outer(&mut section, own));
    let (cipher, enc_key, auth, auth_key) = transform?;
    let entry = SaEntry {
        direction,
        reqid,
        added: String::new(),
        sequences: [sequence; 2],
        otherwise: None,
        at: item.1.clone(),
        sa: Sa {
            name: name?,
            direction: direction.unwrap_or(Direction::In),
            spi: spi?,
            src: src?,
            dst: dst?,
            mode,
            cipher,
            enc_key,
            auth,
            auth_key,
            esn,
            replay_window,
            encap,
            selectors,
            lifetime,
            sequence,
            outer,
        },
    };
    Some(entry)
}

fn name(section: &mut Section<'_>) -> Option<String> {
    section.require("name", "the name in counters and messages");
    let name = section.string("name")?;
    let fits = (1..=NAME_LEN_MAX).contains(&name.chars().count());
    // A name that could be a key by mistake would be shown.
    let fits = fits && scrubbed(name) == name;
    if !fits || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let reported = format!("`name` must be 1 to {NAME_LEN_MAX} characters without blanks");
        section.mistake("name", reported);
        return None;
    }
    Some(name.to_owned())
}

fn spi(section: &mut Section<'_>, own: &DeTable<'_>) -> Option<u32> {
    section.require("spi", "the number that packets carry");
    let spi = match own.get("spi")?.get_ref() {
        DeValue::String(text) => {
            let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
            digits.and_then(|digits| u32::from_str_radix(digits, 16).ok())
        }
        DeValue::Integer(number) => u32::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    let spi = spi.filter(|spi| *spi >= 256);
    if spi.is_none() {
        // RFC 4303, 2.1.
        section.mistake("spi", "`spi` must be a number from 256 to 4294967295, or as \"0x...\"");
    }
    spi
}

fn address(section: &mut Section<'_>, key: &str) -> Option<IpAddr> {
    section.require(key, "the address of an end of the SA");
    let address = section.parsed::<IpAddr>(key)?;
    if address.is_multicast() || address.is_unspecified() {
        section.mistake(key, format!("`{key}` must be the address of one host"));
        return None;
    }
    Some(address)
}

/// Cipher and authentication with their keys.
fn transform(section: &mut Section<'_>) -> Option<(Cipher, Secret, Auth, Secret)> {
    section.require("cipher", "\"aes-cbc\", \"aes-ctr\", \"aes-gcm\" or \"null\"");
    let cipher = section.choice("cipher", &CIPHERS.map(|(name, own)| (name, Some(own))), None);
    let enc_key = secret(section, "enc_key");
    let auth = section.choice("auth", &AUTHS.map(|(name, own)| (name, Some(own))), None);
    let auth_key = secret(section, "auth_key");
    let (cipher, enc_key, auth_key) = (cipher?, enc_key?, auth_key?);
    let auth = if cipher == Cipher::Gcm {
        if auth.is_some_and(|auth| auth != Auth::None) {
            section
                .mistake("auth", "aes-gcm authenticates by itself: `auth` is \"none\" or absent");
        }
        Auth::None
    } else {
        section.require("auth", "\"hmac-sha1-96\", \"hmac-sha2-256-128\" or \"none\"");
        auth?
    };
    if let Err(why) = values::check_cipher_key(cipher, enc_key.0.len()) {
        section.mistake("enc_key", format!("`enc_key`: {why}"));
    }
    if let Err(why) = values::check_auth_key(auth, auth_key.0.len()) {
        section.mistake("auth_key", format!("`auth_key`: {why}"));
    }
    Some((cipher, enc_key, auth, auth_key))
}

/// A key; empty where it is absent.
fn secret(section: &mut Section<'_>, key: &str) -> Option<Secret> {
    if !section.has(key) {
        return Some(Secret::default());
    }
    match values::key(section.string(key)?) {
        Ok(secret) => Some(secret),
        Err(why) => {
            section.mistake(key, format!("`{key}` {why}"));
            None
        }
    }
}

fn replay_window(section: &mut Section<'_>) -> u32 {
    let window = section.integer("replay_window", 0..=4096, 64) as u32;
    if (1..32).contains(&window) {
        section.mistake("replay_window", "`replay_window` must be 0, or 32 to 4096");
    }
    window
}

fn outer(section: &mut Section<'_>, own: &DeTable<'_>) -> Outer {
    let default = Outer::default();
    let dscp = match own.get("dscp").map(|value| value.get_ref()) {
        Some(DeValue::Integer(_)) => Some(section.integer("dscp", 0..=63, 0) as u8),
        _ => {
            if section.has("dscp") {
                section.choice("dscp", &[("copy", ())], ());
            }
            None
        }
    };
    Outer {
        dscp,
        ecn: section.boolean("ecn", default.ecn),
        dont_fragment: section.choice("df", &FRAGMENTS, default.dont_fragment),
        hops: section.integer("hops", 1..=255, u64::from(default.hops)) as u8,
        mtu: section.integer("mtu", 576..=65_535, u64::from(default.mtu)) as u16,
    }
}

fn encap(shown: &SourceText, item: &Table<'_>, mistakes: &mut Diagnostics) -> Encap {
    let mut section = of(shown, item, "encap", mistakes);
    section.refuse_all_but(&["src_port", "dst_port"]);
    let mut port = |key| section.integer(key, 1..=65_535, 4500) as u16;
    Encap { src_port: port("src_port"), dst_port: port("dst_port") }
}

fn lifetime(shown: &SourceText, item: &Table<'_>, mistakes: &mut Diagnostics) -> Lifetime {
    of(shown, item, "lifetime", mistakes).refuse_all_but(&["soft", "hard"]);
    let mut limits = |key| {
        let Some(item) = table(shown, item.0, key, mistakes) else { return Limits::default() };
        let mut section = of(shown, &item, key, mistakes);
        section.refuse_all_but(&["bytes", "packets", "seconds"]);
        let mut limit =
            |key| section.has(key).then(|| section.integer(key, 1..=u64::MAX, u64::MAX));
        Limits { bytes: limit("bytes"), packets: limit("packets"), seconds: limit("seconds") }
    };
    Lifetime { soft: limits("soft"), hard: limits("hard") }
}

fn selectors(shown: &SourceText, own: &DeTable<'_>, mistakes: &mut Diagnostics) -> Vec<Selector> {
    let mut selectors = Vec::new();
    for item in tables(shown, own, "selectors", mistakes) {
        let mut section = of(shown, &item, "selectors", mistakes);
        section.refuse_all_but(&SELECTOR_KEYS);
        selectors.extend(toml_file::selector(&mut section, item.0));
    }
    selectors
}
