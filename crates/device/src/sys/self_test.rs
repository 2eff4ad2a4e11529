//! The kernels of the self-test, vouched for.

use std::borrow::Cow;

use crate::{Argument, Kernel, KernelCall, KernelSpec, Parameter, Source};

use Parameter::{Reads, U32, Writes};

const KERNELS: &[KernelSpec] = &[
    KernelSpec {
        name: "md5",
        group: 64,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Reads, Writes, U32]),
    },
    KernelSpec {
        name: "move",
        group: 64,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Writes, U32, U32]),
    },
    KernelSpec {
        name: "operations",
        group: 64,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Writes, Writes, U32]),
    },
    KernelSpec {
        name: "turn_around",
        group: 64,
        shared_big: 0,
        parameters: Cow::Borrowed(&[Reads, Writes]),
    },
];

/// The text of `kernels/self_test.cl`.
pub(crate) fn source() -> Source {
    // SAFETY: the descriptions are the heads in the text, which has nothing that runs when it is
    // loaded.
    unsafe {
        Source::vouched("self_test.cl", include_str!("../../kernels/self_test.cl"), [], KERNELS)
    }
}

/// A call with arguments that `self_test.rs` makes.
pub(crate) fn call(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> KernelCall {
    // SAFETY: the one caller gives each kernel buffers as long as its counts and ends state, and
    // starts within the messages, in order.
    unsafe { KernelCall::vouched(kernel, groups, arguments) }
}

#[cfg(test)]
mod tests {
    use crate::Failure;

    #[test]
    fn the_self_test_compiles_for_every_architecture_in_use() {
        for arch in [80, 90, 100] {
            match super::super::cuda::compile_for(&super::source(), arch) {
                Ok(cubin) => assert_eq!(&cubin[..4], b"\x7fELF"),
                Err(Failure::NoCompiler(why)) => return println!("skipped: {why}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
