//! Kernels for the tests, and the devices that every case is run on.

use std::borrow::Cow;

pub(crate) use warpline_device::devices_for_tests as devices;
use warpline_device::{
    Argument, Device, Done, Failure, Kernel, KernelCall, KernelSpec, Parameter, Piece, Source,
    Stream, Work,
};

use Parameter::{Reads, U32, U64, Writes};

/// `scale`: out[i] = in[i] * factor + add, for `count` words. `sum_groups`: the sum of each group's
/// 32 words through shared memory, in two steps that see each other. `stir`: each word through
/// `rounds` steps, which takes its time.
pub(crate) const TEXT: &str = "\
KERNEL(scale, 32)(const GLOBAL u32 *in, GLOBAL u32 *out, u32 count, u64 factor, u32 add)
{
    ITEMS {
        if (index() >= count) continue;
        out[index()] = (u32)(in[index()] * factor >> SHIFT) + add;
    }
}

KERNEL(sum_groups, 32)(const GLOBAL u32 *in, GLOBAL u32 *out)
{
    SHARED(u32, held, 32);
    ITEMS { held[item()] = in[index()]; }
    ITEMS { if (item() < 16) held[item()] += held[item() + 16]; }
    ITEMS {
        if (item() > 0) continue;
        u32 sum = 0;
        for (u32 i = 0; i < 16; i++) sum += held[i];
        out[group()] = sum;
    }
}

KERNEL(stir, 32)(GLOBAL u32 *words, u32 rounds)
{
    ITEMS {
        u32 word = words[index()];
        for (u32 i = 0; i < rounds; i++) word = word * 1664525 + 1013904223;
        words[index()] = word;
    }
}
";

const KERNELS: &[KernelSpec] = &[
    KernelSpec {
        name: "scale",
        group: 32,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Writes, U32, U64, U32]),
    },
    KernelSpec {
        name: "sum_groups",
        group: 32,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Writes]),
    },
    KernelSpec {
        name: "stir",
        group: 32,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Writes, U32]),
    },
];

pub(crate) fn source() -> Source {
    shifting(8)
}

pub(crate) fn shifting(bits: u32) -> Source {
    // SAFETY: the descriptions are the heads in the text; nothing runs when it is loaded.
    unsafe { Source::vouched("test.cl", TEXT, [], KERNELS) }.define("SHIFT", bits)
}

/// A text that doesn't compile, in line 3.
pub(crate) fn broken() -> Source {
    // SAFETY: it never gets as far as running.
    unsafe {
        Source::vouched(
            "broken.cl",
            "FUNCTION u32 fine(u32 x) { return x; }\n\nu32 x = nonsense;\n",
            [],
            [],
        )
    }
}

pub(crate) fn call(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> KernelCall {
    // SAFETY: the tests give `scale` a count of words that both memories have, and `sum_groups` 32
    // words a group and a word of result, `stir` 32 words a group; where they don't, the arguments
    // are refused before anything runs.
    unsafe { KernelCall::vouched(kernel, groups, arguments) }
}

/// Host memory in which the device works in place, if it does in any.
pub(crate) fn in_place_piece(device: &dyn Device, len: usize) -> Piece {
    let Some(memory) = device.shared_memory(len) else {
        return device.host_memory(len).expect("memory");
    };
    let region = device.register(memory).expect("a region");
    // SAFETY: the memory was just made, and no other piece of it exists.
    unsafe { region.piece(0..len) }.expect("it has so many bytes")
}

pub(crate) fn do_now(stream: &mut dyn Stream, work: Work) -> Done {
    stream.submit(work).expect("taken");
    stream.wait().expect("done")
}

pub(crate) fn refused(stream: &mut dyn Stream, work: Work) -> String {
    match stream.submit(work) {
        Err(refused) => match refused.why {
            Failure::Refused(why) => why,
            other => panic!("{other:?}"),
        },
        Ok(()) => panic!("it was taken"),
    }
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect()
}

pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
