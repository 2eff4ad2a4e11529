//! Dumps in MRT, packed and not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_nf::config::unpack::unpack;
use warpline_router::mrt;
use warpline_router::routes::Unsupported;

fuzz_target!(|bytes: &[u8]| {
    let Ok(unpacked) = unpack(bytes) else { return };
    let is_packed = unpacked.is_packed();
    let _ = mrt::is_mrt(unpacked.head());
    drop(unpacked);
    let mut counts = Vec::new();
    for unsupported in [Unsupported::Error, Unsupported::Skip] {
        let Ok(unpacked) = unpack(bytes) else { panic!("it unpacked before") };
        let mut reported = 0;
        let found = mrt::read(unpacked.into_reader(), "dump", unsupported, &mut |mistake| {
            assert!(mistake.line == 0 && mistake.message.starts_with("byte "));
            reported += 1;
        });
        assert!(is_packed || reported <= bytes.len() / 12 + 1);
        for pair in found.routes.windows(2) {
            assert!(pair[0].prefix != pair[1].prefix, "one route a prefix");
        }
        for route in &found.routes {
            assert!(route.hop >= 1 && usize::from(route.hop) <= found.targets.len());
        }
        counts.push((found.routes.len(), reported));
    }
    // Skipped routes have a target that drops.
    assert!(counts[0].0 <= counts[1].0 && counts[0].1 >= counts[1].1);
});
