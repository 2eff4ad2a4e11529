//! Two places of one function: the second gets packets with the words that the first wrote.
//!
//! Some packets that the first place changed are replaced by answers to them: an ICMP error that
//! quotes the packet, or a segment or datagram from its receiver.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::wire::icmp_error::{Icmpv4Error, Icmpv6Error, icmpv4_error, icmpv6_error};
use warpline_packet::wire::ip_protocol;
use warpline_packet::{Flags, Packet, ScratchWord, Verdict};

use super::{Harness, Input};

/// One of so many packets that the first place changed is replaced by an answer.
const ANSWERED: usize = 3;

/// Senders of ICMP errors.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);

/// A packet as it reaches a second place.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The packet.
    pub input: Input,
    /// The chain's scratch words, from the first on.
    pub words: Vec<u32>,
    /// Whether it is an answer to a packet with these words.
    pub is_answer: bool,
}

impl Harness {
    /// Sends frames through the function as one batch, each with its words.
    pub fn process_carried(&mut self, carried: &[Carried]) -> Vec<super::Outcome> {
        self.fill_carried(carried);
        self.work();
        self.take_outcomes()
    }

    /// Places packets in the batch with their words. Answers are `Forward`, as at their turn.
    pub(super) fn fill_carried(&mut self, carried: &[Carried]) {
        self.place(carried.iter().map(|one| &one.input));
        for (row, one) in carried.iter().enumerate() {
            for (word, value) in words().zip(&one.words) {
                self.batch.packet_mut(row).set_scratch(word, *value);
            }
            if one.is_answer {
                self.batch.packet_mut(row).send_back();
            }
        }
        self.batch.resume_answers();
        self.batch.take_settled();
    }

    /// Each of `inputs` as it leaves this place; one that is dropped here without words.
    pub(super) fn leave(&mut self, inputs: &[Input]) -> Vec<Carried> {
        let before = self.ingress as usize;
        self.fill(inputs);
        self.work();
        let batch = &self.batch;
        let rows = (0..batch.len()).filter(|&row| !batch.packet(row).has(Flags::GENERATED));
        let left = rows.map(|row| {
            let packet = batch.packet(row);
            let came = &inputs[packet.ingress() as usize - before];
            if packet.verdict() != Verdict::Forward {
                return Carried { input: came.clone(), words: Vec::new(), is_answer: false };
            }
            let cut = came.wire_len.saturating_sub(came.bytes.len() as u32);
            let bytes = packet.frame().to_vec();
            let input = Input { wire_len: bytes.len() as u32 + cut, bytes, ..came.clone() };
            let words = words().take(self.scratch_words).map(|word| packet.scratch(word)).collect();
            let change = self.function.change_words().first();
            let is_changed = change.is_some_and(|word| packet.scratch(*word) != 0);
            let number = packet.ingress() as usize;
            let answer = (is_changed && number.is_multiple_of(ANSWERED))
                .then(|| answer(&packet, number.is_multiple_of(2)))
                .flatten();
            let is_answer = answer.is_some();
            let answer =
                answer.map(|bytes| Input { wire_len: bytes.len() as u32, bytes, ..input.clone() });
            Carried { input: answer.unwrap_or(input), words, is_answer }
        });
        let left = left.collect();
        self.batch.clear();
        left
    }
}

fn words() -> impl Iterator<Item = ScratchWord> {
    (0..).map_while(ScratchWord::new)
}

/// The frame of an answer to `packet`: from its receiver, or an ICMP error about it.
fn answer(packet: &Packet<'_>, from_receiver: bool) -> Option<Vec<u8>> {
    let l3 = packet.l3_offset();
    let has_ports = matches!(packet.protocol(), ip_protocol::TCP | ip_protocol::UDP)
        && packet.has(Flags::TRANSPORT);
    if from_receiver && has_ports {
        let mut bytes = packet.frame().to_vec();
        let (at, len) = if packet.version() == 4 { (l3 + 12, 4) } else { (l3 + 8, 16) };
        swap(&mut bytes, at, len);
        swap(&mut bytes, packet.l4_offset(), 2);
        return Some(bytes);
    }
    let mut out = vec![0; 2048];
    let original = packet.ip_packet();
    let len = match packet.version() {
        4 => icmpv4_error(&mut out, Icmpv4Error::TtlExceeded, ROUTER_V4, original),
        6 => icmpv6_error(&mut out, Icmpv6Error::HopLimitExceeded, ROUTER_V6, original),
        _ => None,
    };
    Some([&packet.frame()[..l3], &out[..len?]].concat())
}

/// Swaps the two values of `len` bytes that begin at `at`.
fn swap(bytes: &mut [u8], at: usize, len: usize) {
    if let Some(both) = bytes.get_mut(at..at + 2 * len) {
        both.rotate_left(len);
    }
}
