//! The keys of `[backpressure]` and `[[port]]` about instances that are linked to this one.

use std::net::SocketAddr;
use std::sync::Arc;

use warpline_engine::{DOWNSTREAM_MAX, PeerKey, PeerLink, PeerSide};
use warpline_nf::Section;

/// Their names.
const LISTEN: &str = "listen";
const UPSTREAM: &str = "upstream";
const KEY: &str = "key";

/// Links of a file, as far as it was read.
#[derive(Default)]
pub(crate) struct PeerKeys {
    /// The key of links without their own.
    key: Option<Arc<PeerKey>>,
    /// Addresses that are listened at.
    listens: Vec<SocketAddr>,
    /// Whether no queue pauses a stage.
    is_off: bool,
}

impl PeerKeys {
    /// Reads the keys of `[backpressure]`, of a file with as many chains. Its links are those of
    /// the only chain.
    pub(crate) fn read_shared(
        &mut self,
        section: &mut Section<'_>,
        chains: usize,
        is_off: bool,
    ) -> Vec<PeerLink> {
        self.is_off = is_off;
        self.key = key(section);
        let links = self.read_links(section, ("chain", None));
        for key in [LISTEN, UPSTREAM] {
            if chains > 1 && section.has(key) {
                let text = format!("`{key}` is of one chain: give it to a [[port]] instead");
                section.mistake(key, text);
            }
        }
        links
    }

    /// Reads the keys of a port with this name and number.
    pub(crate) fn read_port(
        &mut self,
        section: &mut Section<'_>,
        (name, number): (&str, usize),
    ) -> Vec<PeerLink> {
        let shared = self.key.clone();
        self.key = key(section).or(shared.clone());
        let links = self.read_links(section, (name, u16::try_from(number).ok()));
        self.key = shared;
        links
    }

    fn read_links(
        &mut self,
        section: &mut Section<'_>,
        (name, port): (&str, Option<u16>),
    ) -> Vec<PeerLink> {
        let sides = [(LISTEN, PeerSide::Downstream), (UPSTREAM, PeerSide::Upstream)];
        let link = |(key, side)| {
            let address = address(section, key)?;
            if self.is_off {
                section.mistake(key, format!("`{key}` requires mode = \"on\""));
            }
            if side == PeerSide::Downstream {
                self.listen(section, address);
            }
            let Some(own) = &self.key else {
                if !section.has(KEY) {
                    section.mistake(key, format!("`{key}` requires `key`: {KEY_HELP}"));
                }
                return None;
            };
            Some(PeerLink { name: name.to_owned(), side, address, key: Arc::clone(own), port })
        };
        sides.into_iter().filter_map(link).collect()
    }

    fn listen(&mut self, section: &mut Section<'_>, address: SocketAddr) {
        let is_same = |other: &&SocketAddr| {
            let is_any = other.ip().is_unspecified() || address.ip().is_unspecified();
            other.port() == address.port() && (is_any || other.ip() == address.ip())
        };
        if let Some(other) = self.listens.iter().find(is_same) {
            let text = format!("`listen`: udp://{other} is used already; give it another port");
            section.mistake(LISTEN, text);
        }
        self.listens.push(address);
        if self.listens.len() == DOWNSTREAM_MAX + 1 {
            let text = format!("`listen`: at most {DOWNSTREAM_MAX} instances may pause a chain");
            section.mistake(LISTEN, text);
        }
    }
}

const KEY_HELP: &str = "a file with a key that both instances have";

fn key(section: &mut Section<'_>) -> Option<Arc<PeerKey>> {
    let bytes = section.secret(KEY, PeerKey::LEN_MIN)?;
    Some(Arc::new(PeerKey::new(&bytes)))
}

/// `udp://ADDRESS:PORT`.
fn address(section: &mut Section<'_>, key: &str) -> Option<SocketAddr> {
    let text = section.string(key)?;
    let parsed = text.strip_prefix("udp://").and_then(|text| text.parse::<SocketAddr>().ok());
    let why = match parsed {
        Some(address) if address.port() == 0 => "port 0 is no port",
        Some(address) if key == UPSTREAM && address.ip().is_unspecified() => "it names no instance",
        Some(address) => return Some(address),
        None => "write an address and a port: udp://192.0.2.1:7410 or udp://[2001:db8::1]:7410",
    };
    section.mistake(key, format!("`{key}`: {text:?}: {why}"));
    None
}
