//! The format and compression that a capture file's name selects.

use core::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use super::{Compression, PcapWriter, PcapngWriter};
use crate::port::{InterfaceNames, Sink};

/// The formats that captures are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// pcap, with nanoseconds.
    Pcap,
    /// pcapng, with nanoseconds.
    Pcapng,
}

/// How a capture file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFile {
    /// Its format.
    pub format: CaptureFormat,
    /// How it is compressed, if it is.
    pub compression: Option<Compression>,
}

/// A name that promises what is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWritten(&'static str);

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not written; .pcap and .pcapng are, each also with .gz or .zst", self.0)
    }
}

impl std::error::Error for NotWritten {}

impl CaptureFile {
    /// By the endings of a name, in upper or lower case: `.pcapng` or else pcap, followed by `.gz`
    /// or `.zst` for compression.
    ///
    /// # Errors
    /// [`NotWritten`] for the ending of a compression that is not written.
    pub fn of_name(path: &Path) -> Result<Self, NotWritten> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if let Some(ending) = NOT_WRITTEN.into_iter().find(|ending| name.ends_with(ending)) {
            return Err(NotWritten(ending));
        }
        let (name, compression) = if let Some(name) = name.strip_suffix(".gz") {
            (name, Some(Compression::Gzip))
        } else if let Some(name) = name.strip_suffix(".zst") {
            (name, Some(Compression::Zstd))
        } else {
            (name.as_str(), None)
        };
        let format = if name.ends_with(".pcapng") || name.ends_with(".ntar") {
            CaptureFormat::Pcapng
        } else {
            CaptureFormat::Pcap
        };
        Ok(Self { format, compression })
    }

    /// Whether a text is the name of a capture with a setting: `a.pcap,KEY=VALUE`.
    pub fn has_setting(text: &str) -> bool {
        let endings = [".pcap", ".pcapng", ".gz", ".zst"];
        let is_capture = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
        text.split_once(',').is_some_and(|(name, rest)| is_capture(name) && rest.contains('='))
    }

    /// A sink that writes so to `file`, which is empty. With `annotate` it also takes the packets
    /// that are dropped, where the format has room for the reason.
    pub fn writer(self, file: File, names: InterfaceNames, annotate: bool) -> Box<dyn Sink> {
        let Self { format, compression } = self;
        match format {
            CaptureFormat::Pcap => Box::new(PcapWriter::from_file(file).compressed(compression)),
            CaptureFormat::Pcapng => {
                let writer = PcapngWriter::from_file(file).compressed(compression);
                Box::new(writer.with_names(names).annotated(annotate))
            }
        }
    }
}

/// Empties `file` if it is not empty. When a file that was cut is closed, ext4 starts to write all
/// of it to the disk, even if there was nothing to cut.
///
/// # Errors
/// The operating system's.
pub fn empty_file(file: &File) -> io::Result<()> {
    if file.metadata()?.len() == 0 { Ok(()) } else { file.set_len(0) }
}

const NOT_WRITTEN: [&str; 4] = [".xz", ".bz2", ".lz4", ".lzma"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use CaptureFormat::{Pcap, Pcapng};
        for (name, format, compression) in [
            ("a.pcap", Pcap, None),
            ("a", Pcap, None),
            ("/dev/null", Pcap, None),
            ("pcapng", Pcap, None),
            ("a.pcapng.old", Pcap, None),
            ("x/a.PcapNG", Pcapng, None),
            ("a.ntar", Pcapng, None),
            ("a.pcap.gz", Pcap, Some(Compression::Gzip)),
            ("a.gz", Pcap, Some(Compression::Gzip)),
            ("a.pcapng.gz", Pcapng, Some(Compression::Gzip)),
            ("a.pcap.ZST", Pcap, Some(Compression::Zstd)),
            ("a.pcapng.zst", Pcapng, Some(Compression::Zstd)),
            ("a.zst.pcap", Pcap, None),
            ("..", Pcap, None),
        ] {
            let file = CaptureFile::of_name(Path::new(name));
            assert_eq!(file, Ok(CaptureFile { format, compression }), "{name}");
        }
        for name in ["a.pcap.xz", "a.pcap.BZ2", "a.lz4"] {
            assert!(CaptureFile::of_name(Path::new(name)).is_err(), "{name}");
        }
    }
}
