//! Parses the output of `iptables-save` and `ip6tables-save` into tables, chains and lines of
//! rules. Other modules interpret the rules.
//!
//! ```text
//! *filter
//! :FORWARD DROP [0:0]
//! :web - [0:0]
//! [12:345] -A FORWARD -p tcp -m tcp --dport 80 -j web
//! COMMIT
//! ```

use std::collections::HashMap;

use crate::rules::RULES_MAX;
use crate::words::{Trouble, Word};
use warpline_config::{Diagnostics, SourceText};

/// Words that a rule may have.
const WORDS_MAX: usize = 512;

/// A file.
#[derive(Debug, Default)]
pub struct SaveFile<'a> {
    /// Its tables, in order.
    pub tables: Vec<SavedTable<'a>>,
    /// Whether a comment says that it was printed by `ip6tables-save`; the last one counts.
    pub says_v6: Option<bool>,
    /// Lines that do not read.
    pub mistakes: Diagnostics,
}

/// A table.
#[derive(Debug)]
pub struct SavedTable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its chains, in order.
    pub chains: Vec<SavedChain<'a>>,
    numbers: HashMap<&'a str, usize>,
}

/// A chain.
#[derive(Debug)]
pub struct SavedChain<'a> {
    /// Its name.
    pub name: &'a str,
    /// `ACCEPT` or `DROP` where it is a base chain.
    pub policy: Option<&'a str>,
    /// Its rules, in order.
    pub rules: Vec<SavedRule<'a>>,
    /// The number of its line, from 1.
    pub number: usize,
    /// The text of its line.
    pub line: &'a str,
    /// Where its name begins in the line.
    at: usize,
}

/// The line of a rule.
#[derive(Clone, Copy, Debug)]
pub struct SavedRule<'a> {
    /// From 1.
    pub number: usize,
    /// The text of the line.
    pub line: &'a str,
    /// Where the text after `-A CHAIN` begins.
    at: usize,
}

/// Whether a text is in this form: its first line other than blanks and comments begins a table.
pub fn is_iptables(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.starts_with('*'))
}

/// Reads a file; every line that doesn't read is a mistake.
pub fn parse(source: &SourceText) -> SaveFile<'_> {
    let mut reader = Reader { file: SaveFile::default(), open: false, rules: 0 };
    let (mut last_number, mut last) = (1, "");
    for (number, line) in (1..).zip(source.text.lines()) {
        (last_number, last) = (number, line);
        if let Err(trouble) = reader.line(number, line) {
            reader.file.mistakes.push(trouble.diagnostic(source, number, line));
        }
        if reader.rules > RULES_MAX {
            break;
        }
    }
    if reader.open && reader.rules <= RULES_MAX {
        let end = Word::new("", last.len());
        let reported = end.wrong("the file ends before the table's `COMMIT`");
        reader.file.mistakes.push(reported.diagnostic(source, last_number, last));
    }
    reader.file
}

