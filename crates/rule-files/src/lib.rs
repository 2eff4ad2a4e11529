//! Parsers of packet rules: nftables, iptables, ClassBench, Warpline's own format, and `ip neigh`.
//!
//! Rules of other firewalls become [`RegionRule`]s: products of sets, first match wins.

#![forbid(unsafe_code)]

mod chains;
mod classbench;
mod imported;
mod interfaces;
mod iptables;
pub mod iptables_match;
pub mod kinds;
pub mod neighbours;
pub mod nft;
mod nft_match;
mod nft_rule;
mod nft_stops;
pub mod nft_tables;
pub mod nft_value;
mod number_set;
mod region;
mod rules;
pub mod save_file;
pub mod words;

pub use classbench::{is_classbench, parse_classbench};
pub use imported::Imported;
pub use interfaces::{Interfaces, Leaves, NO_PORT_OUT, PortDirection};
pub use iptables::parse_iptables;
pub use nft::{is_nft, parse_nft};
pub use number_set::NumberSet;
pub use region::{MATCHED, Region, RegionRule};
pub use rules::{Action, EndMatch, Message, RULES_MAX, Rule, RuleFile, SegmentFlags, parse_lines};
pub use save_file::is_iptables;
