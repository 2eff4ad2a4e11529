//! The programs that this process built last, by their text. A reload, a move or a second chain
//! needs the same text again, and drivers take milliseconds even for a text that they cache on
//! disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Room for the kernels of all functions, each compiled for several bindings of fields.
const MAX: usize = 64;

/// See the module. The last used is the last one.
pub(super) struct Recent<T> {
    all: Mutex<VecDeque<(String, Arc<T>)>>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { all: Mutex::default() }
    }
}

impl<T> Recent<T> {
    /// The program of `key`, or the one that `build` makes; its errors are not kept. Threads that
    /// miss the same program at once each build it.
    pub(super) fn get<E>(
        &self,
        key: String,
        build: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(found) = self.find(&key) {
            return Ok(found);
        }
        let built = Arc::new(build()?);
        self.push(key, Arc::clone(&built));
        Ok(built)
    }

    fn find(&self, key: &str) -> Option<Arc<T>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|(other, _)| other == key)?;
        let found = all.remove(place)?;
        let program = Arc::clone(&found.1);
        all.push_back(found);
        Some(program)
    }

    fn push(&self, key: String, program: Arc<T>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| *other != key);
        let oldest = if all.len() < MAX { None } else { all.pop_front() };
        all.push_back((key, program));
        drop(all);
        // A driver may take long to release it.
        drop(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_programs_are_built_once() {
        let recent = Recent::default();
        let get = |number: usize| {
            let mut is_built = false;
            let program = recent.get(number.to_string(), || {
                is_built = true;
                Ok::<_, ()>(number)
            });
            assert_eq!(program.as_deref(), Ok(&number));
            is_built
        };
        assert!((0..MAX).all(get));
        assert!(!(0..MAX).any(get));
        assert!(!get(0) && get(MAX), "a new one takes the place of 1");
        assert!(!get(0) && get(1));
        assert_eq!(recent.get("no".into(), || Err(7)).err(), Some(7));
        assert!(recent.get("no".into(), || Ok::<_, ()>(0)).is_ok());
    }
}
