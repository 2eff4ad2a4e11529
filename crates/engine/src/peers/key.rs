//! The key that two instances share: HMAC-SHA-256 (RFC 2104, FIPS 180-4).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// See the module. Its text has no part of the key.
#[derive(Clone)]
pub struct PeerKey(Hmac<Sha256>);

impl PeerKey {
    /// Bytes of a key at least: those of the hash (RFC 2104, section 3).
    pub const LEN_MIN: usize = 32;
    /// Bytes of an authentication code.
    pub(super) const CODE_LEN: usize = 32;

    /// The key of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let Ok(mac) = Hmac::new_from_slice(bytes) else { unreachable!("keys have any length") };
        Self(mac)
    }

    /// The code of `bytes`.
    pub(super) fn code(&self, bytes: &[u8]) -> [u8; Self::CODE_LEN] {
        self.0.clone().chain_update(bytes).finalize().into_bytes().into()
    }

    /// Whether `code` is that of `bytes`, in constant time.
    pub(super) fn is_code(&self, bytes: &[u8], code: &[u8]) -> bool {
        self.0.clone().chain_update(bytes).verify_slice(code).is_ok()
    }
}

impl PartialEq for PeerKey {
    fn eq(&self, other: &Self) -> bool {
        self.is_code(b"same key", &other.code(b"same key"))
    }
}

impl Eq for PeerKey {}

impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn codes_are_those_of_the_standard() {
        let code = PeerKey::new(b"Jefe").code(b"what do ya want for nothing?");
        let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let key = PeerKey::new(&[1; 32]);
        assert!(key == PeerKey::new(&[1; 32]) && key != PeerKey::new(&[2; 32]));
        assert!(!format!("{key:?}").contains('1'));
    }
}
