//! Searches the literals of a set with Hyperscan, if it is installed.

use memchr::memmem::Finder;
use warpline_native::hyperscan::{Cache, Database, Library, Literal};

use super::glance::Glance;
use super::{Error, Hits, Matcher, Pattern};

/// Fewer literals than this are compiled sooner than a file is read, or about so soon.
const CACHED_MIN: usize = 16;
/// The longest text that is glanced at first; for longer ones the library is sooner done.
const GLANCE_LEN_MAX: usize = 128;

/// Patterns in a database of Hyperscan's.
#[derive(Debug)]
pub struct Hyperscan {
    /// `None`: it would be empty.
    database: Option<Database>,
    /// Rules most short texts out in less time than the library takes to begin.
    glance: Glance,
    /// The number of the pattern that each of its literals is.
    numbers: Vec<u32>,
    zeros: Zeros,
}

impl Hyperscan {
    /// Compiles `patterns`, or takes what was made of them before from `cache`.
    ///
    /// # Errors
    ///
    /// The library is missing, or does not take them.
    pub fn new(patterns: &[Pattern], cache: Option<&Cache>) -> Result<Self, Error> {
        let library = Library::load().map_err(Error::Missing)?;
        let (zeros, others): (Vec<_>, Vec<_>) =
            (0..).zip(patterns).partition(|(_, pattern)| Zeros::are_all_of(pattern));
        let (numbers, zeros): (Vec<u32>, _) =
            (others.iter().map(|(number, _)| *number).collect(), Zeros::new(zeros));
        let glance = Glance::new(others.iter().map(|(_, pattern)| *pattern));
        let literals: Vec<_> = others
            .iter()
            .map(|(_, pattern)| Literal { bytes: &pattern.bytes, is_caseless: pattern.is_nocase })
            .collect();
        if literals.is_empty() {
            return Ok(Self { database: None, glance, numbers, zeros });
        }
        let database = match cache.filter(|_| literals.len() >= CACHED_MIN) {
            Some(cache) => cache.database(library, &literals),
            None => Database::compile(library, &literals),
        };
        let database = database.map_err(|mut error| {
            error.literal = error.literal.map(|literal| numbers[literal] as usize);
            Error::Refused(error)
        });
        Ok(Self { database: Some(database?), glance, numbers, zeros })
    }
}

/// Patterns of zeros alone, from the shortest on. Payloads have long runs of zeros, in which
/// Hyperscan would report each at every byte.
#[derive(Debug)]
struct Zeros(Vec<(u32, Finder<'static>)>);

impl Zeros {
    fn are_all_of(pattern: &Pattern) -> bool {
        pattern.bytes.iter().all(|&byte| byte == 0)
    }

    fn new(mut patterns: Vec<(u32, &Pattern)>) -> Self {
        patterns.sort_by_key(|(_, pattern)| pattern.bytes.len());
        let finder =
            |(number, pattern): (_, &Pattern)| (number, Finder::new(&*pattern.bytes).into_owned());
        Self(patterns.into_iter().map(finder).collect())
    }

    #[inline]
    fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        let found = self.0.iter().take_while(|(_, finder)| finder.find(bytes).is_some());
        found.for_each(|(number, _)| hits.insert(*number));
    }
}

impl Matcher for Hyperscan {
    #[inline]
    fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        self.zeros.scan(bytes, hits);
        let is_short = bytes.len() <= GLANCE_LEN_MAX;
        if let Some(database) = &self.database
            && !(is_short && self.glance.rules_out(bytes))
        {
            let scanned = database.scan(bytes, |literal| {
                hits.insert(self.numbers[literal as usize]);
                !hits.is_full()
            });
            if scanned.is_err() {
                hits.fill();
            }
        }
        hits.sort();
    }

    fn memory_len(&self) -> usize {
        self.database.as_ref().map_or(0, Database::memory_len) + self.glance.memory_len()
    }

    fn name(&self) -> &'static str {
        "hyperscan"
    }
}
