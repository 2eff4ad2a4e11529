//! The network function `ipsec`: ESP (RFC 4303) in tunnel and transport mode, for IPv4 and IPv6.

pub mod cipher;
pub mod replay;
pub mod files;
pub mod nonce_state;
pub mod sa;
