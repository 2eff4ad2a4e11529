//! Makes the tables and the diagnostic about them from the files that the chain file names: rules,
//! variables, the .config files.

use std::collections::BTreeSet;
use std::time::Instant;

use warpline_packet::Seed;

use super::config::{self, Config};
use super::tables::Tables;
use super::{detect::Broken, reported};
use warpline_nf::{About, Diagnostic, Diagnostics, Resources, Section, SourceText};
use warpline_nids_rules::{
    Configs, Dialect, RuleFile, RuleSet, ThresholdFile, VariableKind, VariableMistake, Variables,
};

/// Default values of variables.
const VARIABLES: &[(&str, &str)] = &[
    ("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"),
    ("EXTERNAL_NET", "!$HOME_NET"),
    ("HTTP_SERVERS", "$HOME_NET"),
    ("SMTP_SERVERS", "$HOME_NET"),
    ("SQL_SERVERS", "$HOME_NET"),
    ("DNS_SERVERS", "$HOME_NET"),
    ("TELNET_SERVERS", "$HOME_NET"),
    ("AIM_SERVERS", "$EXTERNAL_NET"),
    ("DC_SERVERS", "$HOME_NET"),
    ("DNP3_SERVER", "$HOME_NET"),
    ("DNP3_CLIENT", "$HOME_NET"),
    ("MODBUS_CLIENT", "$HOME_NET"),
    ("MODBUS_SERVER", "$HOME_NET"),
    ("ENIP_CLIENT", "$HOME_NET"),
    ("ENIP_SERVER", "$HOME_NET"),
    ("HTTP_PORTS", "80"),
    ("SHELLCODE_PORTS", "!80"),
    ("ORACLE_PORTS", "1521"),
    ("SSH_PORTS", "22"),
    ("DNP3_PORTS", "20000"),
    ("MODBUS_PORTS", "502"),
    ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
    ("FTP_PORTS", "21"),
    ("GENEVE_PORTS", "6081"),
    ("VXLAN_PORTS", "4789"),
    ("TEREDO_PORTS", "3544"),
];

