//! Several sources as one and several sinks as one, for chains with ports.
//!
//! [`Merged`] brings the frames of all ports into the order of their timestamps; [`PortSinks`]
//! gives each frame to the sink of the port by which it leaves. The interface number of a frame is
//! that of its port.

mod merged;
mod sinks;
#[cfg(test)]
mod tests;

pub use merged::{Merged, PortSource, Wanted};
pub use sinks::PortSinks;
