//! Tests of the whole function: two gateways, what passes between them, and what must not.

mod first_sas;
mod gateway;
mod peers;
mod random;
mod refused;
mod resync;
mod review;
mod scapy;
mod there_and_back;
mod tshark;
