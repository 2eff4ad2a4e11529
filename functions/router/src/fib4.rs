//! DIR-24-8 tables of whichever width fits.

use super::dir24_8::{Dir24_8, Rule4, TooNarrow};

/// An IPv4 forwarding table; it goes over to wider entries when an update needs them.
pub enum Fib4 {
    /// Entries of 16 bits: up to 32,767 next hops and 32,768 groups.
    Narrow(Dir24_8<u16>),
    /// Entries of 32 bits.
    Wide(Dir24_8<u32>),
}

impl Fib4 {
    /// The tables of `rules`. Of two rules with one prefix, the later one wins.
    pub fn new(rules: &[Rule4]) -> Self {
        Dir24_8::new(rules).map_or_else(|TooNarrow| Self::wide(rules), Self::Narrow)
    }

    fn wide(rules: &[Rule4]) -> Self {
        match Dir24_8::new(rules) {
            Ok(wide) => Self::Wide(wide),
            Err(TooNarrow) => unreachable!("2^24 groups and 2^16 next hops are all there can be"),
        }
    }

    /// See [`Dir24_8::lookup`].
    pub fn lookup(&self, address: u32) -> u16 {
        match self {
            Self::Narrow(fib) => fib.lookup(address),
            Self::Wide(fib) => fib.lookup(address),
        }
    }

    /// See [`Dir24_8::lookup_bulk`].
    pub fn lookup_bulk(&self, addresses: &[u32], hops: &mut [u16]) {
        match self {
            Self::Narrow(fib) => fib.lookup_bulk(addresses, hops),
            Self::Wide(fib) => fib.lookup_bulk(addresses, hops),
        }
    }

    /// See [`Dir24_8::insert`]; goes over to wide entries where it must.
    pub fn insert(&mut self, rule: Rule4) -> Option<u16> {
        let done = match self {
            Self::Narrow(fib) => fib.insert(rule).map_err(|TooNarrow| fib.rules()),
            Self::Wide(fib) => fib.insert(rule).map_err(|TooNarrow| fib.rules()),
        };
        done.unwrap_or_else(|rules| {
            *self = Self::wide(&rules);
            match self {
                Self::Wide(fib) => fib.insert(rule).unwrap_or(None),
                Self::Narrow(_) => None,
            }
        })
    }

    /// See [`Dir24_8::remove`].
    pub fn remove(&mut self, address: u32, len: u8) -> Option<u16> {
        match self {
            Self::Narrow(fib) => fib.remove(address, len),
            Self::Wide(fib) => fib.remove(address, len),
        }
    }

    /// Bytes that look-ups touch.
    pub fn memory_len(&self) -> usize {
        match self {
            Self::Narrow(fib) => size_of_val(fib.tbl24()) + size_of_val(fib.tbl8()),
            Self::Wide(fib) => size_of_val(fib.tbl24()) + size_of_val(fib.tbl8()),
        }
    }
}
