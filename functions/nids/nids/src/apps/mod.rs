//! The application protocol of a flow: `app_proto` of EVE lines, with Suricata's names.
//!
//! Each direction is judged by its first bytes (`streams` for TCP, `datagrams` for UDP), and a flow
//! by its directions ([`Apps`]). The verdict depends only on the bytes, the server's port and the
//! order of packets. A direction costs a bounded amount of work: a stream is decided within
//! [`STREAM_LEN_MAX`] bytes, a datagram at once.

mod app;
mod bytes;
mod datagrams;
mod dns;
mod flow;
mod streams;
#[cfg(test)]
mod tests;
mod text;

pub use self::app::{App, DetectedApp};
pub use self::flow::{Apps, PackedApps};
pub use self::streams::DECIDED_MAX as STREAM_LEN_MAX;

/// A judgement of a direction by its bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    /// They are of this protocol.
    Is(App),
    /// The greeting of a mail or FTP server. Only the client's commands distinguish them.
    Greeting,
    /// More bytes may still decide.
    More,
    /// They are of no known protocol.
    Nothing,
}
