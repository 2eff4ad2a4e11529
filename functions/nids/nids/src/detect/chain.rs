//! Decides whether a payload satisfies a rule's tests: contents, expressions and numbers, each of
//! which may be relative to the one before.
//!
//! A test that can match at several places is tried at each, from the left, as long as a later one
//! fails and another place could change that. The payload matches a rule if all tests hold for any
//! choice of places (manual, "Payload Keywords"). Which tests depend on a choice is determined when
//! the rule is compiled ([`TestStep`]), so independent contents are searched once. The work on one
//! payload is bounded, by a number of steps and by the bytes that their searches read.
//!
//! All positions are offsets in the stream; the buffer has the part from [`Buffer::start`] on (0
//! for packets). So `offset`, `depth`, `startswith`, and `isdataat` and `byte_*` that are not
//! relative, count from the beginning of the stream, even when that has left the window. Bytes that
//! have left are then not found. A negated content whose whole range has left the window fails too,
//! since it can't be checked.

use core::ops::Range;

use warpline_native::regex::{Match, Regex, RegexResult};

use super::numbers::{self, Slots, signed};
use super::searcher::Searcher;
use warpline_nids_rules::{Content, PayloadTest, Value};

/// A packet's payload or a stretch of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The offset of the first of them in the stream; 0 for packets.
    pub start: u64,
}

impl<'a> Buffer<'a> {
    /// A packet's payload.
    pub fn packet(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0 }
    }
}

/// Memory reused by evaluations, and counts of the limits that they hit.
#[derive(Debug)]
pub struct Scratch {
    slots: Box<Slots>,
    regex: Match,
    /// Evaluations given up because of the limit on steps; they count as no match.
    pub step_limit_hits: u64,
    /// Searches of expressions given up because of their limits; they count as no match, negated or
    /// not.
    pub regex_limit_hits: u64,
}

impl Scratch {
    /// `None` where there is no memory.
    pub fn new() -> Option<Self> {
        let regex = Match::new()?;
        Some(Self { slots: Box::new([0; 256]), regex, step_limit_hits: 0, regex_limit_hits: 0 })
    }
}

/// The payload tests of a rule.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) steps: Box<[TestStep]>,
    /// Slots below this may be read before they are written: they are 0 then.
    pub(super) cleared: usize,
}

/// A test, and what its outcome depends on.
#[derive(Debug)]
pub(super) struct TestStep {
    pub(super) test: Test,
    /// The following tests may hold after another match of this one, though they failed after this
    /// match.
    pub(super) is_retried: bool,
    /// It and all that follow depend on nothing before: where they fail once they always do.
    pub(super) is_independent: bool,
}

#[derive(Debug)]
pub(super) enum Test {
    Content(Box<(Content, Searcher)>),
    Regex {
        regex: Regex,
        is_negated: bool,
        is_relative: bool,
        /// It is tried at the start of its subject only.
        is_anchored: bool,
    },
    /// Any of the others.
    Plain(PayloadTest),
}

/// Where a test stands.
#[derive(Clone, Copy)]
pub(super) struct TestPosition<'a> {
    bytes: &'a [u8],
    start: i64,
    /// The end of the last match.
    pub(super) last: i64,
}

impl<'a> TestPosition<'a> {
    /// The place after the last byte.
    pub(super) fn end(&self) -> i64 {
        self.start.saturating_add(self.bytes.len() as i64)
    }

    /// The bytes at a position, if all are in the buffer.
    pub(super) fn bytes_at(&self, position: i64, len: usize) -> Option<&'a [u8]> {
        let at = usize::try_from(position.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..)?.get(..len)
    }

    /// The index in the buffer of a position, or of the end of the buffer that it lies beyond.
    fn index(&self, position: i64) -> usize {
        position.clamp(self.start, self.end()).saturating_sub(self.start) as usize
    }
}

/// How a chain of tests came out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainResult {
    Holds,
    /// Not with the choices made before.
    Fails,
    /// Whatever is chosen.
    FailsForGood,
}

