//! `classification.config` and `reference.config`: the classes and the systems of references that
//! rules name.

use std::collections::HashMap;
use std::sync::Arc;

use super::lines::{Line, Lines, shown};
use super::piece::{Piece, Read, Refusal};
use warpline_config::Diagnostics;
use warpline_config::{Diagnostic, SourceText};

/// Classes and systems of references.
#[derive(Clone, Debug, Default)]
pub struct Configs {
    classes: HashMap<Box<str>, Class>,
    /// By name in lower case.
    references: HashMap<Box<str>, Arc<str>>,
}

/// A class of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The description in alerts.
    pub description: Arc<str>,
    /// 1 is the most severe.
    pub priority: u8,
}

impl Configs {
    /// The class that rules call `name`.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(name)
    }

    /// The text before the identifiers of a system; its name may be in any case.
    pub fn reference_url(&self, system: &str) -> Option<&Arc<str>> {
        self.references.get(&*system.to_ascii_lowercase())
    }

    /// Whether a system is known, or none is, as without a `reference.config`.
    pub(super) fn knows_reference(&self, system: &str) -> bool {
        self.references.is_empty() || self.reference_url(system).is_some()
    }

    /// Reads a `classification.config`, lines of `config classification:
    /// name,description,priority`. The first of a name counts.
    pub fn read_classification(&mut self, file: &SourceText, mistakes: &mut Diagnostics) {
        each_line(file, mistakes, |line| {
            let form = "config classification: name,description,priority";
            let wrong = || line.expected("this is not a class", form);
            let value =
                line.strip("config").and_then(|l| l.strip("classification")).ok_or_else(wrong)?;
            let value = value.strip(":").ok_or_else(wrong)?;
            let (name, rest) =
                value.split_once(",").filter(|(n, _)| !n.is_empty()).ok_or_else(wrong)?;
            let comma = rest.text.rfind(',').ok_or_else(wrong)?;
            let priority = rest.behind(comma + 1).trim();
            let Some(priority) = priority.decimal::<u8>().ok().filter(|p| *p > 0) else {
                return Err(priority.expected("this is not a priority", "1 to 255"));
            };
            let description = shown(rest.part(0..comma).trim().text).into();
            let class = Class { description, priority };
            self.classes.entry(name.text.into()).or_insert(class);
            Ok(())
        });
    }

    /// Reads a `reference.config`, lines of `config reference: system url`. The first of a name
    /// counts.
    pub fn read_reference(&mut self, file: &SourceText, mistakes: &mut Diagnostics) {
        each_line(file, mistakes, |line| {
            let wrong = || line.expected("this is not a reference", "config reference: system url");
            let value =
                line.strip("config").and_then(|l| l.strip("reference")).ok_or_else(wrong)?;
            let (system, url) = value.strip(":").ok_or_else(wrong)?.word();
            if system.is_empty() || url.is_empty() {
                return Err(wrong());
            }
            let system = system.text.to_ascii_lowercase().into();
            self.references.entry(system).or_insert_with(|| shown(url.text).into());
            Ok(())
        });
    }
}

/// Calls `read` with each line, comments left out, and notes what it refuses.
pub(super) fn each_line(
    file: &SourceText,
    mistakes: &mut Diagnostics,
    mut read: impl FnMut(Piece<'_>) -> Read<()>,
) {
    for line in Lines::new(file.text.as_bytes()) {
        let refused = read(Piece::new(&line.text).trim());
        if let Err(refusal) = refused {
            mistakes.push(reported(&line, file, refusal));
        }
    }
}

/// A refusal as a mistake: an unsupported line of these files is not skipped.
fn reported(line: &Line<'_>, file: &SourceText, refusal: Refusal) -> Diagnostic {
    let fault = match refusal {
        Refusal::Broken(fault) => *fault,
        Refusal::Held(need) => unsupported(&line.text, need.to_string()),
        Refusal::Skipped(why) => unsupported(&line.text, why),
    };
    line.mistake(file, fault)
}

fn unsupported(line: &str, what: String) -> super::piece::Fault {
    super::piece::Fault {
        at: 0..line.len(),
        message: format!("{what} is not supported"),
        help: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_references_are_read() {
        let mut mistakes = Diagnostics::default();
        let mut configs = Configs::default();
        assert!(configs.knows_reference("anything"));
        let text = "# comment\nconfig classification: web-application-attack,Web Application \
                    Attack,1\n\
                    config classification: not-suspicious, Not Suspicious, really , 3\r\n\
                    config classification: not-suspicious,again,1\nconfig classification: x,y\n\
                    config classification: x,y,0\nfoo";
        configs.read_classification(&SourceText::new("c.config", text), &mut mistakes);
        let class = configs.class("web-application-attack").unwrap();
        assert_eq!((&*class.description, class.priority), ("Web Application Attack", 1));
        let class = configs.class("not-suspicious").unwrap();
        assert_eq!((&*class.description, class.priority), ("Not Suspicious, really", 3));
        let text = "config reference: cve  https://cve.org/?name=\nconfig reference: McAfee x\n\
                    config reference: y";
        configs.read_reference(&SourceText::new("r.config", text), &mut mistakes);
        assert_eq!(configs.reference_url("CVE").map(|u| &**u), Some("https://cve.org/?name="));
        assert!(configs.knows_reference("mcafee") && !configs.knows_reference("url"));
        let reported: Vec<_> = mistakes.iter().map(|d| (&*d.file, d.line, d.column)).collect();
        let expected =
            [("c.config", 5, 1), ("c.config", 6, 28), ("c.config", 7, 1), ("r.config", 3, 1)];
        assert_eq!(reported, expected);
    }
}
