//! Alerts and drops of the whole function: rule text, frames, expected alerts, with every matcher
//! and in batches of several sizes.

mod actions;
mod apps;
mod dialects;
mod dropped;
mod ends;
mod evasions;
mod flows;
mod frames;
mod gaps;
mod headers;
mod loading;
mod offload;
mod payloads;
mod property;
mod reloads;
mod run;
