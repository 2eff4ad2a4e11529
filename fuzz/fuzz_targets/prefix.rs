//! Prefixes, port ranges and Ethernet addresses in text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::in_prefix;
use warpline_nat::PortRange;
use warpline_packet::Prefix;
use warpline_rule_files::neighbours::Mac;

fuzz_target!(|text: &str| {
    if let Ok(prefix) = text.parse::<Prefix>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
        assert!(prefix.contains(prefix.address()));
        assert!(in_prefix(prefix.address(), prefix.address(), prefix.len()));
        assert_eq!(Prefix::new(prefix.address(), prefix.len()), Some(prefix));
    }
    if let Ok(range) = text.parse::<PortRange>() {
        assert!(range.first() > 0 && range.per_shard() > 0);
        let last = u32::from(range.first()) + 64 * u32::from(range.per_shard()) - 1;
        assert!(last <= u32::from(u16::MAX));
    }
    if let Ok(mac) = text.parse::<Mac>() {
        assert_eq!(mac.0[0] & 1, 0);
    }
});
