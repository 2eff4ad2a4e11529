//! Two IPsec gateways under fuzzed packets: what one seals the other opens again, nothing else is
//! opened, and whatever comes instead of ESP is dropped by name.
//!
//! A packet with the flag [`QUOTE`] is none: it is a change to every sealed packet of its batch,
//! which is sent ahead of the packet itself.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::frames::{self, FLUSH, QUOTE, TICK};
use warpline_fuzz::functions::check_made;
use warpline_fuzz::ipsec::gateways;
use warpline_ipsec::DEFINITION;
use warpline_packet::wire::icmpv6::message::PACKET_TOO_BIG;
use warpline_packet::wire::ip_protocol::{ICMPV6, UDP};
use warpline_packet::{Headers, Instant, LinkType, Verdict};
use warpline_verify::{Harness, Input, Outcome};

/// Bytes that a packet may grow by: headers of a tunnel over IPv6, UDP and ESP, an IV, padding, an
/// ICV.
const GROWTH_MAX: usize = 40 + 8 + 8 + 16 + 17 + 16;
/// The most bytes of a reassembled packet.
const REASSEMBLED_MAX: usize = 2048 + 32;

thread_local! {
    static ENDS: RefCell<[Harness; 2]> = RefCell::new(gateways());
}

fuzz_target!(|data: &[u8]| {
    let (mut waiting, mut changes) = (Vec::new(), Vec::new());
    for cut in frames::cut(data, 0) {
        if cut.has(FLUSH | TICK) {
            send(&mut waiting, &mut changes);
        }
        if cut.has(TICK) {
            let now = Instant::from_nanos(cut.nanos);
            ENDS.with_borrow_mut(|ends| ends.each_mut().map(|end| end.tick(now)));
        }
        if cut.has(QUOTE) {
            changes.push(cut.bytes);
        } else {
            waiting.push(cut.input(None));
        }
    }
    send(&mut waiting, &mut changes);
});

fn send(waiting: &mut Vec<Input>, changes: &mut Vec<Vec<u8>>) {
    let (inputs, changes) = (std::mem::take(waiting), std::mem::take(changes));
    if inputs.is_empty() {
        return;
    }
    ENDS.with_borrow_mut(|[here, there]| {
        let outcomes = process(here, &inputs);
        let is_sealed = |(input, out): &(&Input, &Outcome)| {
            out.verdict == Verdict::Forward && out.bytes != input.bytes
        };
        let pairs: Vec<_> = inputs.iter().zip(&outcomes).filter(is_sealed).collect();
        let sealed: Vec<Input> = pairs.iter().map(|(input, out)| came(input, out)).collect();
        for change in &changes {
            let forged: Vec<Input> = sealed.iter().filter_map(|one| changed(one, change)).collect();
            for (input, out) in forged.iter().zip(process(there, &forged)) {
                assert!(!is_opened(input, &out), "opened an unsealed packet");
            }
        }
        for ((input, _), back) in pairs.iter().zip(process(there, &sealed)) {
            check_opened(input, &back);
        }
        // A second time it is a replay.
        for (input, out) in sealed.iter().zip(process(there, &sealed)) {
            assert!(!is_opened(input, &out), "opened twice");
        }
        for (input, out) in inputs.iter().zip(process(there, &inputs)) {
            assert!(!is_opened(input, &out), "opened an unsealed packet");
        }
    });
}

/// Sends packets through `end`, and checks what holds of each; gives what became of them, without
/// what was made.
fn process(end: &mut Harness, inputs: &[Input]) -> Vec<Outcome> {
    if inputs.is_empty() {
        return Vec::new();
    }
    let (made, own): (Vec<_>, Vec<_>) = end.process(inputs).into_iter().partition(|out| out.made);
    assert_eq!(own.len(), inputs.len(), "every packet has one outcome");
    let first = own[0].ingress;
    for (input, out) in inputs.iter().zip(&own) {
        assert!(out.bytes.len() <= (input.bytes.len() + GROWTH_MAX).max(REASSEMBLED_MAX));
        match out.verdict {
            Verdict::Dropped => assert!(usize::from(out.reason) < DEFINITION.drops.len()),
            Verdict::Malformed => assert_eq!(out.bytes, input.bytes, "rejected as it came"),
            Verdict::Forward => assert!(
                out.bytes == input.bytes || headers(&out.bytes, input.link).malformed().is_none()
            ),
            Verdict::Absorbed => {}
            verdict => panic!("unexpected verdict {verdict:?}"),
        }
    }
    for out in &made {
        let cause = &inputs[(out.ingress - first) as usize];
        check_made(cause, out);
        check_mtu(cause, out);
    }
    own
}

/// No IPv6 sender is asked to send packets shorter than the minimum MTU of links (RFC 8201, 4).
fn check_mtu(cause: &Input, made: &Outcome) {
    let headers = headers(&made.bytes, cause.link);
    let message = &made.bytes[usize::from(headers.l4)..];
    if headers.protocol == ICMPV6
        && let [PACKET_TOO_BIG, _, _, _, a, b, c, d, ..] = *message
    {
        assert!(u32::from_be_bytes([a, b, c, d]) >= 1280);
    }
}

/// An outcome as it comes in at the other end.
fn came(input: &Input, out: &Outcome) -> Input {
    Input { bytes: out.bytes.clone(), wire_len: out.bytes.len() as u32, ..input.clone() }
}

/// A sealed packet with bytes of its ESP changed. Each change has three bytes: a place (16 bits)
/// and a value to add. `None` if nothing changes.
fn changed(sealed: &Input, changes: &[u8]) -> Option<Input> {
    let found = headers(&sealed.bytes, sealed.link);
    let esp = usize::from(found.l4) + if found.protocol == UDP { 8 } else { 0 };
    let mut bytes = sealed.bytes.clone();
    for change in changes.chunks_exact(3) {
        let place = usize::from(change[0]) | usize::from(change[1]) << 8;
        let at = esp + place % (found.end as usize - esp);
        bytes[at] = bytes[at].wrapping_add(change[2]);
    }
    (bytes != sealed.bytes).then(|| Input { bytes, ..sealed.clone() })
}

/// Whether a packet that came in as ESP was forwarded as something else.
fn is_opened(input: &Input, out: &Outcome) -> bool {
    out.verdict == Verdict::Forward && out.bytes != input.bytes
}

/// Checks that the packet is as before sealing, without the bytes after the IP packet.
fn check_opened(input: &Input, back: &Outcome) {
    let name = || DEFINITION.drops.get(usize::from(back.reason));
    assert_eq!(back.verdict, Verdict::Forward, "{:?}", name());
    let before = headers(&input.bytes, input.link);
    assert!(before.malformed().is_none() && before.version != 0);
    let mut expected = input.bytes[..before.end as usize].to_vec();
    frames::set_len(&mut expected, &before);
    // In transport mode the header goes there and back, and a checksum of 0xffff is not what a sum
    // gives.
    let sum_at = usize::from(before.l3) + 10;
    if before.version == 4
        && back.bytes.len() == expected.len()
        && expected[sum_at..][..2] == [0xff; 2]
    {
        expected[sum_at..][..2].copy_from_slice(&back.bytes[sum_at..][..2]);
    }
    // Each BSD has a number of its own for IPv6.
    if input.link == LinkType::NULL || input.link == LinkType::LOOP {
        expected[..4].copy_from_slice(&back.bytes[..4]);
    }
    assert_eq!(back.bytes, expected);
}

fn headers(bytes: &[u8], link: LinkType) -> Headers {
    Headers::parse(bytes, link, bytes.len())
}
