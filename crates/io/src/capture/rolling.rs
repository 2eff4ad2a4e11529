//! A capture in several files: by size, by time, and after a failure.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use warpline_packet::Instant;

use super::CaptureFile;
use crate::port::{Frame, InterfaceNames, Sink, SinkError, Unwritten};

/// When a capture continues in a new file, and how many earlier ones are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    /// Bytes of frames and their headers, before compression.
    pub size: Option<u64>,
    /// Packet time.
    pub every: Option<Duration>,
    /// Files besides the current one.
    pub keep: Option<usize>,
}

impl Roll {
    /// Splits `NAME,size_mib=N,every_s=N,keep=N` into the name and its settings, if it has some.
    ///
    /// # Errors
    /// A setting without a valid number.
    pub fn split(text: &str) -> Result<(&str, Option<Self>), String> {
        let (mut name, mut roll) = (text, None);
        while let Some((rest, setting)) = name.rsplit_once(',') {
            let Some((key, value)) = setting.split_once('=') else { break };
            let (most, set): (u64, fn(&mut Self, u64)) = match key {
                "size_mib" => (1 << 20, |roll, n| roll.size = Some(n << 20)),
                "every_s" => (366 * 86_400, |roll, n| roll.every = Some(Duration::from_secs(n))),
                "keep" => (1 << 20, |roll, n| roll.keep = Some(n as usize)),
                _ => break,
            };
            let number = value.parse().ok().filter(|number| (1..=most).contains(number));
            let number = number.ok_or_else(|| format!("{key} is a number from 1 to {most}"))?;
            set(roll.get_or_insert_default(), number);
            name = rest;
        }
        let is_endless = roll.is_some_and(|roll| roll.size.is_none() && roll.every.is_none());
        if is_endless {
            return Err("keep needs size_mib or every_s".into());
        }
        Ok((name, roll))
    }
}

/// How long after a failure writing is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of a record besides its frame, about.
const RECORD_HEADER_LEN: u64 = 16;
const CANNOT_WRITE: &str = "the capture can't be written at the moment";

/// Writes to a file that gets another name when the next one begins: `a.pcap`, `a-000001.pcap`.
pub struct Rolling {
    path: PathBuf,
    how: CaptureFile,
    names: InterfaceNames,
    annotate: bool,
    roll: Roll,
    /// Whether a failure ends nothing.
    resumes: bool,
    sink: Box<dyn Sink>,
    /// When the current file failed.
    failed: Option<Clock>,
    bytes: u64,
    begun: Option<Instant>,
    /// Numbers of earlier files.
    earlier: VecDeque<u64>,
    /// Frames of earlier files that were not written.
    unwritten: Unwritten,
}

impl Rolling {
    /// Writes to `file`, which is empty and at `path`. If it `resumes`, frames are refused while
    /// writing fails, and a new file begins when it succeeds.
    pub fn new(
        (path, file): (&Path, File),
        how: CaptureFile,
        (names, annotate): (InterfaceNames, bool),
        roll: Roll,
        resumes: bool,
    ) -> Self {
        Self {
            path: path.into(),
            how,
            names: names.clone(),
            annotate,
            roll,
            resumes,
            sink: how.writer(file, names, annotate),
            failed: None,
            bytes: 0,
            begun: None,
            earlier: earlier(path),
            unwritten: Unwritten::default(),
        }
    }

    /// Begins a new file if one is due before `frame`.
    fn turn(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        if let Some(failed) = self.failed {
            if failed.elapsed() < RETRY_AFTER {
                return Err(SinkError::Unsuitable(CANNOT_WRITE));
            }
            return self.begin();
        }
        let Some(begun) = self.begun else { return Ok(()) };
        let Roll { size, every, .. } = self.roll;
        let len = frame.bytes.len() as u64 + RECORD_HEADER_LEN;
        let age = frame.timestamp.as_nanos().saturating_sub(begun.as_nanos());
        if size.is_some_and(|size| self.bytes + len > size)
            || every.is_some_and(|every| u128::from(age) >= every.as_nanos())
        {
            let closed = self.sink.close();
            self.judge(closed)?;
            return self.begin();
        }
        Ok(())
    }

