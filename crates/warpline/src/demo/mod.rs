//! The demo capture.
mod dns;
mod frame;
mod hosts;
mod malformed;
mod odd;
mod rng;
mod summary;
mod tcp;
mod tls;
mod udp;
mod web;

pub(crate) mod capture;
