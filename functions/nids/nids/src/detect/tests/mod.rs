//! Whether rules match: a table of the manual's own examples, headers and flows by hand, and every
//! kind of payload test against a naive matcher.

mod build;
mod flows;
mod gates;
mod headers;
mod limits;
mod manual;
mod naive;
mod property;
mod reach;

use super::{Buffer, Detector, Limits, Scratch};
use warpline_nids_rules::{PayloadTest, Rule};

/// Whether the payload tests hold of a packet with these bytes.
fn holds(tests: &[PayloadTest], bytes: &[u8]) -> bool {
    holds_in(tests, bytes, 0)
}

/// Whether they hold of a stretch of a stream.
fn holds_in(tests: &[PayloadTest], bytes: &[u8], start: u64) -> bool {
    let rule = Rule { payload: tests.to_vec(), ..build::rule() };
    let (detector, broken) = Detector::new(&[rule], Limits::default());
    assert_eq!(broken, []);
    detector.payload_matches(0, Buffer { bytes, start }, &mut Scratch::new().unwrap())
}