    /// Gives the current file its number, and begins the next one.
    fn begin(&mut self) -> Result<(), SinkError> {
        let begun = self.next_file();
        let file = self.judge(begun.map_err(SinkError::Io))?;
        let Unwritten { frames, bytes } = self.sink.unwritten();
        self.unwritten.frames += frames;
        self.unwritten.bytes += bytes;
        self.sink = self.how.writer(file, self.names.clone(), self.annotate);
        (self.failed, self.bytes, self.begun) = (None, 0, None);
        Ok(())
    }

    fn next_file(&mut self) -> io::Result<File> {
        let number = self.earlier.back().map_or(1, |last| last + 1);
        if self.path.exists() {
            fs::rename(&self.path, numbered(&self.path, number))?;
            self.earlier.push_back(number);
        }
        while self.roll.keep.is_some_and(|keep| self.earlier.len() > keep) {
            let oldest = self.earlier.pop_front().map(|number| numbered(&self.path, number));
            // Another program may have moved it.
            oldest.map(fs::remove_file).transpose().ok();
        }
        OpenOptions::new().append(true).create_new(true).open(&self.path)
    }

    /// Makes a failure one of the frame, if this resumes.
    fn judge<T>(&mut self, outcome: Result<T, SinkError>) -> Result<T, SinkError> {
        outcome.map_err(|error| match error {
            SinkError::Io(_) if self.resumes => {
                self.failed = Some(Clock::now());
                SinkError::Unsuitable(CANNOT_WRITE)
            }
            error => error,
        })
    }
}

impl Sink for Rolling {
    fn send(&mut self, frame: &Frame<'_>) -> Result<(), SinkError> {
        self.turn(frame)?;
        let sent = self.sink.send(frame);
        self.judge(sent)?;
        self.begun.get_or_insert(frame.timestamp);
        self.bytes += frame.bytes.len() as u64 + RECORD_HEADER_LEN;
        Ok(())
    }

    fn wants_dropped(&self) -> bool {
        self.sink.wants_dropped()
    }

    fn dropped(&mut self, frame: &Frame<'_>, why: &str) -> Result<(), SinkError> {
        self.turn(frame)?;
        let shown = self.sink.dropped(frame, why);
        self.judge(shown)?;
        self.begun.get_or_insert(frame.timestamp);
        self.bytes += frame.bytes.len() as u64 + RECORD_HEADER_LEN + why.len() as u64;
        Ok(())
    }

    fn unwritten(&self) -> Unwritten {
        let Unwritten { frames, bytes } = self.sink.unwritten();
        let before = self.unwritten;
        Unwritten { frames: before.frames + frames, bytes: before.bytes + bytes }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Ok(());
        }
        let flushed = self.sink.flush();
        match self.judge(flushed) {
            Err(SinkError::Unsuitable(_)) => Ok(()),
            outcome => outcome,
        }
    }

    fn close(&mut self) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Ok(());
        }
        self.sink.close()
    }
}

/// The name of earlier file `number` of the capture at `path`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let (stem, endings) = parts(path);
    path.with_file_name(format!("{stem}-{number:06}{endings}"))
}

/// A file's name before and from the endings of its format and compression.
fn parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    let mut end = name.len();
    for endings in [&[".gz", ".zst"][..], &[".pcapng", ".pcap", ".ntar"][..]] {
        let ending = endings.iter().find(|ending| lower[..end].ends_with(**ending));
        end -= ending.map_or(0, |ending| ending.len());
    }
    (name[..end].into(), name[end..].into())
}

/// The numbers of earlier files that are there, in order.
fn earlier(path: &Path) -> VecDeque<u64> {
    let (stem, endings) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let digits = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&endings)?;
        let is_number = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number)
    };
    let mut numbers: Vec<u64> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers.into()
}

#[cfg(test)]
mod tests {
    use warpline_packet::LinkType;

    use super::*;
    use crate::CaptureReader;
    use crate::port::{Next, Source};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("warpline-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn rolling(path: &Path, roll: Roll, resumes: bool) -> Rolling {
        let how = CaptureFile::of_name(path).expect("a name");
        let file = File::create(path).expect("a file");
        Rolling::new((path, file), how, (InterfaceNames::default(), false), roll, resumes)
    }

