//! Tables of `nft -j list ruleset` that the kernel does not apply.

use std::collections::HashSet;

use serde_json::Value;

use crate::nft::{objects, text};
use crate::nft_value::{list, short};
use warpline_config::{Diagnostic, SourceText};

/// Flags that leave a table in force.
const IN_FORCE: [&str; 2] = ["owner", "persist"];

const HELP: &str = "some versions of nft print a single flag wrong: write \"dormant\" or \
                    \"owner\", as `nft list tables` shows it, or leave the table out";

/// The dormant tables of a document.
#[derive(Debug, Default)]
pub struct Dormant<'a>(HashSet<(&'a str, &'a str)>);

impl<'a> Dormant<'a> {
    /// Reads the flags of all tables. Passes on a mistake for each unknown flag: the table might be
    /// dormant.
    pub fn of(document: &'a Value, source: &SourceText, mut note: impl FnMut(Diagnostic)) -> Self {
        let mut own = Self::default();
        for table in objects(document, "table") {
            let name = (text(table, "family"), text(table, "name"));
            for flag in list(table.get("flags")) {
                match flag.as_str().unwrap_or_default() {
                    "dormant" => _ = own.0.insert(name),
                    flag if IN_FORCE.contains(&flag) => {}
                    flag => {
                        let (table, flag) = (short(name.1), short(flag));
                        let reported = format!("table `{} {table}`: unknown flag `{flag}`", name.0);
                        note(source.whole(reported).help(HELP));
                    }
                }
            }
        }
        own
    }

    /// Whether a chain or a rule is of a dormant table.
    pub fn has(&self, object: &Value) -> bool {
        self.0.contains(&(text(object, "family"), text(object, "table")))
    }
}
