//! A capture in several files: by size, by time, and after a failure.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Clock};

use warpline_io_error::plain;
use warpline_packet::Instant;

use super::trouble::Trouble;
use super::{CaptureFile, CaptureReader, empty_file};
use crate::port::{
    Frame, InterfaceNames, Next, NullSink, Sink, SinkError, Source, SourceError, Unwritten,
};

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
                _ if CaptureFile::has_setting(name) => {
                    return Err(format!("no setting {key:?}: size_mib, every_s or keep"));
                }
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
/// How long a file is written after a failure, without rest, before that is reported.
const SOUND_AFTER: Duration = Duration::from_secs(3);
/// Bytes of a record besides its frame, about.
const RECORD_HEADER_LEN: u64 = 16;
const CANNOT_WRITE: &str = "the capture can't be written at the moment";

/// An earlier file.
#[derive(Clone, Copy)]
struct Earlier {
    number: u64,
    /// Whether no failure ended it.
    is_whole: bool,
}

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
    /// When a file began after one that failed.
    resumed: Option<Clock>,
    /// Why a file failed last.
    why: Option<String>,
    trouble: Trouble,
    bytes: u64,
    begun: Option<Instant>,
    /// Whether the current file was closed without a failure.
    is_whole: bool,
    earlier: VecDeque<Earlier>,
    /// Frames of earlier files that were not written.
    unwritten: Unwritten,
}

