//! The rights of the process: a user, and capabilities.
//!
//! Interfaces need some rights when they are opened, and nearly none afterwards.

pub use crate::sys::privileges::{
    Rights, User, become_user, check_readable, give_up_in_other_threads, is_root, keep,
};
pub use crate::sys::seccomp::refuse_calls;
