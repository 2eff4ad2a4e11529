//! Tests of the whole function: two gateways, what passes between them, and what must not.

mod first_sas;
mod gateway;
mod refused;
mod there_and_back;
