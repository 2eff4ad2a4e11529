//! Tests of the whole function: two gateways, packets that pass between them, and packets that must
//! not.

mod first_sas;
pub(crate) mod gateway;
mod peers;
mod places;
mod random;
mod refused;
mod resync;
mod review;
mod scapy;
mod there_and_back;
mod tshark;