impl Rolling {
    /// Writes to `file`, which is at `path`. Frames that it has from an earlier run get a number,
    /// as a file that is full does. If this `resumes`, frames are refused while writing fails, and
    /// a new file begins when it succeeds.
    ///
    /// # Errors
    /// The earlier file can't be renamed, or the new one not created.
    pub fn new(
        (path, file): (&Path, File),
        how: CaptureFile,
        (names, annotate): (InterfaceNames, bool),
        roll: Roll,
        resumes: bool,
    ) -> io::Result<Self> {
        let mut rolling = Self {
            path: path.into(),
            how,
            names: names.clone(),
            annotate,
            roll,
            resumes,
            sink: Box::new(NullSink),
            failed: None,
            resumed: None,
            why: None,
            trouble: Trouble::of(path.display().to_string()),
            bytes: 0,
            begun: None,
            is_whole: file.metadata()?.len() > 0 && !is_without_frames(path),
            earlier: earlier(path),
            unwritten: Unwritten::default(),
        };
        let file = if rolling.is_whole { rolling.next_file()? } else { file };
        empty_file(&file)?;
        rolling.sink = how.writer(file, names, annotate);
        rolling.is_whole = false;
        Ok(rolling)
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
            self.is_whole = true;
            return self.begin();
        }
        Ok(())
    }

    /// Gives the current file its number, and begins the next one. A file that a failure left
    /// without frames is written again.
    fn begin(&mut self) -> Result<(), SinkError> {
        let begun = self.next_file();
        let file = self.judge(begun.map_err(SinkError::Io))?;
        self.unwritten.merge(&self.sink.unwritten());
        self.sink = self.how.writer(file, self.names.clone(), self.annotate);
        if self.failed.take().is_some() {
            self.resumed = Some(Clock::now());
        }
        (self.bytes, self.begun, self.is_whole) = (0, None, false);
        Ok(())
    }

    fn next_file(&mut self) -> io::Result<File> {
        if !self.is_whole && is_without_frames(&self.path) {
            let file = OpenOptions::new().append(true).open(&self.path)?;
            return empty_file(&file).map(|()| file);
        }
        let number = self.earlier.back().map_or(1, |last| last.number + 1);
        if self.path.exists() {
            fs::rename(&self.path, numbered(&self.path, number))?;
            self.earlier.push_back(Earlier { number, is_whole: self.is_whole });
        }
        self.roll.keep.into_iter().for_each(|keep| self.evict(keep));
        OpenOptions::new().append(true).create_new(true).open(&self.path)
    }

    /// Removes the oldest files. Only complete files take the place of complete ones: a full disk
    /// must not replace them by the few frames that found room.
    fn evict(&mut self, keep: usize) {
        let count = |all: &VecDeque<Earlier>, is_whole| {
            all.iter().filter(|file| file.is_whole == is_whole).count()
        };
        while count(&self.earlier, true) > keep {
            self.remove(0);
        }
        while count(&self.earlier, false) > keep {
            self.remove(self.earlier.iter().position(|file| !file.is_whole).unwrap_or(0));
        }
    }

    fn remove(&mut self, at: usize) {
        let file = self.earlier.remove(at).map(|file| numbered(&self.path, file.number));
        // Another program may have moved it.
        file.map(fs::remove_file).transpose().ok();
    }

    /// Makes a failure one of the frame, if this resumes.
    fn judge<T>(&mut self, outcome: Result<T, SinkError>) -> Result<T, SinkError> {
        outcome.map_err(|error| match error {
            SinkError::Io(error) if self.resumes => {
                (self.failed, self.why) = (Some(Clock::now()), Some(plain(&error)));
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
        let mut all = self.unwritten.clone();
        all.merge(&self.sink.unwritten());
        all
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        let why = self.failed.and(self.why.as_deref());
        // Until they are flushed, the first frames of a new file may not reach the disk.
        let is_unsure = self.resumed.is_some_and(|at| at.elapsed() < SOUND_AFTER);
        if why.is_some() || !is_unsure {
            self.trouble.report(why, report);
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        if self.failed.is_some() {
            return Ok(());
        }
        let flushed = self.sink.flush();
        match self.judge(flushed) {
            Err(SinkError::Unsuitable(_)) => Ok(()),
            outcome => {
                self.resumed = None;
                outcome
            }
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

/// Whether the file at `path` has no frame, only the head of a capture or nothing.
fn is_without_frames(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else { return false };
    let is_empty = || matches!(CaptureReader::open(path).and_then(has_frame), Ok(false));
    found.is_file() && (found.len() == 0 || is_empty())
}

fn has_frame(mut capture: CaptureReader) -> Result<bool, SourceError> {
    capture.next().map(|next| !matches!(next, Next::End))
}

/// The earlier files that are there, in order.
fn earlier(path: &Path) -> VecDeque<Earlier> {
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
    numbers.into_iter().map(|number| Earlier { number, is_whole: true }).collect()
}

#[cfg(test)]
mod tests {
    use warpline_packet::LinkType;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("warpline-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn rolling(path: &Path, roll: Roll, resumes: bool) -> Rolling {
        let how = CaptureFile::of_name(path).expect("a name");
        let file = File::create(path).expect("a file");
        let form = (InterfaceNames::default(), false);
        Rolling::new((path, file), how, form, roll, resumes).expect("a file")
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
        for text in
            ["a,size_mib=0", "a,every_s=x", "a,keep=3", "a,size_mib=1048577", "a.pcap,size_mb=2"]
        {
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
    fn frames_of_an_earlier_run_get_a_number() {
        let folder = folder("restarted");
        let path = folder.join("a.pcap");
        let roll = Roll { every: Some(Duration::from_secs(10)), ..Roll::default() };
        for run in [0, 100, 200] {
            let how = CaptureFile::of_name(&path).expect("a name");
            let file = OpenOptions::new().append(true).create(true).open(&path).expect("a file");
            let form = (InterfaceNames::default(), false);
            let mut sink = Rolling::new((&path, file), how, form, roll, true).expect("a file");
            // The second run has none.
            let numbers = run..run + if run == 100 { 0 } else { 15 };
            numbers.for_each(|number| send(&mut sink, number).expect("sent"));
            sink.close().expect("closed");
        }
        let found = [1, 2, 3].map(|number| numbers(&numbered(&path, number)));
        assert_eq!(found, [(0..10).collect(), (10..15).collect(), (200..210).collect::<Vec<_>>()]);
        assert_eq!(numbers(&path), (210..215).collect::<Vec<_>>());
        fs::remove_dir_all(folder).expect("removed");
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

    /// Makes the current file fail after the frames that it has, and then the next retry due.
    fn fail(sink: &mut Rolling) {
        let file = File::open(&sink.path).expect("a file that can't be written");
        sink.sink = sink.how.writer(file, InterfaceNames::default(), false);
        let _ = send(sink, 99);
        sink.flush().expect("a run that continues");
        assert!(sink.failed.is_some(), "it failed");
        sink.failed = Clock::now().checked_sub(RETRY_AFTER);
    }

    #[test]
    fn failures_remove_no_complete_file() {
        let folder = folder("evicting");
        let roll = Roll { every: Some(Duration::from_secs(10)), keep: Some(2), ..Roll::default() };
        for name in ["a.pcap", "b.pcapng", "c.pcapng.gz"] {
            let path = folder.join(name);
            let mut sink = rolling(&path, roll, true);
            (0..35).for_each(|number| send(&mut sink, number).expect("a send"));
            sink.flush().expect("a flush");
            let there = || (1..40).filter(|&n| numbered(&path, n).exists()).collect::<Vec<_>>();
            assert_eq!(there(), [2, 3], "{name}");
            // The head of the next file finds room, no frame does.
            for number in 40..45 {
                fail(&mut sink);
                send(&mut sink, number).expect("a file again");
                sink.sink = Box::new(NullSink);
                let file = File::create(&path).expect("an empty file");
                sink.sink = sink.how.writer(file, InterfaceNames::default(), false);
                sink.sink.close().expect("a head");
            }
            assert_eq!(there(), [2, 3, 4], "{name}: the file that failed first had frames");
            // Frames find room, a few each time: as many such files stay.
            for number in 50..55 {
                fail(&mut sink);
                send(&mut sink, number).expect("a file again");
                sink.sink.close().expect("a frame");
            }
            fail(&mut sink);
            send(&mut sink, 60).expect("a file again");
            let stayed = there();
            assert_eq!((stayed.len(), &stayed[..2]), (4, &[2, 3][..]), "{name}");
            (60..95).for_each(|number| send(&mut sink, number).expect("a send"));
            assert_eq!(there().len(), 2, "{name}: complete files take their place");
            sink.close().expect("a close");
        }
        fs::remove_dir_all(folder).expect("an end");
    }
}
