//! Network interfaces by packet sockets: `af_packet:IF`.
//!
//! [`AfPacketSource`] reads all frames that arrive at an interface from a ring that the system
//! fills. [`AfPacketSink`] sends frames with a system call for each burst.
//!
//! The ring is `TPACKET_V2`, which hands over every frame at once. `TPACKET_V3` hands over blocks,
//! and an unfilled block only after a timeout of at least a millisecond.

pub(crate) mod offloads;
mod sink;
mod source;

pub use self::sink::AfPacketSink;
pub(crate) use self::sink::unsuitable;
pub use self::source::AfPacketSource;
use crate::interface::checked_name;

/// An interface, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Its name.
    pub interface: String,
    /// Whether frames to other hosts are read, too.
    pub promiscuous: bool,
}

impl AfPacketConfig {
    /// The prefix of `af_packet:IF`.
    pub const PREFIX: &str = "af_packet:";

    /// Reads `af_packet:IF` or `af_packet:IF,promiscuous=BOOL`.
    ///
    /// # Errors
    /// Why it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let (interface, promiscuous) = match text.split_once(',') {
            None => (text, true),
            Some((interface, "promiscuous=true")) => (interface, true),
            Some((interface, "promiscuous=false")) => (interface, false),
            Some((_, other)) => {
                let allowed = "promiscuous=true, promiscuous=false";
                return Err(format!("{other:?} is not a setting; allowed: {allowed}"));
            }
        };
        Ok(Self { interface: checked_name(interface, Self::PREFIX)?, promiscuous })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings() {
        let parsed = |text: &str| AfPacketConfig::parse(text).map(|c| (c.interface, c.promiscuous));
        assert_eq!(parsed("af_packet:eth0"), Ok(("eth0".into(), true)));
        assert_eq!(parsed("af_packet:a.7,promiscuous=false"), Ok(("a.7".into(), false)));
        for text in ["", "a/b", "sixteen_bytes_xx", "a b", "e,promiscuous", "e,promiscuous=no"] {
            assert!(parsed(&format!("af_packet:{text}")).is_err(), "{text}");
        }
    }
}
