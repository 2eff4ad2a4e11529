//! Control of a running process: HTTP with JSON over a Unix socket.
//!
//! `run --socket PATH` serves it, `ctl` is a client. The file has mode 0600, so only the owner may
//! write to it.

mod client;
mod limited;
mod live;
mod once;
mod server;
mod traced;

use std::path::PathBuf;

pub(crate) use client::{Asked, Request, ctl};
pub(crate) use limited::Limited;
pub(crate) use live::{Live, Renewed};
pub(crate) use once::answers;
pub(crate) use server::Socket;
pub(crate) use traced::{COUNTS, SECONDS};

/// The version of paths and forms; it grows when a meaning changes, not when something is added.
const SCHEMA: u32 = 1;

/// The socket of `ctl`, unless it is given one: a user's own, or that of the service in
/// `share/systemd`.
pub(crate) fn default_socket() -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let own = PathBuf::from(folder.unwrap_or_else(|| "/run".into())).join("warpline.sock");
    let of_service = PathBuf::from("/run/warpline/warpline.sock");
    if !own.exists() && of_service.exists() { of_service } else { own }
}
