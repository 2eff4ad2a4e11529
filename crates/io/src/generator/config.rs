//! Settings of generated traffic, as `KEY=VALUE,KEY=VALUE`.

use super::arrivals::Process;
use super::flow::{FLOWS_MAX, HeaderKind, Share};
use super::payload::{Content, PATTERN_MAX};
use super::rates::Rates;
use super::settings::{ParseProblem, Settings, decimal, whole};
use super::sizes::{SIZE_MAX, Sizes};

/// Settings of a [`Generator`](super::Generator); its manual explains them.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorConfig {
    pub(super) packets: u64,
    pub(super) seconds: f64,
    pub(super) sizes: Sizes,
    pub(super) flows: u64,
    pub(super) zipf: Option<f64>,
    pub(super) rates: Option<Rates>,
    pub(super) process: Process,
    pub(super) seed: u64,
    pub(super) content: Content,
    pub(super) drop_when_full: bool,
    pub(super) ring: u64,
    pub(super) ip: Share,
    pub(super) protocol: Share,
}

impl GeneratorConfig {
    /// Reads settings, with or without `generate:` before them; an empty text is all defaults.
    ///
    /// # Errors
    /// Every mistake there is, in the order of their columns, which count the bytes of `text`
    /// from 1.
    pub fn parse(text: &str) -> Result<Self, Vec<ParseProblem>> {
        let mut settings = Settings::read(text, "generate:", &KEYS);
        let config = Self::take(&mut settings);
        settings.finish().map(|()| config)
    }

    /// The configuration, with the default where a value is absent or refused.
    fn take(settings: &mut Settings<'_>) -> Self {
        let packets =
            settings.take("packets", "a whole number", |value| whole(value, 0..=u64::MAX));
        let seconds = settings.take("seconds", "0 to 1e9", |value| decimal(value, 0.0..=1e9));
        let flows = settings.take("flows", "1 to 16777216", |value| whole(value, 1..=FLOWS_MAX));
        let zipf = settings.take("zipf", "0 to 10", |value| decimal(value, 0.0..=10.0));
        let allowed = "0.000001 to 10000, up to 64 RATE@SECONDS joined by `|`";
        let rates = settings.take("rate_gbps", allowed, Rates::parse);
        let process = settings.take("arrivals", "constant, poisson, onoff", process);
        let seed = settings.take("seed", "a whole number", |value| whole(value, 0..=u64::MAX));
        let drop_when_full = settings.take("on_full", "wait, drop", |value| match value {
            "wait" => Some(false),
            "drop" => Some(true),
            _ => None,
        });
        let ring = settings.take("ring", "0 to 1048576", |value| whole(value, 0..=RING_MAX));
        let ip = settings.take("ip", "4, 6, mix", |value| share(value, ["4", "6"]));
        let protocol =
            settings.take("protocol", "udp, tcp, mix", |value| share(value, ["udp", "tcp"]));
        let ip = ip.unwrap_or(Share::First);
        let protocol = protocol.unwrap_or(Share::First);
        let (sizes, content) = take_bytes(settings, ip, protocol);
        Self {
            // Without either limit there is a packet count; with one, the other is none.
            packets: packets.unwrap_or(if seconds.is_some() { u64::MAX } else { PACKETS }),
            seconds: seconds.unwrap_or(f64::INFINITY),
            sizes,
            flows: flows.unwrap_or(1000),
            zipf,
            rates,
            process: process.unwrap_or(Process::Constant),
            seed: seed.unwrap_or(1),
            content,
            drop_when_full: drop_when_full.unwrap_or(false),
            ring: ring.unwrap_or(RING),
            ip,
            protocol,
        }
    }

    /// The number of flows.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Whether it keeps to rates, in real time.
    pub fn has_rates(&self) -> bool {
        self.rates.is_some()
    }

    /// Frames that wait for room before others are lost, if frames wait and are lost at all.
    pub(super) fn ring(&self) -> Option<u64> {
        let is_ring = self.drop_when_full && self.rates.is_some();
        Some(self.ring).filter(|ring| is_ring && *ring > 0)
    }

    /// The longest frame in bytes.
    pub fn frame_len_max(&self) -> usize {
        self.sizes.longest() as usize
    }
}

/// Takes `size` and `payload`, whose limits follow from the headers and from each other.
fn take_bytes(settings: &mut Settings<'_>, ip: Share, protocol: Share) -> (Sizes, Content) {
    let headers =
        HeaderKind { six: ip.has_second(), tcp: protocol.has_second() }.headers_len() as u32;
    let allowed = format!(
        "{headers} (the headers) to {SIZE_MAX} bytes, up to 64 of those joined by `|`, imix"
    );
    let sizes = settings.take("size", &allowed, |value| Sizes::parse(value, headers));
    let sizes = sizes.unwrap_or_else(|| Sizes::imix(headers));
    let allowed = format!(
        "random, text, planted:PATTERN, planted:PATTERN@SHARE (1 to {PATTERN_MAX} bytes, \
         %XX for any byte, SHARE from 0 to 1)"
    );
    let content = settings.take("payload", &allowed, Content::parse).unwrap_or(Content::Random);
    let room = (sizes.longest() - headers) as usize;
    if matches!(&content, Content::Planted { pattern, .. } if pattern.len() > room) {
        settings
            .refuse("payload", &format!("a pattern that fits the longest payload, {room} bytes"));
    }
    (sizes, content)
}

