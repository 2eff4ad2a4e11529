//! A rule's tests of flows, pairs and hosts, and the changes by a match.

use super::Span;

/// Conditions on a packet's flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowTests {
    /// `flow:to_server`, `from_client` (`Some(true)`); `to_client`, `from_server`.
    pub to_server: Option<bool>,
    /// `established` or `not_established`.
    pub established: Option<bool>,
    /// `stateless`: also where the stream is out of step.
    pub is_stateless: bool,
    /// `only_stream` (`Some(true)`), `no_stream`: streams or packets alone are looked at.
    pub stream: Option<bool>,
    /// `only_frag` (`Some(true)`), `no_frag`: put together of fragments or not.
    pub fragments: Option<bool>,
    /// `flowbits`, `flowint`, `xbits`, `stream_size`, in the order of the rule; all must hold.
    pub tests: Vec<FlowTest>,
}

/// A condition on the state of a flow, a pair of hosts or a host.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowTest {
    /// `flowbits:isset,a|b` and `isnotset`: any of `names` is as said.
    Bits {
        /// One or more.
        names: Vec<Name>,
        /// `isset`.
        is_set: bool,
    },
    /// `flowint:name,<,n`; fails where the number is not set.
    Int {
        /// Which.
        name: Name,
        /// `None`: `isset`, or negated `isnotset`. Negation is the span's own.
        span: Option<Span<u32>>,
        /// `isset`, or with a span always `true`.
        is_set: bool,
    },
    /// `xbits:isset,name,track ...`, `isnotset`.
    XBits {
        /// Which.
        name: Name,
        /// Whose.
        track: XTrack,
        /// `isset`.
        is_set: bool,
    },
    /// `stream_size`.
    StreamSize {
        /// Which direction's.
        side: StreamSides,
        /// Bytes, data only.
        bytes: Span<u32>,
    },
}

/// The owner of `xbits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XTrack {
    /// `ip_src`.
    Source,
    /// `ip_dst`.
    Destination,
    /// `ip_pair`: both, either way round.
    Pair,
}

/// Which direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamSides {
    /// Data that the client sent.
    Client,
    /// Data that the server sent.
    Server,
    /// Both, each of which must fit.
    Both,
    /// Either.
    Either,
}

/// The name of a flowbit, flowint or xbit: a hash of its text and kind, the same in every run and
/// in every rule set, so that flows keep what is set across a reload. Two names of one rule set
/// never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

/// Names with their texts.
pub type Names = std::collections::BTreeMap<Name, std::sync::Arc<str>>;

/// A state change that a match makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `flowbits:set`, `unset`, `toggle`.
    Bit(Name, Change),
    /// `flowint:name,=,n`, `+`, `-`.
    Int(Name, IntChange),
    /// `xbits`; `expire_s` for `set` and `toggle`.
    XBit {
        /// Which.
        name: Name,
        /// Whose.
        track: XTrack,
        /// The operation.
        change: Change,
        /// How long it holds, in seconds.
        expire_s: u32,
    },
}

/// An operation on a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is set.
    Set,
    /// It is no longer set.
    Unset,
    /// The other way round.
    Toggle,
}

/// An operation on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntChange {
    /// It is this.
    Set(u32),
    /// It is this more; where it was not set, it is this.
    Add(u32),
    /// It is this less, at least 0; nothing happens where it was not set.
    Sub(u32),
}
