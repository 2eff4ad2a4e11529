//! Rules of `iptables-save` and `ip6tables-save`: the forwarding chain and the chains that it leads
//! to.
//!
//! Unsupported conditions fail closed. A rule that accepts is left out, a rule that drops does so
//! without the condition, and a jump, goto or return is a mistake. Each case is reported; the chain
//! file selects whether the first two are mistakes too.

use crate::chains::{Chain, ChainRule, Chains, Then};
use crate::iptables_match::{self, SavedConditions};
use crate::rules::Action;
use crate::save_file::{self, SaveFile, SavedChain, SavedRule, SavedTable};
use crate::words::{Trouble, Word};
use crate::{Imported, Interfaces};
use warpline_config::SourceText;

/// Targets that decide nothing, and that do nothing here.
const SILENT: [&str; 5] = ["LOG", "NFLOG", "ULOG", "AUDIT", "TRACE"];
/// Targets that change something about the packet, or note it, and let it go on.
const PASSING: [&str; 17] = [
    "MARK",
    "CONNMARK",
    "CONNSECMARK",
    "SECMARK",
    "TCPMSS",
    "TTL",
    "HL",
    "DSCP",
    "TOS",
    "ECN",
    "CLASSIFY",
    "CHECKSUM",
    "SET",
    "RATEEST",
    "TEE",
    "IDLETIMER",
    "LED",
];
/// Targets that decide in a way of their own: no rule of them may be skipped.
const DECIDING: [&str; 10] = [
    "NFQUEUE",
    "QUEUE",
    "TPROXY",
    "SYNPROXY",
    "CT",
    "NOTRACK",
    "DNAT",
    "SNAT",
    "REDIRECT",
    "MASQUERADE",
];

/// Reads the rules for packets of `version` that enter `chain` of the table `filter`.
pub fn parse_iptables(
    source: &SourceText,
    version: u8,
    chain: &str,
    tracked: bool,
    interfaces: &Interfaces,
) -> Imported {
    let file = save_file::parse(source);
    let mut reader = Reader {
        source,
        version,
        tracked,
        interfaces,
        chains: Chains::default(),
        numbers: Vec::new(),
        due: Vec::new(),
        found: Imported { mistakes: file.mistakes.clone(), ..Imported::default() },
    };
    reader.file(&file, chain);
    reader.found
}

struct Reader<'a> {
    source: &'a SourceText,
    version: u8,
    tracked: bool,
    interfaces: &'a Interfaces,
    chains: Chains,
    /// The number that each of the file's chains has among `chains`, if any.
    numbers: Vec<Option<usize>>,
    /// Chains of the file that are still to be read, in the order of `chains`.
    due: Vec<usize>,
    found: Imported,
}

/// The result of reading a rule.
struct Read {
    step: Option<ChainRule>,
    unsupported: Vec<Trouble>,
    notice: Option<Trouble>,
    /// Whether it would accept, and is left out.
    accept_left_out: bool,
}

