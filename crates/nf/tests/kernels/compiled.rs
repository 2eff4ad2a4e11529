//! Kernels as the compiler for NVIDIA's GPUs makes them, which needs no GPU: they compile, and take no more registers and stack than
//! they may.

use warpline_device::{Failure, Figures, compile_cuda_for, figures};
use warpline_nf::{Function, Kernels};
use warpline_packet::Binding;

use crate::side::layout;
use crate::sys::vouched::source;

/// Compiles the function's kernels for the GPUs in use; says so and does nothing more where there is no NVRTC.
pub(crate) fn compile_for_cuda(function: &dyn Function, scratch_words: usize) {
    let kernels = function.kernels().expect("kernels");
    let source = source(&kernels, &layout(function, scratch_words, 0), &Binding::MIRROR);
    for arch in [80, 90, 100] {
        match compile_cuda_for(&source, arch) {
            Ok(cubin) => judge(arch, &kernels, &figures(&cubin)),
            Err(Failure::NoCompiler(why)) => {
                assert!(std::env::var_os("WARPLINE_REQUIRE_NVRTC").is_none(), "{why}");
                return println!("skipped: {why}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Registers of a work-item with which two groups of 128 still share a multiprocessor's 65,536 four times over.
const REGISTERS_MAX: u32 = 128;
/// Bytes of stack of a work-item: the digest's state, blocks and counters that are indexed, no spilled registers beyond.
const STACK_MAX: u32 = 256;

/// Prints what a GPU's kernels take, and looks whether it is in bounds.
fn judge(arch: u32, kernels: &Kernels, figures: &[Figures]) {
    for step in kernels.steps() {
        let own = figures.iter().find(|own| own.kernel == step.name);
        let own = own.unwrap_or_else(|| panic!("{} is not in the cubin: {figures:?}", step.name));
        println!("sm_{arch} {}: {} registers, {} B of stack", own.kernel, own.registers, own.stack);
        assert!((1..=REGISTERS_MAX).contains(&own.registers), "sm_{arch}: {own:?}");
        assert!(own.stack <= STACK_MAX, "sm_{arch}: {own:?}");
    }
}
