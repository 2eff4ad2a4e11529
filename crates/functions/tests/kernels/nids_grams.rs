//! The kernel of `nids` for large sets of rules, which filters by grams. Sets are made large by
//! rules about bytes that payloads don't have.

use warpline_device::Device;
use warpline_packet::{Binding, Columns, Field, FieldSet, kernel_layout};
use warpline_verify::Input;

use crate::compiled::compile_for_cuda;
use crate::driver::{Program, compare, devices, rows_of};
use crate::frames::{Random, ethernet, ipv4, random};
use crate::nids::{Set, V4, V6, edges, hostile, literals, nested, tcp};
use crate::side::{FILLED, Side, WORKED, layout};
use crate::staged::Staging;
use crate::sys::vouched::source;

/// Steps that a payload has beyond one for each byte, as the manual says.
const STEPS_MIN: u32 = 256;

/// With so many more rules that one automaton would be too large.
fn large(name: &str, literals: Vec<Vec<u8>>) -> Set {
    let mut from = Random::new(77);
    let others: Vec<Vec<u8>> = (0..1300).map(|_| from.bytes(32)).collect();
    let set = Set::beside(&format!("grams-{name}"), literals, &others);
    assert_eq!(kernel_of(&set), "filter_payloads");
    set
}

fn kernel_of(set: &Set) -> &'static str {
    set.function.kernels().expect("kernels").steps()[0].name
}

/// Runs the inputs, and gives how many packets were left to the CPU.
fn left_on(set: &Set, device: &dyn Device, inputs: &[Input]) -> usize {
    let tally = compare(&*set.function, set.words, inputs, device);
    assert_eq!(tally.packets, inputs.len());
    tally.left
}

/// A packet of TCP to port 80.
fn to_80(payload: &[u8]) -> Input {
    ethernet(&[], &ipv4(V4, 64, 6, &[], &tcp(40_000, 80, payload)))
}

/// Words with signs and numbers between, in some case, as rules have them; every tenth is short.
fn words(count: usize) -> Vec<Vec<u8>> {
    let mut from = Random::new(0x90d5);
    let word = |number: usize| {
        let len = if number.is_multiple_of(10) { 1 + from.below(4) } else { 5 + from.below(20) };
        let mut word = Vec::new();
        while word.len() < len {
            word.push(from.pick(b"etaoinshrdlucmETAwfgypbvkxjqz0123456789/.=: \r\n\0"));
        }
        word
    };
    (1..=count).map(word).collect()
}

/// The cases written by hand.
pub(crate) fn edges_on(device: &dyn Device) {
    let borders =
        [&b"\0\0begin"[..], b"\0\0\0b", b"at-the-end", b"zqxj-ette", b"hend", b"ab", b"aBc"];
    // Each with a rule about every kind of packet.
    let borders = borders.iter().flat_map(|one| vec![one.to_vec(); 9]);
    let set = large("edges", borders.chain(literals(147)).collect());
    assert_eq!(left_on(&set, device, &edges(&set)), 0);
    assert_eq!(left_on(&set, device, &borders_of_payloads()), 0);
    left_on(&set, device, &set.traffic(200));
    left_on(&set, device, &planted(&set, 40));
}

/// Literals at every place of a word and of sixteen bytes, at both ends of a payload, over each
/// other and in another case.
fn planted(set: &Set, count: usize) -> Vec<Input> {
    let mut from = Random::new(5);
    let one = |number: usize| {
        let literal = &set.literals[number % set.literals.len()];
        let other = from.pick(&[0, 1, 2, 3]);
        let mut payload = from.bytes(number % 37);
        match other {
            0 => payload.extend(literal.to_ascii_uppercase()),
            1 => payload.extend(literal.to_ascii_lowercase()),
            _ => payload.extend(literal),
        }
        if other == 3 {
            // The next begins within this one.
            let next = &set.literals[(number + 1) % set.literals.len()];
            let at = payload.len() - literal.len().min(2);
            payload.truncate(at);
            payload.extend(next);
        }
        let behind = from.pick(&[0, 0, 1, 2, 3, 4, 15, 16, 40]);
        payload.extend(from.bytes(behind));
        to_80(&payload)
    };
    (0..count).map(one).collect()
}

/// Literals that begin in a header or end after the datagram, and one whose case matches only the
/// second time.
fn borders_of_payloads() -> Vec<Input> {
    let mut inputs = Vec::new();
    for text in [&b"begin"[..], b"b", b"begin at-the-end", b"AB ab Abc ABC abc aBc", b"zqxj-ette"] {
        let packet = ipv4(V4, 64, 6, &[], &tcp(25, 80, text));
        inputs.push(ethernet(&[], &packet));
        for cut in 1..=text.len() {
            // The packet is complete, but its last bytes lie beyond the length in the IP header.
            let mut cut_short = packet.clone();
            let len = (packet.len() - cut) as u16;
            cut_short[2..4].copy_from_slice(&len.to_be_bytes());
            inputs.push(ethernet(&[], &cut_short));
        }
    }
    inputs
}