struct Reader<'a> {
    file: SaveFile<'a>,
    /// Whether the last table has not ended yet.
    open: bool,
    /// Rules and chains so far.
    rules: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, line: &'a str) -> Result<(), Trouble> {
        let text = line.trim();
        let at = line.len() - line.trim_start().len();
        match text.as_bytes().first() {
            None => Ok(()),
            Some(b'#') => {
                if text.contains("tables-save") {
                    self.file.says_v6 = Some(text.contains("ip6tables-save"));
                }
                Ok(())
            }
            Some(b'*') => self.table(Word::new(&text[1..], at + 1)),
            Some(b':') => self.chain(number, line, at + 1),
            _ if text == "COMMIT" && self.open => {
                self.open = false;
                Ok(())
            }
            _ => self.rule(number, line),
        }
    }

    fn table(&mut self, name: Word<'a>) -> Result<(), Trouble> {
        if self.open {
            return Err(name.wrong("the table before has no `COMMIT`"));
        }
        if self.file.tables.iter().any(|table| table.name == name.text) {
            let help = "the rules of ip6tables are in a file of their own";
            return Err(name.wrong("the file has this table already").help(help));
        }
        // Few there are, and each is compared with all.
        const TABLES: [&str; 5] = ["filter", "nat", "mangle", "raw", "security"];
        if !TABLES.contains(&name.text) {
            return Err(name.wrong("not a table").help(format!("tables: {}", TABLES.join(", "))));
        }
        let (chains, numbers) = (Vec::new(), HashMap::new());
        self.file.tables.push(SavedTable { name: name.text, chains, numbers });
        self.open = true;
        Ok(())
    }

    fn open_table(&mut self, word: Word<'_>) -> Result<&mut SavedTable<'a>, Trouble> {
        let open = self.open;
        let table = self.file.tables.last_mut().filter(|_| open);
        table.ok_or_else(|| word.wrong("stands in no table").help("tables are like `*filter`"))
    }

    fn count(&mut self, word: Word<'_>) -> Result<(), Trouble> {
        self.rules += 1;
        if self.rules > RULES_MAX {
            return Err(word.wrong(format!("more than {RULES_MAX} rules and chains")));
        }
        Ok(())
    }

    /// `:NAME POLICY [PACKETS:BYTES]`
    fn chain(&mut self, number: usize, line: &'a str, at: usize) -> Result<(), Trouble> {
        let mut words = words(line, at)?.into_iter();
        let end = Word::new("", line.len());
        let name = words.next().ok_or_else(|| end.wrong("a chain has a name"))?;
        self.count(name)?;
        let policy = words.next().ok_or_else(|| end.wrong("a chain has a policy, or `-`"))?;
        let policy = match policy.text {
            "-" => None,
            "ACCEPT" | "DROP" => Some(policy.text),
            _ => return Err(policy.wrong("not a policy").help("policies: ACCEPT, DROP, or -")),
        };
        let table = self.open_table(name)?;
        if table.numbers.contains_key(name.text) {
            return Err(name.wrong("the table has this chain already"));
        }
        table.numbers.insert(name.text, table.chains.len());
        let (name, rules) = (name.text, Vec::new());
        table.chains.push(SavedChain { name, policy, rules, number, line, at });
        Ok(())
    }

    /// `[PACKETS:BYTES] -A CHAIN ...`
    fn rule(&mut self, number: usize, line: &'a str) -> Result<(), Trouble> {
        let mut at = line.len() - line.trim_start().len();
        let mut word = word(line, &mut at)?;
        if let Some(counters) = word
            && counters.text.starts_with('[')
        {
            word = self::word(line, &mut at)?;
        }
        let end = Word::new("", line.len());
        let word = word.ok_or_else(|| end.wrong("the line ends where `-A` is due"))?;
        if !matches!(word.text, "-A" | "--append") {
            let help = "lines are `*TABLE`, `:CHAIN POLICY`, `-A CHAIN ...`, `COMMIT`";
            return Err(word.wrong("iptables-save prints no such line").help(help));
        }
        self.count(word)?;
        let name = self::word(line, &mut at)?;
        let name = name.ok_or_else(|| end.wrong("the line ends where a chain is due"))?;
        let table = self.open_table(name)?;
        let chain = table.numbers.get(name.text).and_then(|&n| table.chains.get_mut(n));
        let chain = chain.ok_or_else(|| name.wrong("the table has no such chain"))?;
        chain.rules.push(SavedRule { number, line, at });
        Ok(())
    }
}

impl<'a> SavedTable<'a> {
    /// The number of the chain called `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }
}

impl<'a> SavedChain<'a> {
    /// The name, with its place in the line.
    pub fn word(&self) -> Word<'a> {
        Word::new(self.name, self.at)
    }
}

impl<'a> SavedRule<'a> {
    /// The words after `-A CHAIN`.
    pub fn words(&self) -> Result<Vec<Word<'a>>, Trouble> {
        words(self.line, self.at)
    }
}

fn words(line: &str, mut at: usize) -> Result<Vec<Word<'_>>, Trouble> {
    let mut words = Vec::new();
    while let Some(word) = word(line, &mut at)? {
        if words.len() == WORDS_MAX {
            return Err(word.wrong(format!("more than {WORDS_MAX} words")));
        }
        words.push(word);
    }
    Ok(words)
}

/// The next word: up to a blank, or in double quotes, where a backslash escapes the next character.
/// Quotes are removed and backslashes stay, as quoted text is never interpreted.
fn word<'a>(line: &'a str, at: &mut usize) -> Result<Option<Word<'a>>, Trouble> {
    let rest = line.get(*at..).unwrap_or("");
    let text = rest.trim_start();
    let start = *at + rest.len() - text.len();
    if text.is_empty() {
        return Ok(None);
    }
    let Some(quoted) = text.strip_prefix('"') else {
        let text = text.split_whitespace().next().unwrap_or("");
        *at = start + text.len();
        return Ok(Some(Word::new(text, start)));
    };
    let mut escaped = false;
    for (len, byte) in quoted.bytes().enumerate() {
        match byte {
            b'"' if !escaped => {
                *at = start + len + 2;
                return Ok(Some(Word::quoted(&quoted[..len], start + 1)));
            }
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Err(Word::new(text, start).wrong("the quotes are not closed"))
}