fn process(value: &str) -> Option<Process> {
    match value {
        "constant" => Some(Process::Constant),
        "poisson" => Some(Process::Poisson),
        "onoff" => Some(Process::OnOff),
        _ => None,
    }
}

fn share(value: &str, [first, second]: [&str; 2]) -> Option<Share> {
    match value {
        "mix" => Some(Share::Mix),
        _ if value == first => Some(Share::First),
        _ if value == second => Some(Share::Second),
        _ => None,
    }
}

const PACKETS: u64 = 1_000_000;

/// Frames of a port's ring.
const RING: u64 = 4096;
const RING_MAX: u64 = 1 << 20;

const KEYS: [&str; 13] = [
    "packets",
    "seconds",
    "size",
    "flows",
    "zipf",
    "rate_gbps",
    "arrivals",
    "seed",
    "payload",
    "on_full",
    "ring",
    "ip",
    "protocol",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_good_settings() {
        let default = GeneratorConfig::parse("").unwrap();
        assert_eq!(default, GeneratorConfig::parse("generate:").unwrap());
        assert_eq!((default.packets, default.flows, default.seed), (1_000_000, 1000, 1));
        assert_eq!(default.frame_len_max(), 1514);
        let all = "generate:packets=10,size=64|512|1500,flows=1_000_000,zipf=1.1,rate_gbps=40,\
                   arrivals=poisson,seed=7,payload=planted:x@0.5,on_full=drop,ip=mix,\
                   protocol=mix,seconds=2.5";
        // The shortest frame is too short for IPv6 and TCP.
        let problems = GeneratorConfig::parse(all).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].allowed.starts_with("74 (the headers) to 65549"), "{}", problems[0]);
        let config = GeneratorConfig::parse(&all.replace("64|", "74|")).unwrap();
        assert_eq!((config.packets, config.seconds, config.flows), (10, 2.5, 1_000_000));
        assert_eq!((config.rates, config.zipf), (Some(Rates::steady(40.0)), Some(1.1)));
        assert_eq!((config.process, config.drop_when_full), (Process::Poisson, true));
        assert_eq!((config.ip, config.protocol, config.seed), (Share::Mix, Share::Mix, 7));
        assert_eq!(GeneratorConfig::parse("seconds=1").unwrap().packets, u64::MAX);
    }

    #[test]
    fn shortest_frames() {
        for (headers, shortest) in [
            ("ip=4,protocol=udp", 42),
            ("ip=4,protocol=tcp", 54),
            ("ip=6,protocol=udp", 62),
            ("ip=6,protocol=tcp", 74),
            ("ip=mix", 62),
            ("protocol=mix", 54),
        ] {
            let parse = |size| GeneratorConfig::parse(&format!("size={size},{headers}"));
            assert!(parse(shortest).is_ok(), "{headers}");
            assert!(parse(shortest - 1).is_err(), "{headers}");
        }
        assert_eq!(GeneratorConfig::parse("size=65549").unwrap().frame_len_max(), 65_549);
        assert!(GeneratorConfig::parse("size=65550").is_err());
    }

    #[test]
    fn all_mistakes_are_listed_with_their_columns() {
        let text = "generate:packets=-1,size=10,flows=0,colour=red,zipf=nan,rate_gbps=0,seed,\
                    arrivals=never,payload=planted:,on_full=maybe,ip=5,protocol=sctp,ip=4,\
                    seconds=x";
        let problems = GeneratorConfig::parse(text).unwrap_err();
        let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "packets",
                "size",
                "flows",
                "colour",
                "zipf",
                "rate_gbps",
                "seed",
                "arrivals",
                "payload",
                "on_full",
                "ip",
                "protocol",
                "ip",
                "seconds"
            ]
        );
        for problem in &problems {
            let there = &text[problem.column - 1..];
            let value = problem.what.split('"').nth(1).unwrap_or(&problem.key);
            assert!(there.starts_with(value), "{problem}");
        }
    }

    #[test]
    fn a_pattern_must_fit() {
        assert!(GeneratorConfig::parse("size=50,payload=planted:12345678").is_ok());
        let problems = GeneratorConfig::parse("size=50,payload=planted:123456789").unwrap_err();
        assert!(problems[0].allowed.contains("8 bytes"), "{}", problems[0]);
    }
}
