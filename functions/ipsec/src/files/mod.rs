//! The files of SAs and policies, in TOML or in the format of `ip xfrm`: [`read`].
//!
#![doc = include_str!("files.md")]

use warpline_packet::Prefix;

use super::sa::Database;
use warpline_nf::{Key, Resources, Section};

mod entry;
mod resolve;
mod source;
#[cfg(test)]
mod tests;
mod toml_file;
mod toml_policies;
mod toml_sas;
mod values;
mod xfrm;
mod xfrm_policy;
mod xfrm_state;

pub use source::FILE_BYTES_MAX;

/// SAs that a file may have, and policies.
pub const ROWS_MAX: usize = 65_536;

/// Keys of the function's table that [`read`] reads.
pub const KEYS: [Key; 5] = [
    Key {
        name: "sas",
        allowed: "a file that only its owner may read",
        default: "required",
        help: "SAs with their keys: TOML, or the output of `ip -s xfrm state`",
    },
    Key {
        name: "policies",
        allowed: "a file",
        default: "none",
        help: "policies (protect, bypass, discard): TOML, or the output of `ip -s xfrm policy`",
    },
    Key {
        name: "local",
        allowed: "a list of prefixes",
        default: "none",
        help: "addresses of this gateway; they decide whether an SA is inbound or outbound",
    },
    Key {
        name: "insecure",
        allowed: "true | false",
        default: "false",
        help: "true allows SAs without authentication, for measurements",
    },
    Key {
        name: "unsupported",
        allowed: "error | skip",
        default: "error",
        help: "unsupported SAs and policies: an error, or skip; then their policies drop",
    },
];

/// The contents of the table besides its files.
struct Rules {
    local: Vec<Prefix>,
    insecure: bool,
    /// Whether the policies are those of `ip xfrm`, which define the traffic of SAs.
    has_xfrm_policies: bool,
}

/// Reads [`KEYS`] and the files that they name. Returns `None` after mistakes, all of which are
/// noted: those within the files or, if each file is valid, all between the two.
pub fn read(section: &mut Section<'_>, resources: &mut Resources) -> Option<Database> {
    section.require("sas", "the file of security associations");
    let mut rules = Rules {
        local: section.parsed_list("local"),
        insecure: section.boolean("insecure", false),
        has_xfrm_policies: false,
    };
    let skips = section.choice("unsupported", &[("error", false), ("skip", true)], false);
    let sas = source::load(section, "sas", true);
    let policies = source::load(section, "policies", false);
    let (mut file, mut asked) = (entry::SaFile::default(), Vec::new());
    let mut sas = sas.map(|source| source.skipping(skips));
    if let Some(source) = &mut sas {
        file = if source.is_xfrm() {
            xfrm_state::read(source, section, resources)
        } else {
            toml_sas::read(source, section)
        };
    }
    let mut policies = policies.map(|source| source.skipping(skips));
    if let Some(source) = &mut policies {
        rules.has_xfrm_policies = source.is_xfrm();
        asked = if rules.has_xfrm_policies {
            xfrm_policy::read(source, section, resources)
        } else {
            toml_policies::read(source, section)
        };
    }
    for (key, count) in [("sas", file.entries.len()), ("policies", asked.len())] {
        if count > ROWS_MAX {
            section.mistake(key, format!("the file has {count} of them; {ROWS_MAX} are the most"));
        }
    }
    if section.is_broken() {
        return None;
    }
    let database = resolve::resolve(section, resources, rules, (sas?, file), (policies, asked));
    (!section.is_broken()).then_some(database)
}
