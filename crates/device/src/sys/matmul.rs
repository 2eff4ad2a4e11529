//! The kernel of [`crate::Matmul`], vouched for.

use std::borrow::Cow;

use crate::{Argument, Buffer, Kernel, KernelCall, KernelSpec, Parameter, Source};

use Parameter::{Reads, U32, Writes};

/// Rows and columns of each matrix, as in the text.
pub(crate) const SIDE: usize = 256;
/// Bytes of a matrix.
pub(crate) const MATRIX_LEN: usize = SIDE * SIDE * size_of::<u32>();

const KERNELS: &[KernelSpec] = &[KernelSpec {
    name: "matmul",
    group: 64,
    shared_big: 0,
    parameters: Cow::Borrowed(&[Reads, Reads, Writes, U32]),
}];

/// The text of `kernels/matmul.cl`.
pub(crate) fn source() -> Source {
    // SAFETY: the description is the head in the text, which has nothing that runs when it is
    // loaded.
    unsafe { Source::vouched("matmul.cl", include_str!("../../kernels/matmul.cl"), [], KERNELS) }
}

/// A call that computes `elements` of the product; `None` for buffers of another length.
pub(crate) fn call(
    kernel: &Kernel,
    [left, right, product]: [&Buffer; 3],
    elements: u32,
) -> Option<KernelCall> {
    let is_matrix = |buffer: &&Buffer| buffer.len() == MATRIX_LEN;
    if ![left, right, product].iter().all(is_matrix) {
        return None;
    }
    let arguments = vec![
        Argument::Reads(left.whole()),
        Argument::Reads(right.whole()),
        Argument::Writes(product.whole()),
        Argument::U32(elements),
    ];
    // SAFETY: the kernel reads and writes elements of matrices of `SIDE` only, and ends.
    Some(unsafe { KernelCall::vouched(kernel, elements.div_ceil(64).max(1), arguments) })
}

#[cfg(test)]
mod tests {
    use crate::Failure;

    #[test]
    fn it_compiles_for_every_architecture_in_use() {
        for arch in [80, 90, 100] {
            match super::super::cuda::compile_for(&super::source(), arch) {
                Ok(cubin) => assert_eq!(&cubin[..4], b"\x7fELF"),
                Err(Failure::NoCompiler(why)) => return println!("skipped: {why}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