    /// Frame `number` at that second, of 1000 bytes.
    fn send(sink: &mut Rolling, number: u64) -> Result<(), SinkError> {
        let mut bytes = [0; 1000];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let timestamp = Instant::from_parts(number, 0);
        let link = LinkType::ETHERNET;
        sink.send(&Frame { bytes: &bytes, timestamp, wire_len: 1000, link, interface: 0 })
    }

    fn numbers(path: &Path) -> Vec<u64> {
        let mut reader = CaptureReader::open(path).expect("a capture");
        let mut all = Vec::new();
        while let Next::Frame(frame) = reader.next().expect("a frame") {
            all.push(u64::from_be_bytes(*frame.bytes.first_chunk().expect("a number")));
        }
        all
    }

    #[test]
    fn settings() {
        let roll = |size, every: Option<u64>, keep| {
            let every = every.map(Duration::from_secs);
            Some(Roll { size, every, keep })
        };
        for (text, name, expected) in [
            ("a.pcap", "a.pcap", None),
            ("a,b.pcap", "a,b.pcap", None),
            ("a.pcap,size_mib=2", "a.pcap", roll(Some(2 << 20), None, None)),
            ("a,b,keep=3,every_s=60", "a,b", roll(None, Some(60), Some(3))),
        ] {
            assert_eq!(Roll::split(text), Ok((name, expected)), "{text}");
        }
        for text in ["a,size_mib=0", "a,every_s=x", "a,keep=3", "a,size_mib=1048577"] {
            assert!(Roll::split(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_by_time_and_by_size_hold_all_frames() {
        let folder = folder("rolling");
        for (name, roll) in [
            ("a.pcap", Roll { every: Some(Duration::from_secs(10)), ..Roll::default() }),
            ("b.pcapng.gz", Roll { size: Some(10_160), keep: Some(3), ..Roll::default() }),
        ] {
            let path = folder.join(name);
            // Earlier files keep their numbers.
            fs::write(numbered(&path, 7), "").expect("a file");
            let mut sink = rolling(&path, roll, false);
            (0..105).for_each(|number| send(&mut sink, number).expect("a send"));
            sink.close().expect("a close");
            assert_eq!(numbers(&path), [100, 101, 102, 103, 104], "{name}");
            for tenth in 0..10 {
                let earlier = numbered(&path, 8 + tenth);
                let is_kept = roll.keep.is_none_or(|keep| tenth >= 10 - keep as u64);
                assert_eq!(earlier.exists(), is_kept, "{name} {tenth}");
                if is_kept {
                    let expected: Vec<u64> = (10 * tenth..10 * tenth + 10).collect();
                    assert_eq!(numbers(&earlier), expected);
                }
            }
            assert_eq!(numbered(&path, 7).exists(), roll.keep.is_none());
        }
        fs::remove_dir_all(folder).expect("an end");
    }

    #[test]
    fn after_a_failure_it_ends_or_resumes() {
        let folder = folder("resuming");
        let path = folder.join("in").join("a.pcap");
        let every = Roll { every: Some(Duration::from_secs(10)), ..Roll::default() };
        for resumes in [false, true] {
            fs::create_dir_all(folder.join("in")).expect("a folder");
            let mut sink = rolling(&path, every, resumes);
            send(&mut sink, 0).expect("a send");
            fs::remove_dir_all(folder.join("in")).expect("no folder");
            let error = send(&mut sink, 10).expect_err("no file");
            assert_eq!(matches!(error, SinkError::Unsuitable(_)), resumes, "{error}");
            if resumes {
                fs::create_dir_all(folder.join("in")).expect("a folder");
                assert!(send(&mut sink, 11).is_err(), "it waits for a while");
                std::thread::sleep(RETRY_AFTER);
                send(&mut sink, 12).expect("a new file");
                sink.close().expect("a close");
                assert_eq!(numbers(&path), [12]);
            }
        }
        fs::remove_dir_all(folder).expect("an end");
    }
}
