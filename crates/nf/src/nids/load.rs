//! Makes the tables from what the chain file names: rule files, variables, the .config files.

use super::config::{self, Config};
use super::rules::{self, Configs, Dialect, RuleFile, RuleSet, ThresholdFile, Variables};
use super::tables::Tables;
use crate::{Diagnostic, Diagnostics, Resources, Section, SourceText};

/// What variables stand for where the chain file doesn't say.
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

/// Reads and builds; `None` where mistakes were noted. A rule that can't be applied is no mistake: it is told, and
/// the rest runs.
pub(super) fn tables(section: &mut Section<'_>, resources: &mut Resources) -> Option<Tables> {
    let config = config::read(section);
    if !section.has("rules") && !section.has("snort_rules") {
        section.require("rules", "files of rules");
    }
    let own = section.named_strings("variables");
    let known = VARIABLES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
    let variables: Variables =
        known.chain(own.into_iter().map(|(name, text)| (name, text.to_owned()))).collect();
    let mut mistakes = Diagnostics::default();
    let configs = configs(section, &mut mistakes);
    let thresholds = section.file("threshold").map_or_else(ThresholdFile::default, |file| {
        ThresholdFile::read(&file, &variables, &mut mistakes)
    });
    mistakes.iter().for_each(|mistake| section.note(mistake.clone()));
    let set = read_rules(section, &variables, &configs);
    if section.is_broken() {
        return None;
    }
    make(config, set, &thresholds, section, resources)
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
    rules::read(&files, variables, configs)
}

fn make(
    config: Config,
    mut set: RuleSet,
    thresholds: &ThresholdFile,
    section: &mut Section<'_>,
    resources: &mut Resources,
) -> Option<Tables> {
    let (tables, broken) = match Tables::new(config, &mut set.rules, thresholds) {
        Ok(made) => made,
        Err(why) => {
            section.mistake("matcher", why);
            return None;
        }
    };
    for broken in broken {
        let place = set.rules[broken.rule].place;
        let name = set.files.get(usize::from(place.file)).cloned().unwrap_or_default();
        let sid = set.rules[broken.rule].about.sid;
        let text = format!("rule {sid}: {}", broken.message);
        resources.notice(Diagnostic {
            line: place.line as usize,
            ..SourceText::new(name, "").whole(text)
        });
    }
    set.broken.iter().chain(set.notices.iter()).for_each(|told| resources.notice(told.clone()));
    Some(tables)
}
