//! The program as a user meets it: what is typed, what comes back, what is written, how it ends.

#![expect(clippy::unwrap_used, reason = "a test")]

mod advise;
mod claims;
mod colours;
mod commands;
mod cores;
mod counters;
mod ctl;
mod demo;
mod devices;
mod docs;
mod early;
mod ends;
mod formats;
mod harness;
mod hostile;
mod inputs;
mod ipsec;
mod ipsec_nonces;
mod ipsec_places;
mod ipsec_rekey;
mod lanes;
mod metrics;
mod mistakes;
mod nids;
mod pcap;
mod pcapng;
mod placement;
mod places;
mod plan;
mod ports;
mod pressure;
mod profile;
mod refusals;
mod reload;
mod routes;
mod seeds;
mod shown;
mod simulate;
mod stats;
mod tenants;
mod times;
mod top;
mod trace;
