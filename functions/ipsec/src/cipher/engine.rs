//! The choice of a cipher engine: intel-ipsec-mb if it is installed, or the built-in crates. Both
//! produce the same bytes.

use warpline_native::Missing;

use super::ipsec_mb::IpsecMb;
use super::{Job, KeyTable, software};

/// The requested engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// intel-ipsec-mb where there is one, else the crates.
    Auto,
    /// intel-ipsec-mb, or nothing.
    IpsecMb,
    /// The crates.
    Software,
}

/// See the module. It is made for the keys that it is used with.
#[derive(Debug)]
pub enum Engine {
    /// The crates, and why not intel-ipsec-mb, where that was asked.
    Software(Option<Missing>),
    /// intel-ipsec-mb.
    IpsecMb(IpsecMb),
}

impl Engine {
    /// For the rows of `keys`.
    ///
    /// # Errors
    ///
    /// There must be an intel-ipsec-mb, and there is none that can be used.
    pub fn new(choice: Choice, keys: &KeyTable) -> Result<Self, Missing> {
        if choice == Choice::Software {
            return Ok(Self::Software(None));
        }
        match IpsecMb::new(keys) {
            Ok(engine) => Ok(Self::IpsecMb(engine)),
            Err(why) if choice == Choice::Auto => Ok(Self::Software(Some(why))),
            Err(why) => Err(why),
        }
    }

    /// The engine in use, and why the preferred one is not.
    pub fn describe(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Software(why) => ("software", why.as_ref().map(ToString::to_string)),
            Self::IpsecMb(_) => ("intel-ipsec-mb", None),
        }
    }

    /// Asks for what names the keys of a row, before [`Engine::fetch`].
    #[inline]
    pub fn announce(&self, row: u32) {
        if let Self::IpsecMb(engine) = self {
            engine.announce(row);
        }
    }

    /// Asks for the keys of a row, which soon are used for `len` bytes.
    #[inline]
    pub fn fetch(&self, keys: &KeyTable, row: u32, len: usize) {
        if let Self::IpsecMb(engine) = self {
            engine.fetch(keys, row, len);
        }
    }

    /// Seals packets: writes their IVs, ciphers their texts, and writes their ICVs.
    pub fn seal(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        match self {
            Self::Software(_) => software::seal(keys, jobs),
            Self::IpsecMb(engine) => engine.seal(keys, jobs),
        }
    }

    /// Opens those packets whose ICV is right, and marks them; leaves the others unchanged.
    pub fn open(&self, keys: &KeyTable, jobs: &mut [Job<'_>]) {
        match self {
            Self::Software(_) => software::open(keys, jobs),
            Self::IpsecMb(engine) => engine.open(keys, jobs),
        }
    }
}
