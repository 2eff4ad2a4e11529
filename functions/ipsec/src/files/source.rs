//! A file that may have keys: reads it, reports mistakes without showing a key, and wipes it.

use core::ops::Range;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use zeroize::Zeroizing;

use warpline_nf::{Diagnostic, LISTED_MAX, Resources, Section, SourceText};

/// Bytes that a file of SAs or policies may have.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file's text, and the same text with `*` for whatever could be of a key.
///
/// Both have the same bytes at every other place, so that a place in one is a place in the other.
pub(super) struct Source {
    text: Zeroizing<String>,
    len: usize,
    /// The text that mistakes quote.
    pub(super) shown: SourceText,
    /// Where lines begin.
    lines: Vec<usize>,
    /// The number of mistakes so far.
    pub(super) mistakes: usize,
    /// Whether what is not supported is left out, and not a mistake.
    skips: bool,
}

/// Reads the file that `key` names; with `is_secret` only if its owner alone may read it.
pub(super) fn load(section: &mut Section<'_>, key: &str, is_secret: bool) -> Option<Source> {
    let path = section.output(key)?;
    // Files that come with the program are not on disk, and what can't be looked at can't be read.
    if let Ok(meta) = std::fs::metadata(&path) {
        if meta.len() > FILE_BYTES_MAX {
            section.mistake(key, format!("{path:?} is larger than {} MiB", FILE_BYTES_MAX >> 20));
            return None;
        }
        if is_secret && meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
            let reported =
                format!("other users may read or change {path:?}, which has keys: `chmod 600` it");
            section.mistake(key, reported);
            return None;
        }
    }
    if is_secret {
        // From here on there are keys in memory. A system without this call has no such files of
        // memory either.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    let (name, bytes) = section.file_bytes(key)?;
    let bytes = Zeroizing::new(bytes);
    if bytes.len() as u64 > FILE_BYTES_MAX {
        section.mistake(key, format!("{name:?} is larger than {} MiB", FILE_BYTES_MAX >> 20));
        return None;
    }
    match str::from_utf8(&bytes) {
        Ok(text) => Some(Source::new(name, text)),
        Err(error) => {
            let at = error.valid_up_to();
            section.mistake(key, format!("can't read {name:?}: byte {at} is not UTF-8 text"));
            None
        }
    }
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let lines = core::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        Self {
            text: Zeroizing::new(text.to_owned()),
            len: text.len(),
            shown: SourceText { is_cleared: true, ..SourceText::new(name, "") },
            lines: lines.collect(),
            mistakes: 0,
            skips: false,
        }
    }

    /// Sets the treatment of unsupported entries.
    pub(super) fn skipping(mut self, skips: bool) -> Self {
        self.skips = skips;
        self
    }

    /// Whether it is what `ip xfrm` prints.
    pub(super) fn is_xfrm(&self) -> bool {
        let first = self.text.lines().find(|line| !line.trim().is_empty());
        first.is_some_and(|line| line.starts_with("src "))
    }

    /// The text itself, which is wiped when it is dropped.
    pub(super) fn take_text(&mut self) -> Zeroizing<String> {
        core::mem::take(&mut self.text)
    }

    /// Shows `text`, which is the file's, without the ranges `secrets` and without long rows of
    /// hexadecimal digits. Until then nothing is shown.
    pub(super) fn show(&mut self, text: &str, secrets: impl IntoIterator<Item = Range<usize>>) {
        let mut bytes = Zeroizing::new(text.as_bytes().to_vec());
        let rows = rows(text);
        for at in secrets.into_iter().chain(rows) {
            for byte in bytes.get_mut(at).into_iter().flatten() {
                if *byte != b'\n' {
                    *byte = b'*';
                }
            }
        }
        // Only whole characters were replaced, so that nothing is lost here.
        self.shown.text = String::from_utf8_lossy(&bytes).into();
    }

    /// The line (from 1) that has byte `at`, where it begins and where it ends.
    fn line(&self, at: usize) -> (usize, Range<usize>) {
        let line = self.lines.partition_point(|&start| start <= at).max(1);
        let start = self.lines[line - 1];
        let end = self.lines.get(line).map_or(self.len, |&next| next - 1);
        (line, start..end)
    }

    /// The message about the bytes at `at`.
    pub(super) fn reported(&self, at: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let (line, range) = self.line(at.start);
        let text = self.shown.text.get(range.clone()).unwrap_or_default();
        let start = at.start.saturating_sub(range.start);
        let message = scrubbed(&message.into());
        self.shown.in_line(line, text, start, at.len().min(range.len()), message)
    }

    /// The word at `at`, if it may be shown.
    pub(super) fn word(&self, at: Range<usize>) -> String {
        let text = self.shown.text.get(at).unwrap_or_default();
        text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    /// Notes a mistake.
    pub(super) fn mistake(
        &mut self,
        section: &mut Section<'_>,
        at: Range<usize>,
        message: impl Into<String>,
    ) {
        let reported = self.reported(at, message);
        self.note(section, reported);
    }

    /// Notes a mistake.
    pub(super) fn note(&mut self, section: &mut Section<'_>, reported: Diagnostic) {
        self.mistakes += 1;
        section.note(reported);
    }

    /// Notes what is not supported: a mistake, or left out.
    pub(super) fn unsupported(
        &mut self,
        section: &mut Section<'_>,
        resources: &mut Resources,
        reported: Diagnostic,
    ) {
        if self.skips {
            resources.notice(reported);
        } else {
            self.mistakes += 1;
            section.note(
                reported.help("unsupported = \"skip\" leaves such SAs out and drops their packets"),
            );
        }
    }

    /// Whether there are more mistakes than are listed, so that the rest needn't be looked at.
    pub(super) fn is_hopeless(&self) -> bool {
        self.mistakes > LISTED_MAX
    }
}

/// Rows of 16 hexadecimal digits and more in one word that are no number of 64 bits.
fn rows(text: &str) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let mut start = 0;
    for (at, byte) in text.bytes().chain([b' ']).enumerate() {
        if !(byte.is_ascii_hexdigit() || byte == b'_') {
            let row = &text.as_bytes()[start..at];
            if row.len() > 20 || row.len() >= 16 && !row.iter().all(u8::is_ascii_digit) {
                rows.push(start..at);
            }
            start = at + 1;
        }
    }
    rows
}

/// `text` without long rows of hexadecimal digits.
pub(super) fn scrubbed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for row in rows(text) {
        shown.push_str(&text[done..row.start]);
        shown.push_str("***");
        done = row.end;
    }
    shown + &text[done..]
}
