//! Messages of the kernel about links, addresses, neighbours and routes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_netlink::{Message, read};

/// Bytes of the header of a message.
const HEADER_LEN: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let mut messages = Vec::new();
    read(bytes, &mut |message| messages.push(message));
    assert!(messages.len() <= bytes.len() / HEADER_LEN);
    for message in messages {
        match message {
            Message::Link(link) => assert!(link.name.len() <= bytes.len()),
            Message::Route(route) => {
                let width = if route.prefix.0.is_ipv4() { 32 } else { 128 };
                assert!(route.prefix.1 <= width && route.hops.len() <= bytes.len());
                let line = route.line(|index| format!("interface-{index}"));
                assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
                let _ = (route.is_main(), route.is_alive());
            }
            _ => {}
        }
    }
});
