//! A function's look at its input before it gets the first packet: [`Sampler`].

use warpline_packet::LinkType;

/// Looks at the first frames of an input and decides something about the whole input. Unless the
/// input pauses, the decision is made before the function gets the first packet.
pub trait Sampler: Send {
    /// Takes the next frame, which had `wire_len` bytes before the capture cut it; returns whether
    /// it wants more.
    fn take(&mut self, frame: &[u8], link: LinkType, wire_len: usize) -> bool;

    /// Decides by the frames so far. Called again after each later frame.
    fn decide(&mut self);

    /// A warning for the operator.
    fn reported(&self) -> Option<String>;
}
