//! A number that tells tables apart.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use toml::de::DeValue;

use super::Section;
use super::values::describe;
use crate::keys::COMMON_KEYS;

impl Section<'_> {
    /// A number that tells this table, with the files that were read through it, from one that says
    /// something else. It is the same in every run of a build of the program. [`COMMON_KEYS`],
    /// which say where a function runs, do not count.
    pub fn fingerprint(&self) -> u64 {
        let mut all = self.files.clone();
        let keys = self.layers.iter().flat_map(|layer| layer.table.keys());
        let keys: BTreeSet<&str> = keys.map(|key| key.get_ref().as_ref()).collect();
        let is_common = |key: &str| COMMON_KEYS.iter().any(|common| common.name == key);
        for key in keys.into_iter().filter(|key| !is_common(key)) {
            key.hash(&mut all);
            if let Some(value) = self.value(key) {
                hash_value(value.get_ref(), &mut all);
            }
        }
        all.finish()
    }
}

/// Adds a value, and not where it stands.
fn hash_value(value: &DeValue<'_>, to: &mut DefaultHasher) {
    describe(value).hash(to);
    match value {
        DeValue::String(text) => text.hash(to),
        DeValue::Integer(number) => (number.as_str(), number.radix()).hash(to),
        DeValue::Float(number) => number.as_str().hash(to),
        DeValue::Boolean(on) => on.hash(to),
        DeValue::Datetime(date) => date.to_string().hash(to),
        DeValue::Array(items) => {
            items.len().hash(to);
            items.iter().for_each(|item| hash_value(item.get_ref(), to));
        }
        DeValue::Table(table) => {
            table.len().hash(to);
            // Sorted, as the map is.
            for (key, value) in table {
                key.get_ref().hash(to);
                hash_value(value.get_ref(), to);
            }
        }
    }
}
