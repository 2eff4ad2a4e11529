//! Network interfaces by packet sockets: `af_packet:IF`.
//!
//! [`AfPacketSource`] reads all frames that arrive at an interface from a ring that the system
//! fills. [`AfPacketSink`] sends frames with a system call for each burst.
//!
//! The ring is `TPACKET_V2` for frames that may leave again: it hands over every frame at once. It
//! is `TPACKET_V3` for frames that are only looked at: it hands over blocks, an unfilled one after
//! a timeout ([`Delivery`]).

use core::time::Duration;
use std::ops::RangeInclusive;

pub(crate) mod offloads;
mod rings;
mod sink;
mod source;

pub use self::sink::AfPacketSink;
pub(crate) use self::sink::{NO_CARRIER, unsuitable};
pub use self::source::AfPacketSource;
use crate::interface::checked_name;

/// An interface, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Its name.
    pub interface: String,
    /// Whether frames to other hosts are read, too.
    pub promiscuous: bool,
    /// Memory of all rings in which frames wait, in MiB.
    pub queue_mib: u16,
    /// Rings, each of which has the frames of some flows.
    pub queues: u16,
}

/// When the system hands over frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Each at once.
    #[default]
    AtOnce,
    /// Several together, at most [`Delivery::LATEST`] after they arrived. It costs the system less.
    InBlocks,
}

impl Delivery {
    /// The longest time that a frame waits in a block. The system looks every 5 ms, rounded up to
    /// its ticks, and hands over a block at the second look at the latest.
    pub const LATEST: Duration = Duration::from_millis(20);

    /// How long a frame may wait.
    pub(crate) const fn delay(self) -> Duration {
        match self {
            Self::AtOnce => Duration::ZERO,
            Self::InBlocks => Self::LATEST,
        }
    }
}

impl AfPacketConfig {
    /// The prefix of `af_packet:IF`.
    pub const PREFIX: &str = "af_packet:";
    /// Memory of a ring by default: at 64-byte frames with an MTU of 1500, 16384 of them.
    pub const QUEUE_MIB: u16 = 32;
    /// Memory that rings may have.
    pub const QUEUE_MIB_RANGE: RangeInclusive<u16> = 1..=1024;
    /// Rings that an interface may have.
    pub const QUEUES_RANGE: RangeInclusive<u16> = 1..=16;

    /// Reads `af_packet:IF`, with any of `,promiscuous=BOOL`, `,queue_mib=N` and `,queues=N`.
    ///
    /// # Errors
    /// Why it is not that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let mut parts = text.split(',');
        let interface = checked_name(parts.next().unwrap_or_default(), Self::PREFIX)?;
        let queue_mib = Self::QUEUE_MIB;
        let mut config = Self { interface, promiscuous: true, queue_mib, queues: 1 };
        for part in parts {
            match part.split_once('=').unwrap_or((part, "")) {
                ("promiscuous", "true") => config.promiscuous = true,
                ("promiscuous", "false") => config.promiscuous = false,
                ("promiscuous", _) => return Err(format!("{part:?}: write true or false")),
                ("queue_mib", text) => {
                    config.queue_mib = number(part, text, Self::QUEUE_MIB_RANGE)?;
                }
                ("queues", text) => config.queues = number(part, text, Self::QUEUES_RANGE)?,
                (key, _) => {
                    let allowed = "promiscuous, queue_mib, queues";
                    return Err(format!("{key:?} is not a setting; allowed: {allowed}"));
                }
            }
        }
        Ok(config)
    }
}

/// Reads the number of a setting, called `part` in an error.
fn number(part: &str, text: &str, range: RangeInclusive<u16>) -> Result<u16, String> {
    let (least, most) = (range.start(), range.end());
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("{part:?}: write a number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings() {
        let parsed = |text: &str| {
            let config = AfPacketConfig::parse(text)?;
            let AfPacketConfig { interface, promiscuous, queue_mib, queues } = config;
            Ok::<_, String>((interface, promiscuous, queue_mib, queues))
        };
        assert_eq!(parsed("af_packet:eth0"), Ok(("eth0".into(), true, 32, 1)));
        let both = parsed("af_packet:a.7,queue_mib=128,promiscuous=false,queues=4");
        assert_eq!(both, Ok(("a.7".into(), false, 128, 4)));
        for text in ["", "a/b", "sixteen_bytes_xx", "a b"] {
            assert!(parsed(&format!("af_packet:{text}")).is_err(), "{text}");
        }
        for (setting, why) in [
            ("promiscuous", "\"promiscuous\": write true or false"),
            ("promiscuous=no", "\"promiscuous=no\": write true or false"),
            ("queue_mib=0", "\"queue_mib=0\": write a number from 1 to 1024"),
            ("queue_mib=1025", "\"queue_mib=1025\": write a number from 1 to 1024"),
            ("queues=17", "\"queues=17\": write a number from 1 to 16"),
            ("queue=1", "\"queue\" is not a setting; allowed: promiscuous, queue_mib, queues"),
            ("", "\"\" is not a setting; allowed: promiscuous, queue_mib, queues"),
        ] {
            assert_eq!(parsed(&format!("af_packet:e,{setting}")), Err(why.into()));
        }
    }
}
