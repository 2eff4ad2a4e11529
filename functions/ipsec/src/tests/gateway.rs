//! Gateways with their files, and packets that they carry.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_packet::wire::checksum;
use warpline_packet::{LinkType, Verdict};

use super::super::DEFINITION;
use warpline_nf::{Diagnostics, Function, Outputs};
use warpline_verify::{Harness, Input, Outcome, build, build_pair, try_build};

/// A cipher and an authentication, as files call them, with the lengths of their keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suite {
    pub(super) cipher: &'static str,
    pub(super) enc_len: usize,
    pub(super) auth: &'static str,
    pub(super) auth_len: usize,
}

const fn suite(cipher: &'static str, enc_len: usize, auth: &'static str, auth_len: usize) -> Suite {
    Suite { cipher, enc_len, auth, auth_len }
}

const SHA1: &str = "hmac-sha1-96";
const SHA256: &str = "hmac-sha2-256-128";

/// Every pair that may be in a file.
pub(super) const SUITES: &[Suite] = &[
    suite("aes-cbc", 16, SHA1, 20),
    suite("aes-cbc", 16, SHA256, 32),
    suite("aes-cbc", 24, SHA1, 20),
    suite("aes-cbc", 24, SHA256, 32),
    suite("aes-cbc", 32, SHA1, 20),
    suite("aes-cbc", 32, SHA256, 32),
    suite("aes-ctr", 20, SHA1, 20),
    suite("aes-ctr", 20, SHA256, 32),
    suite("aes-ctr", 28, SHA1, 20),
    suite("aes-ctr", 28, SHA256, 32),
    suite("aes-ctr", 36, SHA1, 20),
    suite("aes-ctr", 36, SHA256, 32),
    suite("aes-gcm", 20, "none", 0),
    suite("aes-gcm", 28, "none", 0),
    suite("aes-gcm", 36, "none", 0),
    suite("null", 0, SHA1, 20),
    suite("null", 0, SHA256, 32),
];

pub(super) const CBC: Suite = suite("aes-cbc", 16, SHA1, 20);
pub(super) const CBC_192: Suite = suite("aes-cbc", 24, SHA256, 32);
pub(super) const CTR: Suite = suite("aes-ctr", 20, SHA1, 20);
pub(super) const CTR_256: Suite = suite("aes-ctr", 36, SHA256, 32);
pub(super) const GCM: Suite = suite("aes-gcm", 20, "none", 0);
pub(super) const GCM_256: Suite = suite("aes-gcm", 36, "none", 0);
pub(super) const NULL: Suite = suite("null", 0, SHA1, 20);
pub(super) const NULL_SHA256: Suite = suite("null", 0, SHA256, 32);

/// A folder for a gateway's files, removed when it goes out of scope.
pub(super) struct Files(pub(super) PathBuf);

impl Files {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpline-ipsec-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(super) fn table(&self, keys: &str) -> String {
        let policies = self.0.join("policies.toml").exists();
        let policies = if policies { "policies = 'policies.toml'\n" } else { "" };
        format!("sas = 'sas.toml'\nnonce_state = 'nonces'\n{policies}{keys}\n")
    }

    /// The function, ready for a run.
    pub(super) fn function(&self, keys: &str) -> (Box<dyn Function>, usize) {
        let (function, words) = build(&DEFINITION, &self.table(keys), &self.0);
        (function, words)
    }

    pub(super) fn gateway(&self, keys: &str) -> Harness {
        let (function, words) = self.function(keys);
        function.report(&Outputs::default()).expect("files that open");
        Harness::new(function, words)
    }

    /// Both places of a gateway, each by itself.
    pub(super) fn places(&self, keys: &str) -> [Harness; 2] {
        let (places, words) = build_pair(&DEFINITION, &self.table(keys), &self.0);
        places.map(|place| {
            place.report(&Outputs::default()).expect("files that open");
            Harness::new(place, words)
        })
    }