/// Reads and builds; `None` if mistakes were noted. A rule that cannot be applied is no mistake: it
/// is reported, and the other rules run.
pub(super) fn tables(
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<(Tables, About)> {
    let started = Instant::now();
    let config = config::read(section);
    if !section.has("rules") && !section.has("snort_rules") {
        section.require("rules", "files of rules, or `snort_rules`");
    }
    let variables = variables(section);
    let mut mistakes = Diagnostics::default();
    let configs = configs(section, &mut mistakes);
    let thresholds = section.file("threshold").map_or_else(ThresholdFile::default, |file| {
        ThresholdFile::read(&file, &variables, &mut mistakes)
    });
    mistakes.iter().for_each(|mistake| section.note(mistake.clone()));
    let (is_strict, rules_min) = (config.is_strict, config.rules_min);
    let set = read_rules(section, &variables, &configs);
    if section.is_broken() {
        return None;
    }
    let (tables, set) = make((config, resources.seed()), set, &thresholds, section)?;
    if is_strict {
        set.broken.iter().for_each(|broken| section.note(broken.clone()));
    }
    let active = set.rules.len();
    if active < rules_min {
        let asked = format!("{active} rules are active, fewer than {rules_min}: {set}");
        section.mistake("rules_min", asked);
    }
    if section.is_broken() {
        return None;
    }
    resources.skip_invalid(&set.broken);
    resources.skip_unsupported(set.held.count());
    resources.remarks_of(&set.notices);
    let about = reported::about(&set, &tables, started.elapsed());
    Some((tables, about))
}

/// The variables of the table, and default values of others.
fn variables(section: &mut Section<'_>) -> Variables {
    let own = section.named_strings("variables");
    let known = VARIABLES.iter().map(|&(name, text)| (name, text));
    let variables: Variables =
        known.chain(own.iter().map(|(name, text)| (name.as_str(), *text))).collect();
    let kinds = own.iter().map(|(name, _)| (name.as_str(), kind(name)));
    for VariableMistake { name, message, help } in variables.mistakes(kinds) {
        let mistake = section.mistake_in("variables", name, format!("`{name}`: {message}"));
        section.note(match help {
            Some(help) => mistake.help(help),
            None => mistake,
        });
    }
    variables
}

/// The kind of the variables of Suricata's default configuration.
fn kind(name: &str) -> VariableKind {
    match VARIABLES.iter().any(|(known, _)| *known == name) {
        true if name.ends_with("_PORTS") => VariableKind::Ports,
        true => VariableKind::Addresses,
        false => VariableKind::Either,
    }
}

fn configs(section: &mut Section<'_>, mistakes: &mut Diagnostics) -> Configs {
    let mut configs = Configs::default();
    if let Some(file) = section.file("classification") {
        configs.read_classification(&file, mistakes);
    }
    if let Some(file) = section.file("reference") {
        configs.read_reference(&file, mistakes);
    }
    configs
}

fn read_rules(section: &mut Section<'_>, variables: &Variables, configs: &Configs) -> RuleSet {
    let suricata = section.files_bytes("rules");
    let snort = section.files_bytes("snort_rules");
    let suricata = suricata.iter().map(|file| (file, Dialect::Suricata));
    let all = suricata.chain(snort.iter().map(|file| (file, Dialect::Snort)));
    let files: Vec<RuleFile<'_>> = all
        .map(|((name, bytes), dialect)| RuleFile { name: (*name).into(), bytes, dialect })
        .collect();
    let key = |dialect| if dialect == Dialect::Suricata { "rules" } else { "snort_rules" };
    for RuleFile { name, bytes, dialect } in &files {
        if let Some(what) = not_text(bytes) {
            section.mistake(key(*dialect), format!("{name:?} is not a file of rules: {what}"));
        }
    }
    if section.is_broken() {
        return RuleSet::default();
    }
    let set = warpline_nids_rules::read(&files, variables, configs);
    for (file, first) in &set.strange {
        let RuleFile { name, dialect, .. } = &files[*file];
        let why = format!("no line of {name:?} is a rule that can be read");
        section.mistake(key(*dialect), why);
        section.note(first.clone());
    }
    if set.count() == 0 && !section.is_broken() && !files.is_empty() {
        let named = if section.has("rules") { "rules" } else { "snort_rules" };
        section.mistake(named, "these files contain no rules");
    }
    set
}

/// The detected kind of a file that is not text, as far as known.
fn not_text(bytes: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 4] = [
        (&[0xfd, b'7', b'z', b'X', b'Z'], "it is compressed; `unxz` it"),
        (b"PK\x03\x04", "it is an archive; `unzip` it"),
        (&[0xff, 0xfe], "it is text in UTF-16; UTF-8 is read"),
        (&[0xfe, 0xff], "it is text in UTF-16; UTF-8 is read"),
    ];
    let known = KNOWN.iter().find(|(first, _)| bytes.starts_with(first)).map(|(_, what)| *what);
    let head = &bytes[..bytes.len().min(4096)];
    let zeros = head.iter().filter(|byte| **byte == 0).count();
    known.or_else(|| (zeros > head.len() / 8).then_some("it is full of zero bytes, as no text is"))
}

/// The tables, and the rules without those that could not be made ready.
fn make(
    config: (Config, Seed),
    mut set: RuleSet,
    thresholds: &ThresholdFile,
    section: &mut Section<'_>,
) -> Option<(Tables, RuleSet)> {
    let names = std::mem::take(&mut set.names);
    match Tables::new(config, &mut set.rules, names, thresholds) {
        Ok((tables, broken)) => {
            leave_out(&mut set, &broken);
            Some((tables, set))
        }
        Err(why) => {
            section.mistake("matcher", why);
            None
        }
    }
}

/// Counts rules as broken that were read and then could not be made ready.
fn leave_out(set: &mut RuleSet, broken: &[Broken]) {
    for Broken { rule, message } in broken {
        let rule = &set.rules[*rule];
        let name = set.files.get(usize::from(rule.place.file)).cloned().unwrap_or_default();
        let text = format!("rule {}: {message}", rule.about.sid);
        let line = rule.place.line as usize;
        let diagnostic = Diagnostic { line, column: 1, ..SourceText::new(name, "").whole(text) };
        set.broken.push(diagnostic);
    }
    let gone: BTreeSet<usize> = broken.iter().map(|broken| broken.rule).collect();
    let mut place = 0..;
    set.rules.retain(|_| place.next().is_some_and(|place| !gone.contains(&place)));
}
