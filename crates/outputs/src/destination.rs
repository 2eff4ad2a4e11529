//! Names of outputs.

use std::fmt;
use std::path::{Path, PathBuf};

/// An output, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file or a pipe.
    File(PathBuf),
    /// A stream socket of another process, `unix:PATH`.
    Unix(PathBuf),
    /// The same by TCP, `tcp:HOST:PORT`.
    Tcp(String),
}

impl Destination {
    /// Reads `text`; relative paths are in `folder`.
    ///
    /// # Errors
    /// Why it is no name.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("a Unix socket has a path: unix:PATH".into()),
                _ => Ok(Self::Unix(folder.join(path))),
            };
        }
        if let Some(address) = text.strip_prefix("tcp:") {
            return match is_address(address) {
                true => Ok(Self::Tcp(address.into())),
                false => Err(format!("{text:?} is not tcp:HOST:PORT, with an IPv6 host in []")),
            };
        }
        match text {
            "" => Err("it is empty".into()),
            _ => Ok(Self::File(folder.join(text))),
        }
    }

    /// The path, if it is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Unix(_) | Self::Tcp(_) => None,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_bare = !host.contains([':', '[', ']', '/']);
    let is_bracketed = host.len() > 2 && host.starts_with('[') && host.ends_with(']');
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && (is_bare || is_bracketed) && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let parse = |text: &str| Destination::parse(text, Path::new("/log"));
        assert_eq!(parse("a.json"), Ok(Destination::File("/log/a.json".into())));
        assert_eq!(parse("unix:a.sock"), Ok(Destination::Unix("/log/a.sock".into())));
        assert_eq!(parse("unix:/run/a"), Ok(Destination::Unix("/run/a".into())));
        for address in ["collector:514", "192.0.2.1:514", "[2001:db8::1]:514"] {
            let parsed = parse(&format!("tcp:{address}"));
            assert_eq!(parsed, Ok(Destination::Tcp(address.into())));
        }
        for text in ["", "unix:", "tcp:", "tcp:514", "tcp::514", "tcp:a:0", "tcp:a:65536"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("tcp:2001:db8::1:514").is_err(), "an IPv6 host without brackets");
    }
}