/// How many steps each of `inputs` takes, one batch of them.
fn steps_on(set: &Set, device: &dyn Device, inputs: &[Input]) -> Vec<u32> {
    let kernels = set.function.kernels().expect("kernels");
    let len_max = inputs.iter().map(|input| input.bytes.len()).max().unwrap_or(0);
    let layout = layout(&*set.function, set.words, len_max);
    let treatment = source(&kernels, &Binding::MIRROR).define("REPORT_STEPS", 1);
    let staging = Staging::new(FieldSet::EMPTY, &layout);
    let program = Program::new(&kernels, &treatment, &layout, staging, device);
    let mut side = Side::new(&*set.function, &layout);
    assert_eq!(side.fill(inputs), inputs.len());
    let after = program.left_of(&mut side, Columns::read_by(set.function.kernel_access()));
    let numbers = kernel_layout();
    let scratch = numbers.iter().find(|(own, _)| own == "COLUMN_SCRATCH").expect("a column").1;
    let word = kernels.findings().expect("a word") as usize - Field::Scratch0 as usize;
    let rows = rows_of(&mut side, FILLED);
    let column = (scratch as usize + 4 * word) * rows.rows();
    let of_batch = |index| {
        let own = rows.of(index).each();
        own.map(|(_, row)| *after.table[column + 4 * row..].first_chunk().expect("a word"))
    };
    WORKED.flat_map(of_batch).map(u32::from_le_bytes).collect()
}

#[test]
fn literals_of_every_group_are_found() {
    let mut random_frames = Random::new(3);
    let more: Vec<Input> = (0..300).map(|_| random(&mut random_frames, &[V4], &[V6])).collect();
    for set in [large("147", literals(147)), large("words", words(147))] {
        let inputs = [set.traffic(1200), planted(&set, 300), more.clone()].concat();
        for device in devices() {
            // Whole payloads of literals and beginnings of literals of a few letters, half of the
            // traffic, may be.
            assert!(left_on(&set, &*device, &inputs) < inputs.len() / 2);
        }
    }
}

#[test]
fn edges_are_what_run_makes_of_them() {
    devices().iter().for_each(|device| edges_on(&**device));
}

#[test]
fn large_sets_are_searched() {
    for count in [1000, 10_000] {
        let set = large(&format!("words-{count}"), words(count));
        let inputs = [set.traffic(300), planted(&set, 500), hostile(&set)].concat();
        for device in devices() {
            assert!(left_on(&set, &*device, &inputs) < inputs.len() / 2);
            assert_eq!(left_on(&set, &*device, &planted(&set, 500)), 0);
        }
    }
}

#[test]
fn hostile_payloads_take_so_many_steps_and_no_more() {
    let mut from = Random::new(12);
    let mut of_two = |len: usize| (0..len).map(|_| from.pick(b"ab")).collect::<Vec<u8>>();
    // Many literals for each of sixteen grams, and payloads in which one begins everywhere.
    let crowd: Vec<Vec<u8>> = (0..60).map(|_| of_two(12)).collect();
    let crowded: Vec<Input> = (0..20).map(|_| to_80(&of_two(1400))).collect();
    let set = large("hostile", [literals(147), words(147), crowd].concat());
    let inputs = [hostile(&set), crowded.clone()].concat();
    assert!(inputs.len() <= 256, "more than a launch has");
    let most = |input: &Input| (input.bytes.len() - 14 - 20 - 20) as u32 + STEPS_MIN;
    for device in devices() {
        let steps = steps_on(&set, &*device, &inputs);
        assert!(steps.iter().zip(&inputs).all(|(&steps, input)| steps <= most(input)), "{steps:?}");
        // Runs of one byte, and beginnings of literals, are searched here; every packet that needs
        // more is the CPU's.
        assert_eq!(left_on(&set, &*device, &inputs[..4]), 0);
        assert_eq!(left_on(&set, &*device, &crowded), crowded.len());
        let left = left_on(&set, &*device, &inputs);
        assert!(left >= crowded.len() && left < inputs.len(), "{left} of {}", inputs.len());
        assert!(steps.iter().filter(|steps| **steps > 1000).count() >= left, "{steps:?}");
    }
}

#[test]
fn more_literals_than_are_kept_are_looked_for_again() {
    let set = large("nested", nested().literals);
    let lens = (0..60).chain([1400]);
    let inputs: Vec<Input> =
        lens.flat_map(|len| [b'a', b'A'].map(|byte| to_80(&vec![byte; len]))).collect();
    devices().iter().for_each(|device| {
        left_on(&set, &**device, &inputs);
    });
}

#[test]
fn kernels_compile_for_gpus() {
    let with_rest = large("compiled", words(147));
    let without = large("compiled-long", (0..100).map(|n| vec![b'a', b'b', b'c', n]).collect());
    for (set, has_rest) in [(with_rest, 1), (without, 0)] {
        let kernels = set.function.kernels().expect("kernels");
        assert!(kernels.defines().contains(&("HAS_REST", has_rest)));
        compile_for_cuda(&*set.function);
    }
}