/// Whether `buffer` holds all of `chain`. An empty buffer holds nothing.
pub(super) fn holds(
    chain: &Chain,
    buffer: Buffer<'_>,
    steps_max: u32,
    scratch: &mut Scratch,
) -> bool {
    let Ok(start) = i64::try_from(buffer.start) else { return false };
    if chain.steps.is_empty() || buffer.bytes.is_empty() {
        return chain.steps.is_empty();
    }
    scratch.slots[..chain.cleared].fill(0);
    let place = TestPosition { bytes: buffer.bytes, start, last: 0 };
    let once = chain.steps.len() as u64 * buffer.bytes.len() as u64;
    let bytes_left = once + u64::from(steps_max) * BYTES_PER_STEP;
    let mut run =
        Run { steps: &chain.steps, scratch, left: steps_max, bytes_left, is_given_up: false };
    let outcome = run.from(0, place);
    if run.is_given_up {
        run.scratch.step_limit_hits += 1;
    }
    outcome == ChainResult::Holds
}

/// Bytes that searches may go over for each step that may be taken, besides all of them once for
/// each test.
const BYTES_PER_STEP: u64 = 256;

/// One evaluation.
struct Run<'r> {
    steps: &'r [TestStep],
    scratch: &'r mut Scratch,
    left: u32,
    bytes_left: u64,
    is_given_up: bool,
}

impl<'r> Run<'r> {
    /// The tests from number `at` on.
    fn from(&mut self, mut at: usize, mut place: TestPosition<'_>) -> ChainResult {
        let steps = self.steps;
        while let Some(step) = steps.get(at) {
            if self.left == 0 || self.bytes_left == 0 {
                self.is_given_up = true;
                return ChainResult::FailsForGood;
            }
            self.left -= 1;
            let passed = match &step.test {
                Test::Content(content) if !content.0.is_negated => {
                    return self.content(at, &content.0, &content.1, place);
                }
                Test::Regex { is_negated: false, .. } => return self.regex(at, place),
                Test::Content(content) => {
                    self.is_absent(&content.0, &content.1, place).then_some(place.last)
                }
                Test::Regex { is_relative, .. } => {
                    let found = self.find_regex(at, subject(*is_relative, place), 0);
                    (found == RegexResult::None).then_some(place.last)
                }
                Test::Plain(test) => match test {
                    PayloadTest::ByteExtract { slot, .. } | PayloadTest::ByteMath { slot, .. } => {
                        return self.extraction(at, test, usize::from(*slot), place);
                    }
                    test => plain(test, place, &mut self.scratch.slots),
                },
            };
            match passed {
                Some(last) => place.last = last,
                None => return step.failure(),
            }
            at += 1;
        }
        ChainResult::Holds
    }

    /// Each place of a content, and from there the rest.
    fn content(
        &mut self,
        at: usize,
        content: &Content,
        searcher: &Searcher,
        place: TestPosition<'_>,
    ) -> ChainResult {
        let step = &self.steps[at];
        let window = window(content, place, &self.scratch.slots);
        let Some((mut from, to)) = window.in_buffer(content, searcher, &place) else {
            return step.failure();
        };
        while let Some(found) = self.find(searcher, place.bytes, from..to) {
            let last = place.start + (found + searcher.len()) as i64;
            match self.from(at + 1, TestPosition { last, ..place }) {
                ChainResult::Fails if step.is_retried => from = found + 1,
                ChainResult::Fails => break,
                outcome => return outcome,
            }
        }
        step.failure()
    }

    fn is_absent(
        &mut self,
        content: &Content,
        searcher: &Searcher,
        place: TestPosition<'_>,
    ) -> bool {
        let window = window(content, place, &self.scratch.slots);
        if place.start > 0 && window.to <= place.start {
            return false;
        }
        let within = window.in_buffer(content, searcher, &place);
        within.is_none_or(|(from, to)| self.find(searcher, place.bytes, from..to).is_none())
    }

    /// Each match of an expression, and from there the rest.
    fn regex(&mut self, at: usize, place: TestPosition<'_>) -> ChainResult {
        let step = &self.steps[at];
        let is_relative = matches!(step.test, Test::Regex { is_relative: true, .. });
        let subject = subject(is_relative, place);
        let skipped = (place.bytes.len() - subject.len()) as i64;
        let mut from = 0;
        while let RegexResult::Match(found) = self.find_regex(at, subject, from) {
            let last = place.start + skipped + found.end as i64;
            match self.from(at + 1, TestPosition { last, ..place }) {
                // The next starts at least one byte later, also where `\K` moved the start.
                ChainResult::Fails if step.is_retried => from = from.max(found.start) + 1,
                ChainResult::Fails => break,
                outcome => return outcome,
            }
        }
        step.failure()
    }

