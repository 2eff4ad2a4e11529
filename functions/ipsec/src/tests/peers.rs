//! Packets for other programs: every transform in every form, at lengths around the blocks of
//! ciphers.

use std::process::Command;

use warpline_packet::LinkType;

use super::gateway::{Ends, SUITES, SaText, on_link, reason, udp};
use warpline_verify::{Harness, Input};

/// The inner ports. Port 7 is Echo (RFC 862), which carries any bytes: programs don't try other
/// protocols on them.
pub(super) const PORTS: [u16; 2] = [5000, 7];

/// The first number is one more.
pub(super) const SEQUENCE: u32 = 100;

/// An SA, and the addresses inside.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) sa: SaText,
    pub(super) inner: [&'static str; 2],
    pub(super) encap: bool,
    /// The upper half of extended sequence numbers.
    pub(super) high: Option<u32>,
}

impl Shown {
    /// Its packets.
    pub(super) fn packets(&self) -> Vec<Vec<u8>> {
        let [src, dst] = self.inner;
        let few = [0, 5, 6, 333, 1400];
        let lens: Vec<usize> =
            if self.encap { few.into() } else { (0..=20).chain([333, 1400]).collect() };
        lens.into_iter().map(|len| udp(src, dst, PORTS, len)).collect()
    }

    /// Its packets, as the sender's end seals them.
    pub(super) fn sealed(&self) -> Vec<Vec<u8>> {
        through(&mut self.ends().here, &self.packets())
    }

    /// The receiver's output for these packets.
    pub(super) fn opened(&self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        through(&mut self.ends().there, packets)
    }

    /// By what is installed and by the software, in turn: every suite meets both.
    fn ends(&self) -> Ends {
        let crypto = if self.sa.spi.is_multiple_of(2) { "crypto = 'software'" } else { "" };
        Ends::with(&self.sa, crypto, crypto)
    }
}

/// Packets that were forwarded, or the name of why not.
fn through(harness: &mut Harness, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let inputs: Vec<Input> = packets.iter().map(|packet| on_link(LinkType::RAW, packet)).collect();
    let bytes = |outcome| match reason(outcome) {
        "forward" => outcome.bytes.clone(),
        why => why.as_bytes().to_vec(),
    };
    harness.process(&inputs).iter().map(bytes).collect()
}

/// Every suite in both modes, both IP versions outside and inside, bare and in UDP; each with an
/// SPI of its own.
pub(super) fn every_sa() -> Vec<Shown> {
    let forms: Vec<Shown> = [false, true].into_iter().flat_map(forms).collect();
    let all = SUITES.iter().flat_map(|suite| forms.iter().map(|form| (*suite, form.clone())));
    let with = |((suite, form), spi): ((_, Shown), _)| {
        let sa = SaText { suite, spi, ..form.sa };
        Shown { sa, ..form }
    };
    all.zip(0x1001..).map(with).collect()
}

fn forms(encap: bool) -> Vec<Shown> {
    const V4: [&str; 2] = ["192.0.2.1", "198.51.100.1"];
    const V6: [&str; 2] = ["2001:db8:1::1", "2001:db8:2::1"];
    const INNER_V4: [&str; 2] = ["10.1.0.1", "10.2.0.1"];
    const INNER_V6: [&str; 2] = ["fd00:1::1", "fd00:2::1"];
    let forms = [
        ("tunnel", V4, INNER_V4),
        ("tunnel", V4, INNER_V6),
        ("tunnel", V6, INNER_V4),
        ("tunnel", V6, INNER_V6),
        ("transport", V4, V4),
        ("transport", V6, V6),
    ];
    let in_udp = if encap { "encap = { src_port = 4500, dst_port = 4500 }\n" } else { "" };
    let form = |(mode, peers, inner)| {
        let more = format!("{in_udp}sequence = {SEQUENCE}");
        let sa = SaText { mode, peers, more, ..SaText::new(SUITES[0]) };
        Shown { sa, inner, encap, high: None }
    };
    forms.map(form).into()
}

/// Whether a program is installed, tested by a command; panics if it is required.
pub(super) fn is_there(name: &str, command: &mut Command) -> bool {
    let is = command.output().is_ok_and(|output| output.status.success());
    let required = std::env::var("WARPLINE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(is || !required, "{name} is required and not installed");
    if !is {
        eprintln!("skipped: {name} is not installed");
    }
    is
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