    pub(super) fn mistakes(&self, table: &str) -> Diagnostics {
        match try_build(&DEFINITION, table, &self.0) {
            Ok(_) => panic!("{table:?} was taken"),
            Err(mistakes) => mistakes,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An SA of a file.
#[derive(Clone, Debug)]
pub(super) struct SaText {
    pub(super) name: String,
    pub(super) spi: u32,
    pub(super) peers: [&'static str; 2],
    pub(super) mode: &'static str,
    pub(super) suite: Suite,
    /// More lines.
    pub(super) more: String,
}

impl SaText {
    pub(super) fn new(suite: Suite) -> Self {
        Self {
            name: "one".into(),
            spi: 0x1001,
            peers: ["192.0.2.1", "198.51.100.1"],
            mode: "tunnel",
            suite,
            more: String::new(),
        }
    }

    /// Its keys as they are in the file: of the cipher and of the authentication.
    pub(super) fn keys(&self) -> [String; 2] {
        let key = |len: usize, seed: u8| -> String {
            let byte = |i: usize| format!("{:02x}", (i as u8).wrapping_mul(29) ^ seed);
            format!("0x{}", (0..len).map(byte).collect::<String>())
        };
        [key(self.suite.enc_len, self.spi as u8), key(self.suite.auth_len, 0x5a)]
    }

    pub(super) fn text(&self, direction: &str) -> String {
        let Self { name, spi, peers: [src, dst], mode, suite, more } = self;
        let [enc_key, auth_key] = self.keys();
        let mut text = format!(
            "[[sa]]\nname = '{name}'\ndirection = '{direction}'\nspi = {spi}\nsrc = '{src}'\n\
             dst = '{dst}'\n\
             mode = '{mode}'\ncipher = '{}'\nauth = '{}'\n",
            suite.cipher, suite.auth
        );
        if suite.enc_len > 0 {
            text += &format!("enc_key = '{enc_key}'\n");
        }
        if suite.auth_len > 0 {
            text += &format!("auth_key = '{auth_key}'\n");
        }
        text + more + "\n"
    }
}

/// Everything of both IP versions by SA "one".
pub(super) const ALL: &str = "[[policy]]\nsrc = '0.0.0.0/0'\ndst = '0.0.0.0/0'\n\
    action = 'protect'\nsa = 'one'\n\
     [[policy]]\nsrc = '::/0'\ndst = '::/0'\naction = 'protect'\nsa = 'one'\n";

/// The two ends of one SA.
pub(super) struct Ends {
    pub(super) here: Harness,
    pub(super) there: Harness,
    _files: [Files; 2],
}

impl Ends {
    pub(super) fn new(sa: &SaText) -> Self {
        Self::with(sa, "", "")
    }

    /// The second place of the one and the first of the other.
    pub(super) fn at_two_places(sa: &SaText) -> Self {
        let files = Self::files(sa);
        let ([_, here], [there, _]) = (files[0].places(""), files[1].places(""));
        Self { here, there, _files: files }
    }

    /// With more lines in the chain's tables.
    pub(super) fn with(sa: &SaText, here: &str, there: &str) -> Self {
        let files = Self::files(sa);
        let (here, there) = (files[0].gateway(here), files[1].gateway(there));
        Self { here, there, _files: files }
    }

    fn files(sa: &SaText) -> [Files; 2] {
        let files = [Files::new(), Files::new()];
        files[0].write("sas.toml", &sa.text("out"));
        let own =
            |text: &&str| sa.mode == "tunnel" || text.contains(':') == sa.peers[0].contains(':');
        let policies: String = ALL.split_inclusive("sa = 'one'\n").filter(own).collect();
        files[0].write("policies.toml", &policies);
        files[1].write("sas.toml", &sa.text("in"));
        files
    }
}

pub(super) fn reason(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        Verdict::Dropped => DEFINITION.drops[usize::from(outcome.reason)],
        Verdict::Forward => "forward",
        Verdict::Absorbed => "absorbed",
        Verdict::Malformed => "lies",
        Verdict::Return => "returned",
        Verdict::Overload => "overload",
        Verdict::Bypass => "bypass",
    }
}

/// One packet through `harness`.
pub(super) fn send(harness: &mut Harness, input: &Input) -> Outcome {
    harness.process(std::slice::from_ref(input)).remove(0)
}

/// The output, as input.
pub(super) fn again(outcome: &Outcome, link: LinkType) -> Input {
    assert_eq!(reason(outcome), "forward");
    Input { link, ..Input::at(0, &outcome.bytes) }
}

const MAC: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// Links that packets of both versions can have.
pub(super) const LINKS: [LinkType; 6] = [
    LinkType::ETHERNET,
    LinkType::RAW,
    LinkType::LINUX_SLL,
    LinkType::LINUX_SLL2,
    LinkType::NULL,
    LinkType::LOOP,
];

/// `packet` after a link header; with a VLAN tag on Ethernet if its length is odd.
pub(super) fn on_link(link: LinkType, packet: &[u8]) -> Input {
    let is_v4 = packet[0] >> 4 == 4;
    let kind: [u8; 2] = if is_v4 { [8, 0] } else { [0x86, 0xdd] };
    let header = match link {
        LinkType::ETHERNET if packet.len() % 2 == 1 => [&MAC[..], &[0x81, 0, 0, 7], &kind].concat(),
        LinkType::ETHERNET => [&MAC[..], &kind].concat(),
        LinkType::LINUX_SLL => [&[0, 4, 0, 1, 0, 6][..], &MAC[..8], &kind].concat(),
        LinkType::LINUX_SLL2 => [&kind[..], &[0; 18]].concat(),
        // The families of macOS, on a machine of either order, and of OpenBSD.
        LinkType::NULL if packet.len() % 2 == 1 => vec![0, 0, 0, if is_v4 { 2 } else { 30 }],
        LinkType::NULL => vec![if is_v4 { 2 } else { 30 }, 0, 0, 0],
        LinkType::LOOP => vec![0, 0, 0, if is_v4 { 2 } else { 24 }],
        _ => Vec::new(),
    };
    Input { link, ..Input::at(0, &[&header[..], packet].concat()) }
}

/// A UDP datagram with the sum that its addresses ask for.
pub(crate) fn udp(src: &str, dst: &str, ports: [u16; 2], len: usize) -> Vec<u8> {
    let mut body: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    body.extend(((len + 8) as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend((0..len).map(|i| (i * 7 + len) as u8));
    ip(src, dst, 17, &body, Some(6))
}

/// An IP packet; the checksum of its body is put at `sum_at`.
pub(super) fn ip(
    src: &str,
    dst: &str,
    protocol: u8,
    body: &[u8],
    sum_at: Option<usize>,
) -> Vec<u8> {
    let mut body = body.to_vec();
    let len = body.len() as u16;
    let mut header = match (src.parse().unwrap(), dst.parse().unwrap()) {
        (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
            if let Some(at) = sum_at {
                let pseudo = checksum::pseudo_v4(src, dst, protocol, len);
                let sum = !checksum::fold(pseudo + checksum::sum(&body));
                body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let mut header = vec![0x45, 0x28];
            header.extend((len + 20).to_be_bytes());
            header.extend([0x12, 0x34, 0, 0, 61, protocol, 0, 0]);
            header.extend(src.octets().into_iter().chain(dst.octets()));
            let sum = checksum::checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
            if let Some(at) = sum_at {
                let pseudo = checksum::pseudo_v6(src, dst, protocol, len.into());
                let sum = !checksum::fold(pseudo + checksum::sum(&body));
                body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let mut header = vec![0x62, 0x81, 0x23, 0x45];
            header.extend(len.to_be_bytes());
            header.extend([protocol, 61]);
            header.extend(src.octets().into_iter().chain(dst.octets()));
            header
        }
        _ => panic!("addresses of one family"),
    };
    header.extend(body);
    header
}
