//! The rights of the process: a user, and capabilities.
//!
//! Interfaces need some rights when they are opened, and nearly none afterwards.

pub use crate::sys::privileges::{Rights, User, become_user, is_root, keep};
