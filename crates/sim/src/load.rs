//! Traffic from a line of text: `constant:gbps=10,size=512`.

use crate::traffic::{Arrivals, Size, Traffic};

/// The forms, for messages.
const FORMS: &str = "constant:RATE, poisson:RATE, onoff:RATE,on_us=N,off_us=N or \
    steps:gbps=N@SECONDS/N@SECONDS; RATE is pps=, kpps=, mpps=, mbps= or gbps=; also \
    size=BYTES or size=imix, on_full=wait or drop, ring=PACKETS, and batch=PACKETS of a run";

/// A load of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The packets.
    pub traffic: Traffic,
    /// Whether the source waits for room.
    pub waits: bool,
    /// Packets that wait before one that does not, as in the ring of a port.
    pub ring: u64,
    /// The mean packets of a batch, if a run had them: its reader rested so long. Readers whose
    /// timers the profile has rest by themselves.
    pub batch: Option<f64>,
}

/// Bits a second, or packets.
#[derive(Clone, Copy)]
enum Rate {
    Packets(f64),
    Bits(f64),
}

const UNITS: [(&str, f64, bool); 5] = [
    ("pps", 1.0, false),
    ("kpps", 1e3, false),
    ("mpps", 1e6, false),
    ("mbps", 1e6, true),
    ("gbps", 1e9, true),
];

/// Before the colon.
const KINDS: [&str; 4] = ["constant", "poisson", "onoff", "steps"];

impl Load {
    /// Packets of a ring, unless stated, as in the generator of runs.
    pub const RING: u64 = 4096;

    /// Whether a text begins as one does.
    pub fn is_load(text: &str) -> bool {
        text.split_once(':').is_some_and(|(kind, _)| KINDS.contains(&kind))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The first mistake, with the forms that are possible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, keys) = text.split_once(':').ok_or_else(|| format!("no such load; {FORMS}"))?;
        let mut given = Given::default();
        let mut known: Vec<&str> = Vec::new();
        for pair in keys.split(',') {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("{pair:?} is not KEY=VALUE; {FORMS}"))?;
            let key = key.trim();
            // All units are the same key.
            let name = if UNITS.iter().any(|unit| unit.0 == key) { "a rate" } else { key };
            if known.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            known.push(name);
            given.take(kind, key, value.trim())?;
        }
        given.load(kind)
    }
}

#[derive(Default)]
struct Given {
    rate: Option<Rate>,
    /// Gb/s and seconds.
    steps: Vec<(f64, f64)>,
    size: Option<Size>,
    on_us: Option<f64>,
    off_us: Option<f64>,
    ring: Option<f64>,
    batch: Option<f64>,
    waits: bool,
}

impl Given {
    fn take(&mut self, kind: &str, key: &str, value: &str) -> Result<(), String> {
        match (key, value) {
            ("gbps", steps) if kind == "steps" => self.steps = parse_steps(steps)?,
            ("size", "imix") => self.size = Some(Size::Imix),
            ("size", bytes) => self.size = Some(Size::Fixed(size(bytes)?)),
            ("on_us", us) if kind == "onoff" => self.on_us = Some(number(key, us, 1e-3..=1e9)?),
            ("off_us", us) if kind == "onoff" => self.off_us = Some(number(key, us, 0.0..=1e9)?),
            ("ring", packets) => self.ring = Some(number(key, packets, 0.0..=1_048_576.0)?),
            ("batch", packets) => self.batch = Some(number(key, packets, 1.0..=1024.0)?),
            ("on_full", "wait") => self.waits = true,
            ("on_full", "drop") => self.waits = false,
            ("on_full", other) => {
                return Err(format!("`on_full` must be wait or drop, found {other:?}"));
            }
            _ => {
                let unit = UNITS.iter().find(|unit| unit.0 == key && kind != "steps");
                let Some(&(_, factor, is_bits)) = unit else {
                    return Err(format!("{kind} has no key {key:?}; {FORMS}"));
                };
                let rate = number(key, value, 1e-9..=1e12)? * factor;
                self.rate = Some(if is_bits { Rate::Bits(rate) } else { Rate::Packets(rate) });
            }
        }
        Ok(())
    }

