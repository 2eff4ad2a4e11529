//! The literals of a set by Hyperscan, where it is installed.

use warpline_native::hyperscan::{Database, Library, Literal};

use super::{Error, Hits, Matcher, Pattern};

/// Patterns in a database of Hyperscan's.
#[derive(Debug)]
pub struct Hyperscan {
    /// `None`: there are no patterns.
    database: Option<Database>,
}

impl Hyperscan {
    /// Compiles `patterns`.
    ///
    /// # Errors
    ///
    /// The library is missing, or does not take them.
    pub fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        let library = Library::load().map_err(Error::Missing)?;
        if patterns.is_empty() {
            return Ok(Self { database: None });
        }
        let literals: Vec<_> = patterns
            .iter()
            .map(|pattern| Literal { bytes: &pattern.bytes, is_caseless: pattern.is_nocase })
            .collect();
        let database = Database::compile(library, &literals).map_err(Error::Refused)?;
        Ok(Self { database: Some(database) })
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
