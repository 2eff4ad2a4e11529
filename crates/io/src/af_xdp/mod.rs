//! Network interfaces by AF_XDP sockets: `af_xdp:IF`.
//!
//! An XDP program passes the frames of each queue to a socket of that queue, before the kernel's
//! protocols see them. Frames leave by the socket of the first queue. Source and sink of an
//! interface share its sockets, since a queue has only one.

mod sink;
mod sockets;
mod source;

use crate::interface::checked_name;

pub use self::sink::AfXdpSink;
pub use self::source::AfXdpSource;

/// An interface, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfXdpConfig {
    /// Its name.
    pub interface: String,
    /// Whether frames are copied.
    pub mode: Mode,
    /// The queue that is read, or all.
    pub queue: Option<u32>,
    /// Whether frames to other hosts are read, too.
    pub promiscuous: bool,
}

/// Whether the kernel copies frames between the driver's memory and ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    #[default]
    Copy,
    /// The driver uses our memory.
    ZeroCopy,
    /// The driver does if it is one of [`Mode::ZERO_COPY_DRIVERS`] and agrees.
    Auto,
}

impl Mode {
    /// The drivers with a zero-copy mode that `auto` uses.
    pub const ZERO_COPY_DRIVERS: [&str; 3] = ["i40e", "ixgbe", "mlx5_core"];
    /// All modes, by name.
    pub const ALL: [(&str, Self); 3] =
        [("copy", Self::Copy), ("zerocopy", Self::ZeroCopy), ("auto", Self::Auto)];
}

impl AfXdpConfig {
    /// The prefix of `af_xdp:IF`.
    pub const PREFIX: &str = "af_xdp:";

    /// Reads `af_xdp:IF`, with any of `,mode=MODE`, `,queue=N` and `,promiscuous=BOOL`.
    ///
    /// # Errors
    /// Why it is not that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(Self::PREFIX).unwrap_or(text);
        let mut parts = text.split(',');
        let interface = checked_name(parts.next().unwrap_or_default(), Self::PREFIX)?;
        let (mode, queue, promiscuous) = (Mode::Copy, None, true);
        let mut config = Self { interface, mode, queue, promiscuous };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match (key, value) {
                ("promiscuous", "true") => config.promiscuous = true,
                ("promiscuous", "false") => config.promiscuous = false,
                ("promiscuous", _) => return Err(format!("{part:?}: write true or false")),
                ("queue", number) => {
                    let number = number.parse().map_err(|_| format!("{part:?}: not a number"))?;
                    config.queue = Some(number);
                }
                ("mode", name) => {
                    let found = Mode::ALL.iter().find(|(known, _)| *known == name);
                    let names = Mode::ALL.map(|(name, _)| name).join(", ");
                    let (_, mode) = found.ok_or(format!("{part:?}: the modes are {names}"))?;
                    config.mode = *mode;
                }
                _ => {
                    let allowed = "mode, queue, promiscuous";
                    return Err(format!("{key:?} is not a setting; allowed: {allowed}"));
                }
            }
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings() {
        let parsed = |text: &str| AfXdpConfig::parse(text);
        let (interface, mode) = ("eth0".to_owned(), Mode::Copy);
        let plain = AfXdpConfig { interface, mode, queue: None, promiscuous: true };
        assert_eq!(parsed("af_xdp:eth0"), Ok(plain.clone()));
        let all = AfXdpConfig { mode: Mode::Auto, queue: Some(3), promiscuous: false, ..plain };
        assert_eq!(parsed("af_xdp:eth0,queue=3,promiscuous=false,mode=auto"), Ok(all));
        for text in ["", "a/b", "sixteen_bytes_xx", "e,mode", "e,mode=fast", "e,queue=-1", "e,"] {
            assert!(parsed(&format!("af_xdp:{text}")).is_err(), "{text}");
        }
    }
}