    fn load(self, kind: &str) -> Result<Load, String> {
        let size = self.size.unwrap_or(Size::Fixed(512));
        let packets = |bits: f64| bits / 8.0 / size.mean();
        let rate = match self.rate {
            Some(Rate::Packets(rate)) => Ok(rate),
            Some(Rate::Bits(bits)) => Ok(packets(bits)),
            None => Err(format!("{kind} needs a rate: pps=, kpps=, mpps=, mbps= or gbps=")),
        };
        let ns = |us: f64| (us * 1e3) as u64;
        let arrivals = match kind {
            "constant" => Arrivals::Constant(rate?),
            "poisson" => Arrivals::Poisson(rate?),
            "onoff" => Arrivals::OnOff {
                rate: rate?,
                on_ns: ns(self.on_us.ok_or("onoff needs on_us=N")?).max(1),
                off_ns: ns(self.off_us.ok_or("onoff needs off_us=N")?),
            },
            "steps" if self.steps.is_empty() => {
                return Err("steps needs gbps=N@SECONDS/N@SECONDS".into());
            }
            "steps" => {
                let step =
                    |&(gbps, seconds): &(f64, f64)| ((seconds * 1e9) as u64, packets(gbps * 1e9));
                Arrivals::Steps(self.steps.iter().map(step).collect())
            }
            _ => return Err(format!("no load {kind:?}; {FORMS}")),
        };
        let ring = self.ring.map_or(Load::RING, |ring| ring as u64);
        Ok(Load { traffic: Traffic { arrivals, size }, waits: self.waits, ring, batch: self.batch })
    }
}

fn number(key: &str, value: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let (least, most) = (range.start(), range.end());
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("`{key}` must be {least} to {most}, found {value:?}"))
}

fn size(value: &str) -> Result<u32, String> {
    let size = value.parse().ok().filter(|size| (42..=65_535).contains(size));
    size.ok_or_else(|| format!("`size` must be 42 to 65535 or imix, found {value:?}"))
}

fn parse_steps(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let step = |one: &str| {
        let (gbps, seconds) =
            one.split_once('@').ok_or_else(|| format!("step {one:?} is not N@SECONDS"))?;
        Ok((number("gbps", gbps, 0.0..=1e6)?, number("seconds", seconds, 1e-6..=3_600.0)?))
    };
    text.split('/').map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        let arrivals = |text: &str| Load::parse(text).expect(text).traffic.arrivals;
        assert_eq!(arrivals("constant:mpps=1.5,size=1472"), Arrivals::Constant(1.5e6));
        assert_eq!(arrivals("poisson:gbps=8,size=1000"), Arrivals::Poisson(1e6));
        let on_off = Arrivals::OnOff { rate: 1e3, on_ns: 10_000, off_ns: 500 };
        assert_eq!(arrivals("onoff:kpps=1,on_us=10,off_us=0.5"), on_off);
        let steps = Arrivals::Steps(vec![(500_000_000, 1e6), (1_000_000_000, 0.0)]);
        assert_eq!(arrivals("steps:gbps=8@0.5/0@1,size=1000"), steps);
        assert!(Load::parse("constant:pps=1,on_full=wait").expect("sound").waits);
        let of_run = Load::parse("constant:pps=1,batch=2.5,ring=9").expect("sound");
        assert_eq!((of_run.batch, of_run.ring), (Some(2.5), 9));
        assert_eq!(
            Load::parse("constant:pps=1,size=imix").expect("sound").traffic.size,
            Size::Imix
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "no such load"),
            ("constant", "no such load"),
            ("constant:", "is not KEY=VALUE"),
            ("constant:size=64", "needs a rate"),
            ("constant:mpps=-1", "`mpps` must be"),
            ("constant:mpps=nan", "`mpps` must be"),
            ("constant:gbps=1e99", "`gbps` must be"),
            ("constant:gbps=1,size=9", "`size` must be"),
            ("constant:gbps=1,batch=0.5", "`batch` must be"),
            ("constant:gbps=1,ring=-1", "`ring` must be"),
            ("constant:gbps=1,speed=2", "has no key \"speed\""),
            ("onoff:gbps=1,on_us=5", "off_us=N"),
            ("steps:size=64", "steps needs"),
            ("steps:gbps=5", "is not N@SECONDS"),
            ("steps:gbps=5@0", "`seconds` must be"),
            ("bursts:gbps=1", "no load \"bursts\""),
            ("constant:gbps=1,on_full=maybe", "wait or drop"),
            ("constant:gbps=1,gbps=2", "a rate is given twice"),
            ("constant:gbps=1,size=64,mpps=1", "a rate is given twice"),
            ("constant:gbps=1,size=64,size=imix", "size is given twice"),
            ("steps:gbps=1@1,gbps=2@1", "a rate is given twice"),
        ] {
            let reported = Load::parse(text).expect_err(text);
            assert!(reported.contains(why), "{text}: {reported}");
        }
    }
}
