//! Parses files of rules into a [`RuleSet`]: valid rules are applied, the rest is reported.

use core::fmt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::draft::{Context, Draft};
use super::group::Variables;
use super::lines::{Line, Lines, RULE_BYTES_MAX};
use super::option::{self, ReadRule};
use super::piece::{Fault, Piece, Refusal};
use super::{Configs, Held, Names, Rule, SourceLine};
use warpline_config::SourceText;
use warpline_config::{Diagnostic, Diagnostics};

/// Which language a file of rules is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Suricata 7 and 8.
    #[default]
    Suricata,
    /// Snort 2.9.
    Snort,
}

/// A file of rules.
#[derive(Clone, Debug)]
pub struct RuleFile<'a> {
    /// The name in messages.
    pub name: Arc<str>,
    /// The contents: text, possibly with bytes that are not UTF-8.
    pub bytes: &'a [u8],
    /// Its language.
    pub dialect: Dialect,
}

/// The rules of all files.
#[derive(Debug, Default)]
pub struct RuleSet {
    /// Rules to apply, in the order they stand in.
    pub rules: Vec<Rule>,
    /// The files' names, which [`SourceLine::file`] counts.
    pub files: Vec<Arc<str>>,
    /// Rules that need an unsupported feature.
    pub held: Held,
    /// Invalid rules.
    pub broken: Diagnostics,
    /// Warnings about valid rules.
    pub notices: Diagnostics,
    /// Rules to apply whose class name is unknown.
    pub unclassified: usize,
    /// Files, as places in `files`, that have lines but no rule; each with its first mistake.
    pub strange: Vec<(usize, Diagnostic)>,
    /// Rules excluded by their own `requires`, by the unsatisfied requirement.
    pub skipped: BTreeMap<String, usize>,
    /// Rules left out because another of the same `gid` and `sid` counts: an earlier one of at
    /// least the same revision, or a later one of a higher revision.
    pub replaced: usize,
    /// The texts of flowbits, flowints and xbits.
    pub names: Names,
}

impl RuleSet {
    /// The number of rules read, applied or not.
    pub fn count(&self) -> usize {
        let skipped: usize = self.skipped.values().sum();
        self.rules.len() + self.held.count() + self.broken.count() + skipped + self.replaced
    }

    /// The numbers that [`fmt::Display`] prints, and the `sid`s of the unsupported rules.
    pub fn to_json(&self) -> Value {
        let families = self.held.by_family().into_iter().map(|(f, n)| (f, n.into()));
        let skipped = self.skipped.iter().map(|(why, n)| (why.clone(), (*n).into()));
        json!({
            "rules": self.count(),
            "active": self.rules.len(),
            "held": self.held.count(),
            "broken": self.broken.count(),
            "unclassified": self.unclassified,
            "replaced": self.replaced,
            "skipped": serde_json::Map::from_iter(skipped),
            "needed": serde_json::Map::from_iter(families),
            "held_by": self.held.to_json(),
        })
    }
}

/// `9,812 of 27,004 rules active; 11,030 need http.*; ...`, in one line.
impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rules active", grouped(self.rules.len()), grouped(self.count()))?;
        for (family, count) in self.held.by_family() {
            write!(f, "; {} need {family}", grouped(count))?;
        }
        let skipped = self.skipped.values().sum();
        let rest = [
            (self.broken.count(), "broken"),
            (skipped, "for another engine"),
            (self.replaced, "replaced"),
            (self.unclassified, "of no known class"),
        ];
        for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {} {what}", grouped(count))?;
        }
        Ok(())
    }
}

