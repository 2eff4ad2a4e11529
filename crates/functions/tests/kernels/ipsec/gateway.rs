//! Gateways with SAs of every kind, and packets for each of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_ipsec::DEFINITION;
use warpline_nf::{Function, Outputs};
use warpline_verify::{build, build_pair};

/// A cipher and an authentication, as files call them, with the lengths of their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suite(&'static str, usize, &'static str, usize);

const SHA1: &str = "hmac-sha1-96";
const SHA256: &str = "hmac-sha2-256-128";

/// Every pair there is.
pub(crate) fn suites() -> Vec<Suite> {
    let mut suites = Vec::new();
    for (auth, auth_len) in [(SHA1, 20), (SHA256, 32), ("none", 0)] {
        suites.push(Suite("null", 0, auth, auth_len));
        for key_len in [16, 24, 32] {
            suites.push(Suite("aes-cbc", key_len, auth, auth_len));
            suites.push(Suite("aes-ctr", key_len + 4, auth, auth_len));
        }
    }
    suites.extend([16, 24, 32].map(|key_len| Suite("aes-gcm", key_len + 4, "none", 0)));
    suites
}

/// The suite in which a text can be written by hand: nothing is hidden, nothing is authenticated.
pub(crate) const OPEN: Suite = Suite("null", 0, "none", 0);

/// How an SA's packets look from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) is_tunnel: bool,
    /// Of the outer header.
    pub(crate) version: u8,
    pub(crate) in_udp: bool,
}

pub(crate) fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for is_tunnel in [true, false] {
        for version in [4, 6] {
            forms.extend([false, true].map(|in_udp| Form { is_tunnel, version, in_udp }));
        }
    }
    forms
}

/// An SA, by its number, which is in its SPI and in the addresses that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Sa {
    pub(crate) number: u16,
    pub(crate) suite: Suite,
    pub(crate) form: Form,
    pub(crate) esn: bool,
    /// More lines.
    pub(crate) more: &'static str,
}

/// Where tunnels end.
pub(crate) const THERE_V4: [u8; 4] = [203, 0, 113, 1];
pub(crate) const THERE_V6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

impl Sa {
    /// Every suite in every form, with and without extended numbers.
    pub(crate) fn all() -> Vec<Self> {
        let mut sas = Vec::new();
        for suite in suites() {
            for form in forms() {
                sas.extend([false, true].map(|esn| Self { number: 0, suite, form, esn, more: "" }));
            }
        }
        (0..).zip(&mut sas).for_each(|(number, sa)| sa.number = number);
        sas
    }

    /// Where packets go that are for it.
    pub(crate) fn dst_v4(&self) -> [u8; 4] {
        let [high, low] = self.number.to_be_bytes();
        [10, 2, high, low]
    }

    pub(crate) fn dst_v6(&self) -> [u8; 16] {
        let [high, low] = self.number.to_be_bytes();
        [0xfd, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]
    }

    /// IP versions of the packets that it carries.
    pub(crate) fn carries(&self) -> &'static [u8] {
        match (self.form.is_tunnel, self.form.version) {
            (true, _) => &[4, 6],
            (false, 4) => &[4],
            (false, _) => &[6],
        }
    }

    pub(crate) fn spi(&self) -> u32 {
        0x1_0000 + u32::from(self.number)
    }

    /// Where its sealed packets go.
    fn peer(&self) -> String {
        match (self.form.is_tunnel, self.form.version) {
            (true, 4) => std::net::Ipv4Addr::from(THERE_V4).to_string(),
            (true, _) => std::net::Ipv6Addr::from(THERE_V6).to_string(),
            (false, 4) => std::net::Ipv4Addr::from(self.dst_v4()).to_string(),
            (false, _) => std::net::Ipv6Addr::from(self.dst_v6()).to_string(),
        }
    }

    fn text(&self, direction: &str) -> String {
        let Self { number, suite: Suite(cipher, enc_len, auth, auth_len), form, esn, more } = self;
        let mode = if form.is_tunnel { "tunnel" } else { "transport" };
        let src = if form.version == 4 { "192.0.2.1" } else { "2001:db8::1" };
        let mut text = format!(
            "[[sa]]\nname = 'sa-{number}'\ndirection = '{direction}'\nspi = {}\nsrc = '{src}'\n\
             dst = '{}'\n\
             mode = '{mode}'\ncipher = '{cipher}'\nauth = '{auth}'\nesn = {esn}\n{more}\n",
            self.spi(),
            self.peer(),
        );
        // The lower half overflows on the way.
        let sequence = if *esn { 0xffff_fff8_u64 } else { 0x0102_0304 };
        text += &format!("sequence = {sequence}\n");
        for (name, len) in [("enc_key", *enc_len), ("auth_key", *auth_len)] {
            let byte = |i: usize| (i as u8).wrapping_mul(29) ^ (number % 251) as u8;
            let key = |i: usize| if i < 2 { number.to_be_bytes()[i] } else { byte(i) };
            let digits: String = (0..len).map(|i| format!("{:02x}", key(i))).collect();
            text += &if len > 0 { format!("{name} = '0x{digits}'\n") } else { String::new() };
        }
        text += if form.in_udp { "encap = { src_port = 4500, dst_port = 4500 }\n" } else { "" };
        text
    }

    fn policies(&self) -> String {
        let policy = |version: &u8| {
            let dst = match version {
                4 => format!("{}/32", std::net::Ipv4Addr::from(self.dst_v4())),
                _ => format!("{}/128", std::net::Ipv6Addr::from(self.dst_v6())),
            };
            format!("[[policy]]\ndst = '{dst}'\naction = 'protect'\nsa = 'sa-{}'\n", self.number)
        };
        self.carries().iter().map(policy).collect()
    }
}

fn table(nonces: &str) -> String {
    format!(
        "sas = 'sas.toml'\npolicies = 'policies.toml'\nnonce_state = '{nonces}'\n\
         insecure = true\ndefault = 'bypass'\nreassembly = 0\n"
    )
}

/// A folder for a gateway's files, removed when it goes out of scope.
pub(crate) struct Files(PathBuf);

impl Files {
    /// Those of a gateway that seals by `sas` (`out`) or opens by them (`in`).
    pub(crate) fn new(sas: &[Sa], direction: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpline-kernels-{}-{number}", std::process::id());
        let files = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&files.0).expect("a folder");
        files.write("sas.toml", sas.iter().map(|sa| sa.text(direction)).collect());
        let policies = sas.iter().filter(|_| direction == "out").map(Sa::policies).collect();
        files.write("policies.toml", policies);
        files
    }

    fn write(&self, name: &str, text: String) {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    }

    /// The function, ready for a run, with a file of used numbers of its own; and its scratch
    /// words.
    pub(crate) fn function(&self, nonces: &str) -> (Box<dyn Function>, usize) {
        let built = build(&DEFINITION, &table(nonces), &self.0);
        built.0.report(&Outputs::default()).expect("files that open");
        built
    }

    /// The same at one of two places: 0 opens, 1 seals.
    pub(crate) fn place(&self, nonces: &str, place: usize) -> (Box<dyn Function>, usize) {
        let (places, words) = build_pair(&DEFINITION, &table(nonces), &self.0);
        let function = places.into_iter().nth(place).expect("a place");
        function.report(&Outputs::default()).expect("files that open");
        (function, words)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
