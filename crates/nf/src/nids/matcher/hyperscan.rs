//! The literals of a set by Hyperscan, where it is installed.

use warpline_native::hyperscan::{Cache, Database, Library, Literal};

use super::{Error, Hits, Matcher, Pattern};

/// Fewer literals than this are compiled sooner than a file is read, or about so soon.
const CACHED_MIN: usize = 16;

/// Patterns in a database of Hyperscan's.
#[derive(Debug)]
pub struct Hyperscan {
    /// `None`: there are no patterns.
    database: Option<Database>,
}

impl Hyperscan {
    /// Compiles `patterns`, or takes what was made of them before from `cache`.
    ///
    /// # Errors
    ///
    /// The library is missing, or does not take them.
    pub fn new(patterns: &[Pattern], cache: Option<&Cache>) -> Result<Self, Error> {
        let library = Library::load().map_err(Error::Missing)?;
        if patterns.is_empty() {
            return Ok(Self { database: None });
        }
        let literals: Vec<_> = patterns
            .iter()
            .map(|pattern| Literal { bytes: &pattern.bytes, is_caseless: pattern.is_nocase })
            .collect();
        let database = match cache.filter(|_| literals.len() >= CACHED_MIN) {
            Some(cache) => cache.database(library, &literals),
            None => Database::compile(library, &literals),
        };
        Ok(Self { database: Some(database.map_err(Error::Refused)?) })
    }
}

impl Matcher for Hyperscan {
    #[inline]
    fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        let Some(database) = &self.database else { return };
        let scanned = database.scan(bytes, |id| {
            hits.insert(id);
            !hits.is_full()
        });
        if scanned.is_err() {
            hits.fill();
        }
        hits.sort();
    }

    fn memory_len(&self) -> usize {
        self.database.as_ref().map_or(0, Database::memory_len)
    }

    fn name(&self) -> &'static str {
        "hyperscan"
    }
}