/// A number with a comma before each three digits.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Parses files of rules. Invalid rules are reported in `broken`, unsupported ones are in `held`,
/// and the others are in `rules`. Comments are left out, also those that contain disabled rules.
pub fn read(files: &[RuleFile<'_>], variables: &Variables, configs: &Configs) -> RuleSet {
    let mut reader = Reader {
        context: Context::new(variables, configs),
        set: RuleSet::default(),
        known: HashMap::new(),
        gone: [HashSet::new(), HashSet::new()],
    };
    for (number, file) in files.iter().enumerate() {
        let source = SourceText::new(Arc::clone(&file.name), "");
        reader.set.files.push(Arc::clone(&file.name));
        reader.context.unknown_keywords = 0;
        let (mut lines, mut wrong) = (0, 0);
        for line in Lines::new(file.bytes) {
            let place = SourceLine { file: number as u16, line: line.first };
            lines += 1;
            wrong += usize::from(!reader.line(&line, place, file.dialect, &source));
        }
        if lines > 0 && wrong == lines {
            let first = reader.set.broken.iter().find(|broken| broken.file == file.name);
            reader.set.strange.extend(first.map(|first| (number, first.clone())));
        }
    }
    reader.finish()
}

/// Where the rule of a `sid` is: among the active or the held ones.
#[derive(Clone, Copy)]
struct RuleSlot {
    is_held: bool,
    at: usize,
    rev: u32,
    place: SourceLine,
}

struct Reader<'c> {
    context: Context<'c>,
    set: RuleSet,
    /// By `gid` and `sid`.
    known: HashMap<(u32, u32), RuleSlot>,
    /// Rules that a later revision takes the place of: active ones, held ones.
    gone: [HashSet<usize>; 2],
}

impl Reader<'_> {
    /// Parses a line; returns whether it is a rule, applied or not.
    fn line(
        &mut self,
        line: &Line<'_>,
        place: SourceLine,
        dialect: Dialect,
        source: &SourceText,
    ) -> bool {
        let text = Piece::new(&line.text);
        let mut draft = Draft { dialect, ..Draft::default() };
        (draft.about.gid, draft.about.priority) = (1, 3);
        let outcome = if line.is_cut {
            let help = format!("{RULE_BYTES_MAX} bytes at most");
            Err(text.part(0..0).expected("the rule is too long", help))
        } else {
            option::rule(text, place, &mut draft, &mut self.context)
        };
        for notice in draft.notices.drain(..) {
            self.set.notices.push(line.mistake(source, notice));
        }
        let rev = draft.about.rev;
        match outcome {
            Ok(ReadRule::Active(rule)) => {
                let key = (rule.about.gid, rule.about.sid);
                let kept = RuleSlot {
                    is_held: false,
                    at: self.set.rules.len(),
                    rev: rule.about.rev,
                    place,
                };
                if self.is_newest(key, kept, line, source) {
                    self.set.rules.push(*rule);
                    self.set.unclassified += usize::from(draft.said.unknown_class);
                }
            }
            Ok(ReadRule::Held) => {
                let (gid, sid) = (draft.about.gid, draft.about.sid);
                let kept = RuleSlot { is_held: true, at: self.set.held.count(), rev, place };
                if self.is_newest((gid, sid), kept, line, source) {
                    self.set.held.push(place, gid, sid, &draft.needs);
                }
            }
            Err(Refusal::Broken(fault)) => {
                self.set.broken.push(line.mistake(source, *fault));
                return false;
            }
            Err(Refusal::Skipped(why)) => *self.set.skipped.entry(why).or_default() += 1,
            Err(Refusal::Held(need)) => {
                let (gid, sid) = (draft.about.gid, draft.about.sid);
                self.set.held.push(place, gid, sid, &[need]);
            }
        }
        true
    }

    /// Of the rules with one `sid` the first of the highest revision counts.
    fn is_newest(
        &mut self,
        key: (u32, u32),
        new: RuleSlot,
        line: &Line<'_>,
        source: &SourceText,
    ) -> bool {
        let Some(old) = self.known.get(&key).copied() else {
            self.known.insert(key, new);
            return true;
        };
        let is_newest = new.rev > old.rev;
        let other = &self.set.files[usize::from(old.place.file)];
        let which = if is_newest { "this newer one counts" } else { "that one counts" };
        let message = format!("sid {} is also in {other}:{}: {which}", key.1, old.place.line);
        let notice = Fault { at: 0..0, message, help: None };
        self.set.notices.push(line.mistake(source, notice));
        self.set.replaced += 1;
        if is_newest {
            self.gone[usize::from(old.is_held)].insert(old.at);
            self.known.insert(key, new);
        }
        is_newest
    }

    fn finish(self) -> RuleSet {
        let Self { mut set, gone: [active, held], context, .. } = self;
        set.names = context.into_names();
        let mut place = 0..;
        set.rules.retain(|_| place.next().is_some_and(|at| !active.contains(&at)));
        set.held.keep(|at| !held.contains(&at));
        set
    }
}
