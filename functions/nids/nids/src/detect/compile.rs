//! Compiles the payload tests of a rule: expressions, searchers, and the dependencies between tests
//! (see [`chain`](super::chain)).

use std::collections::BTreeSet;

use warpline_native::regex::{Flags, Limits, Regex};

use super::chain::{Chain, Test, TestStep};
use super::searcher::Searcher;
use warpline_nids_rules::{Content, Number, PayloadTest, Pcre, Value};

/// The most payload tests of a rule: evaluation nests as deep.
pub(super) const TESTS_MAX: usize = 256;

/// Compiles `tests`.
///
/// # Errors
/// A sentence that says why the tests cannot be compiled.
pub(super) fn compile(tests: &[PayloadTest], limits: Limits) -> Result<Chain, String> {
    if tests.len() > TESTS_MAX {
        return Err(format!("{} payload tests; at most {TESTS_MAX} can be decided", tests.len()));
    }
    let needs = needs(tests);
    let step = |(at, test): (usize, &PayloadTest)| {
        Ok(TestStep {
            test: compile_one(test, limits)?,
            is_retried: is_retried(tests, &needs, at),
            is_independent: needs[at].is_empty(),
        })
    };
    let read_first = needs[0].iter().filter_map(|kept| match kept {
        EvalState::Slot(slot) => Some(usize::from(*slot) + 1),
        EvalState::Last => None,
    });
    let cleared = read_first.max().unwrap_or(0);
    let steps = tests.iter().enumerate().map(step).collect::<Result<_, String>>()?;
    Ok(Chain { steps, cleared })
}

fn compile_one(test: &PayloadTest, limits: Limits) -> Result<Test, String> {
    Ok(match test {
        PayloadTest::Content(content) => {
            let searcher = Searcher::new(&content.bytes, content.is_nocase);
            Test::Content(Box::new((content.clone(), searcher)))
        }
        PayloadTest::Pcre(pcre) => {
            let regex =
                Regex::new(&pcre.pattern, flags(pcre), limits).map_err(|e| format!("pcre: {e}"))?;
            Test::Regex {
                regex,
                is_negated: pcre.is_negated,
                is_relative: pcre.is_relative,
                is_anchored: is_anchored(pcre),
            }
        }
        other => Test::Plain(other.clone()),
    })
}

/// Whether it is tried at one place only: by its flag, or as it begins with `^` whatever it
/// chooses.
fn is_anchored(pcre: &Pcre) -> bool {
    pcre.is_anchored
        || (!pcre.is_multi_line
            && pcre.pattern.first() == Some(&b'^')
            && !has_choice(&pcre.pattern))
}

/// Whether there is a `|` outside of all groups.
fn has_choice(pattern: &[u8]) -> bool {
    let (mut depth, mut is_set, mut bytes) = (0, false, pattern.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b']' => is_set = false,
            _ if is_set => {}
            b'[' => is_set = true,
            b'(' => depth += 1,
            b')' => depth -= 1,
            b'|' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

fn flags(pcre: &Pcre) -> Flags {
    Flags {
        caseless: pcre.is_caseless,
        dotall: pcre.is_dot_all,
        multiline: pcre.is_multi_line,
        extended: pcre.is_extended,
        anchored: pcre.is_anchored,
        dollar_endonly: pcre.is_dollar_end,
        ungreedy: pcre.is_ungreedy,
    }
}

/// State that tests read or write during evaluation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvalState {
    /// Where the last match ended.
    Last,
    Slot(u8),
}

/// For each test, and one more for the end: the state that it and later tests read before they
/// write it. This is live-variable analysis, from the back.
fn needs(tests: &[PayloadTest]) -> Vec<BTreeSet<EvalState>> {
    let mut needs = vec![BTreeSet::new(); tests.len() + 1];
    for (at, test) in tests.iter().enumerate().rev() {
        let mut need: BTreeSet<EvalState> = needs[at + 1].clone();
        for kept in writes(test) {
            need.remove(&kept);
        }
        need.extend(reads(test));
        needs[at] = need;
    }
    needs
}

/// Whether a later match of the test could make the following tests hold after they failed at an
/// earlier one.
fn is_retried(tests: &[PayloadTest], needs: &[BTreeSet<EvalState>], at: usize) -> bool {
    let is_anchored = matches!(&tests[at], PayloadTest::Pcre(pcre) if pcre.is_anchored);
    if is_anchored || !needs[at + 1].contains(&EvalState::Last) {
        return false;
    }
    // A later match of a content ends later. So a content without an upper limit finds nothing from
    // there that it did not find before. A later match of an expression may end earlier.
    let is_content = matches!(tests[at], PayloadTest::Content(_));
    let reader = tests[at + 1..].iter().find(|test| reads(test).contains(&EvalState::Last));
    !(is_content && reader.is_some_and(is_unbounded))
}

fn is_unbounded(test: &PayloadTest) -> bool {
    let PayloadTest::Content(content) = test else { return false };
    let Content { is_negated, within, depth, .. } = content;
    !is_negated && within.is_none() && depth.is_none()
}

fn writes(test: &PayloadTest) -> Vec<EvalState> {
    match test {
        PayloadTest::Content(content) if !content.is_negated => vec![EvalState::Last],
        PayloadTest::Pcre(pcre) if !pcre.is_negated => vec![EvalState::Last],
        PayloadTest::ByteJump { .. } => vec![EvalState::Last],
        PayloadTest::ByteExtract { slot, .. } | PayloadTest::ByteMath { slot, .. } => {
            vec![EvalState::Last, EvalState::Slot(*slot)]
        }
        _ => Vec::new(),
    }
}

fn reads(test: &PayloadTest) -> Vec<EvalState> {
    let (is_relative, values) = match test {
        PayloadTest::Content(c) => (c.is_relative(), vec![c.offset, c.depth, c.distance, c.within]),
        PayloadTest::Pcre(pcre) => (pcre.is_relative, Vec::new()),
        PayloadTest::ByteTest { number, value, .. }
        | PayloadTest::ByteMath { number, value, .. } => number_reads(number, Some(*value)),
        PayloadTest::ByteJump { number, post_offset, .. } => {
            number_reads(number, Some(*post_offset))
        }
        PayloadTest::ByteExtract { number, .. } => number_reads(number, None),
        PayloadTest::IsDataAt { at, is_relative, .. } => (*is_relative, vec![Some(*at)]),
        PayloadTest::Bsize(_) => (false, Vec::new()),
    };
    let slots = values.into_iter().flatten().filter_map(|value| match value {
        Value::Slot(slot) => Some(EvalState::Slot(slot)),
        Value::Number(_) => None,
    });
    slots.chain(is_relative.then_some(EvalState::Last)).collect()
}

fn number_reads(number: &Number, value: Option<Value>) -> (bool, Vec<Option<Value>>) {
    (number.is_relative, vec![Some(number.bytes), Some(number.offset), value])
}
