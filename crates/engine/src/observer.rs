//! A view of every function's turns from outside.

use warpline_packet::Batch;

/// Sees the batches of a run before and after each function's turn
/// ([`crate::Deployment::observe`]). Lanes call it, each for its own batches. Rows of a batch stay
/// in their order; packets that a function made follow the packets of the same ingress number.
pub trait Observer: Send + Sync {
    /// The turn of the function at `position` begins. It gets the packets that are `Forward`.
    fn enters(&self, position: usize, batch: &Batch);

    /// That turn is over. Packets that were made in it are in the batch.
    fn leaves(&self, position: usize, batch: &Batch);
}
