//! Metrics of a running process for Prometheus, in the OpenMetrics text format.
//!
//! `run --metrics ADDRESS` serves `/metrics` and `/healthz`. A scrape takes a snapshot of each
//! chain.

mod chains;
mod decisions;
mod family;
mod functions;
mod health;
mod server;

pub(crate) use server::{Metrics, MetricsAddress};