impl Reader<'_> {
    fn file(&mut self, file: &SaveFile<'_>, chain: &str) {
        if let Some(says_v6) = file.says_v6
            && says_v6 != (self.version == 6)
        {
            let (printed, key) =
                if says_v6 { ("ip6tables-save", "rules_v6") } else { ("iptables-save", "rules") };
            let message = format!("was printed by {printed}: `{key}` names such files");
            self.found.mistakes.push(self.source.whole(message));
        }
        for table in &file.tables {
            self.other_table(table);
        }
        let Some(table) = file.tables.iter().find(|table| table.name == "filter") else {
            self.found.mistakes.push(self.source.whole("has no table `filter`"));
            return;
        };
        let base = table.find(chain).and_then(|n| Some((n, table.chains[n].policy?)));
        let Some((base, policy)) = base else {
            let message = format!("has no base chain `{chain}` in its table `filter`");
            self.found.mistakes.push(self.source.whole(message));
            return;
        };
        let policy = if policy == "ACCEPT" { Action::Accept } else { Action::Drop };
        self.numbers = vec![None; table.chains.len()];
        let first = self.number(base, table);
        let mut next = 0;
        while let Some(&chain) = self.due.get(next) {
            for rule in &table.chains[chain].rules {
                self.rule(rule, table, next);
            }
            next += 1;
        }
        if !self.found.mistakes.is_empty() {
            return;
        }
        match self.chains.flatten(first, policy, self.version) {
            Ok(rules) => self.found.rules = rules,
            Err(unfit) => {
                let number = unfit.place as usize;
                let line = self.source.text.lines().nth(number.wrapping_sub(1)).unwrap_or("");
                let message = self.source.in_line(number, line, 0, line.len(), unfit.why);
                self.found.mistakes.push(message);
            }
        }
    }

    /// Rules of other tables may drop too; those of `nat` are for the translator.
    fn other_table(&mut self, table: &SavedTable<'_>) {
        if matches!(table.name, "filter" | "nat") {
            return;
        }
        let on_the_way = ["PREROUTING", "FORWARD", "POSTROUTING"];
        let met = table.chains.iter().filter(|chain| on_the_way.contains(&chain.name));
        for chain in met.filter(|chain| chain.policy == Some("DROP")) {
            let SavedChain { number, line, .. } = *chain;
            let message = format!("not supported: a policy DROP of the table `{}`", table.name);
            let mistake = self.source.in_line(number, line, 0, line.len(), message);
            self.found.mistakes.push(mistake);
        }
        for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
            let words = match rule.words() {
                Ok(words) => words,
                Err(trouble) => {
                    self.mistake(rule, trouble);
                    continue;
                }
            };
            let target = words.iter().position(|word| is_jump(*word));
            let target = target.and_then(|at| words.get(at + 1));
            // Each rule of a chain that another one leads to is looked at, too.
            let passes = |target: &&Word<'_>| {
                let is_target = DECIDING.contains(&target.text) || target.text == "REJECT";
                continues(target.text)
                    || matches!(target.text, "ACCEPT" | "RETURN")
                    || target.text != "DROP" && !is_target && table.find(target.text).is_some()
            };
            let what = Word::new(rule.line.trim(), 0);
            let subject = format!("a rule of the table `{}`", table.name);
            let is_lone = target.is_none() && !words.iter().any(|word| may_jump(*word));
            if is_lone || target.filter(passes).is_some() {
                self.unsupported(rule, what.unsupported(subject).help(LEFT_OUT));
            } else {
                self.mistake(rule, what.unsupported(subject));
            }
        }
    }

    /// Returns the number of the file's chain `saved`. A new chain is queued for reading.
    fn number(&mut self, saved: usize, table: &SavedTable<'_>) -> usize {
        if let Some(number) = self.numbers[saved] {
            return number;
        }
        let number = self.chains.list.len();
        let name = table.chains[saved].name.to_owned();
        self.chains.list.push(Chain { name, steps: Vec::new() });
        self.numbers[saved] = Some(number);
        self.due.push(saved);
        number
    }

    fn rule(&mut self, rule: &SavedRule<'_>, table: &SavedTable<'_>, chain: usize) {
        match self.read(rule, table) {
            Ok(read) => {
                self.chains.list[chain].steps.extend(read.step);
                self.found.accepts_left_out += usize::from(read.accept_left_out);
                let more = read.unsupported.len().saturating_sub(1);
                if let Some(first) = read.unsupported.into_iter().next() {
                    self.unsupported(rule, first.and_more(more));
                }
                if let Some(trouble) = read.notice {
                    let diagnostic = trouble.diagnostic(self.source, rule.number, rule.line);
                    self.found.notices.push(diagnostic);
                }
            }
            Err(trouble) => self.mistake(rule, trouble),
        }
    }

    fn mistake(&mut self, rule: &SavedRule<'_>, trouble: Trouble) {
        self.found.mistakes.push(trouble.diagnostic(self.source, rule.number, rule.line));
    }

    fn unsupported(&mut self, rule: &SavedRule<'_>, trouble: Trouble) {
        self.found.unsupported.push(trouble.diagnostic(self.source, rule.number, rule.line));
    }

    fn read(&mut self, rule: &SavedRule<'_>, table: &SavedTable<'_>) -> Result<Read, Trouble> {
        let words = rule.words()?;
        let SavedConditions { when, unsupported, presumes_crossing, target } =
            iptables_match::read(&words, self.version, self.tracked, self.interfaces)?;
        self.found.presumes_crossing |= presumes_crossing;
        let nothing =
            Read { step: None, unsupported: Vec::new(), notice: None, accept_left_out: false };
        let Some((jump, options)) = target else {
            // `-jDROP` and the like are read as a condition: no rule may be lost by that.
            let glued = words.iter().find(|word| !unsupported.is_empty() && may_jump(**word));
            return glued.map_or(Ok(nothing), |word| Err(word.wrong("targets are like `-j DROP`")));
        };
        let name = options.first().copied();
        let name = name.ok_or_else(|| jump.wrong("the line ends without a target"))?;
        // A chain takes precedence over a target of the same name.
        let is_chain = table.find(name.text).is_some();
        if is_silent(name) && !is_chain {
            let notice = Some(name.wrong("logging is not supported; the rule is skipped"));
            return Ok(Read { notice, ..nothing });
        }
        if PASSING.contains(&name.text) && !is_chain {
            let trouble = name.unsupported("this target").help(LEFT_OUT);
            return Ok(Read { unsupported: vec![trouble], ..nothing });
        }
        let then = self.target(jump, name, &options[1..], table)?;
        let mut unsupported = unsupported.into_iter().peekable();
        if let (Some(_), Then::Jump(_) | Then::Goto(_) | Then::Return) = (unsupported.peek(), then)
        {
            let Some(first) = unsupported.next() else { return Ok(nothing) };
            return Err(first.help("a rule that changes the chain cannot be skipped"));
        }
        let is_whole = unsupported.peek().is_none();
        let help = if then == Then::Decide(Action::Accept) { LEFT_OUT } else { WIDENED };
        let unsupported = unsupported.map(|trouble| trouble.help(help)).collect();
        let kept = is_whole || then == Then::Decide(Action::Drop);
        let (v4, v6) = if self.version == 4 { (Some(when), None) } else { (None, Some(when)) };
        let step = ChainRule { when: [v4, v6], then, place: rule.number as u32 };
        let accept_left_out = !kept && then == Then::Decide(Action::Accept);
        Ok(Read { step: kept.then_some(step), unsupported, accept_left_out, ..nothing })
    }

    fn target(
        &mut self,
        jump: Word<'_>,
        name: Word<'_>,
        options: &[Word<'_>],
        table: &SavedTable<'_>,
    ) -> Result<Then, Trouble> {
        let goto = matches!(jump.text, "-g" | "--goto");
        let then = match name.text {
            "ACCEPT" if !goto => Then::Decide(Action::Accept),
            "DROP" | "REJECT" if !goto => Then::Decide(Action::Drop),
            "RETURN" if !goto => Then::Return,
            _ => {
                let saved = table.find(name.text).filter(|&n| table.chains[n].policy.is_none());
                let help = "targets: ACCEPT, DROP, REJECT, RETURN, LOG, or a chain of the file";
                let is_known = DECIDING.contains(&name.text);
                let why = if is_known { "this target is not supported" } else { "no such target" };
                let saved = saved.ok_or_else(|| name.wrong(why).help(help))?;
                let number = self.number(saved, table);
                if goto { Then::Goto(number) } else { Then::Jump(number) }
            }
        };
        match options.first() {
            Some(more) if name.text != "REJECT" => Err(more.wrong("a rule ends before this")),
            _ => Ok(then),
        }
    }
}

pub(crate) const LEFT_OUT: &str = "unsupported = \"skip\" skips the rule";
pub(crate) const WIDENED: &str = "unsupported = \"skip\" drops without this condition";

/// Whether packets continue after this target, whatever its options.
pub(crate) fn continues(target: &str) -> bool {
    PASSING.contains(&target) || SILENT.contains(&target)
}

fn is_silent(name: Word<'_>) -> bool {
    SILENT.contains(&name.text)
}

fn is_jump(word: Word<'_>) -> bool {
    !word.quoted && matches!(word.text, "-j" | "-g" | "--jump" | "--goto")
}

/// Whether a word may have a target in it, as in `-jDROP`, `--jump=DROP` and `--jum`.
fn may_jump(word: Word<'_>) -> bool {
    let begins = |start| word.text.starts_with(start);
    !word.quoted && ["-j", "-g", "--j", "--g"].into_iter().any(begins)
}