    /// Restores the slot afterwards, for the next match of an earlier test.
    fn extraction(
        &mut self,
        at: usize,
        test: &PayloadTest,
        slot: usize,
        place: TestPosition<'_>,
    ) -> ChainResult {
        let before = self.scratch.slots[slot];
        let outcome = match plain(test, place, &mut self.scratch.slots) {
            Some(last) => self.from(at + 1, TestPosition { last, ..place }),
            None => self.steps[at].failure(),
        };
        self.scratch.slots[slot] = before;
        outcome
    }

    fn find(&mut self, searcher: &Searcher, bytes: &[u8], window: Range<usize>) -> Option<usize> {
        let found = searcher.find(bytes, window.clone());
        let end = found.map_or(window.end, |at| at + searcher.len());
        self.spend(end.saturating_sub(window.start));
        found
    }

    /// A match of the expression of step `at`, at `from` or later.
    fn find_regex(&mut self, at: usize, subject: &[u8], from: usize) -> RegexResult {
        let Test::Regex { regex, is_anchored, .. } = &self.steps[at].test else {
            return RegexResult::None;
        };
        let found = regex.find_at(&mut self.scratch.regex, subject, from);
        let end = match &found {
            RegexResult::Match(found) => found.end,
            RegexResult::None if *is_anchored => from,
            RegexResult::None | RegexResult::Limit => subject.len(),
        };
        self.spend(end.saturating_sub(from));
        self.scratch.regex_limit_hits += u64::from(found == RegexResult::Limit);
        found
    }

    /// Counts bytes that were searched.
    fn spend(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
    }
}

impl TestStep {
    fn failure(&self) -> ChainResult {
        if self.is_independent { ChainResult::FailsForGood } else { ChainResult::Fails }
    }
}

/// The bytes that an expression is matched in: for a relative one, those after the last match.
fn subject<'a>(is_relative: bool, place: TestPosition<'a>) -> &'a [u8] {
    if is_relative { &place.bytes[place.index(place.last)..] } else { place.bytes }
}

/// Positions that a content must lie in.
struct Window {
    from: i64,
    to: i64,
}

impl Window {
    /// The same as indices of the buffer; `None` if the content cannot lie there. At the end there
    /// is only one place.
    fn in_buffer(
        &self,
        content: &Content,
        searcher: &Searcher,
        place: &TestPosition<'_>,
    ) -> Option<(usize, usize)> {
        let (from, to) = (place.index(self.from), place.index(self.to));
        if self.from > self.to || from + searcher.len() > to {
            return None;
        }
        if !content.ends {
            return Some((from, to));
        }
        let at = place.bytes.len() - searcher.len().min(place.bytes.len());
        let is_there = self.to >= place.end() && at >= from && searcher.is_at(place.bytes, at);
        is_there.then_some((at, to))
    }
}

fn window(content: &Content, place: TestPosition<'_>, slots: &Slots) -> Window {
    let value = |value: Option<Value>| value.map(|value| signed(value, slots));
    let offset = value(content.offset).unwrap_or(0).max(0);
    if content.starts {
        return Window { from: 0, to: content.bytes.len() as i64 };
    }
    if !content.is_relative() {
        let depth = value(content.depth).unwrap_or(i64::MAX);
        return Window { from: offset, to: offset.saturating_add(depth) };
    }
    let base = place.last.saturating_add(value(content.distance).unwrap_or(0));
    let within = value(content.within).map_or(i64::MAX, |within| base.saturating_add(within));
    // As with Suricata, an end that would lie before the start bounds nothing.
    let within = if within < 0 { i64::MAX } else { within };
    let depth = value(content.depth).map_or(i64::MAX, |depth| place.last.saturating_add(depth));
    Window { from: base.max(offset), to: within.min(depth) }
}

/// Runs a test that can pass in one way only. Returns the end of the last match from then on;
/// `None` if the test fails.
fn plain(test: &PayloadTest, place: TestPosition<'_>, slots: &mut Slots) -> Option<i64> {
    let holds = match test {
        PayloadTest::IsDataAt { at, is_relative, is_negated } => {
            let at = signed(*at, slots);
            let is_there = match is_relative {
                true => place.last.saturating_add(at) <= place.end(),
                false => at < place.end(),
            };
            is_there != *is_negated
        }
        PayloadTest::Bsize(span) => span.contains(place.end().max(0) as u64),
        number => return numbers::run(number, place, slots),
    };
    holds.then_some(place.last)
}
