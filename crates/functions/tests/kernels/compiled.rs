//! Kernels as the compiler for NVIDIA's GPUs makes them, which needs no GPU: they compile, and take
//! no more registers and stack than they are known to.

use std::path::Path;

use warpline_device::{Failure, Figures, Source, compile_cuda_for, figures};
use warpline_digest::DEFINITION;
use warpline_nf::{Function, Kernels};
use warpline_packet::Binding;
use warpline_verify::build;

use crate::sys::vouched::source;
use crate::sys::with_text;

/// The CUDA architectures of the GPUs in use.
const ARCHS: [u32; 3] = [80, 90, 100];
/// Registers of a work-item with which two groups of 128 still share a multiprocessor's 65,536 four
/// times over.
const REGISTERS_MAX: u32 = 128;
/// Bytes of stack of a work-item, whatever the compiler.
const STACK_MAX: u32 = 256;
/// The script that installs the compiler. Its stack use and spills are recorded here.
const INSTALLED: &str = include_str!("../../../../tools/nvrtc.sh");
/// Bytes of stack that arrays with a variable index need, on each of `ARCHS`. No other kernel uses
/// stack, and no kernel spills.
const ARRAYS: [(&str, [u32; 3]); 4] = [
    // The findings and their number.
    ("scan_payloads", [136; 3]),
    ("filter_payloads", [136; 3]),
    // Two blocks, and the first four of a text, where loops over them are not unrolled.
    ("ipsec_open", [0, 0, 96]),
    ("ipsec_open_counter", [0, 0, 96]),
];

/// Compiles the function's kernels for the GPUs in use. Prints a notice and returns if NVRTC is
/// missing.
pub(crate) fn compile_for_cuda(function: &dyn Function) {
    let kernels = function.kernels().expect("kernels");
    let source = source(&kernels, &Binding::MIRROR);
    compile_all(&kernels, &source);
}

/// The same for `kernels` whose text is that of `source`.
pub(crate) fn compile_all(kernels: &Kernels, source: &Source) {
    for arch in ARCHS {
        let Some(cubin) = cubin_of(source, arch) else { return };
        let (figures, is_known) = (figures(&cubin), is_of_installed(&cubin));
        for step in kernels.steps() {
            let own = figures.iter().find(|own| own.kernel == step.name);
            let own = own.unwrap_or_else(|| panic!("{} is not in {figures:?}", step.name));
            judge(arch, own, is_known);
        }
    }
}

/// `None` where there is no NVRTC.
fn cubin_of(source: &Source, arch: u32) -> Option<Vec<u8>> {
    match compile_cuda_for(source, arch) {
        Ok(cubin) => Some(cubin),
        Err(Failure::NoCompiler(why)) => {
            assert!(std::env::var_os("WARPLINE_REQUIRE_NVRTC").is_none(), "{why}");
            println!("skipped: {why}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether `cubin`, which names its compiler's version, is of the one that is installed for tests:
/// another spills elsewhere.
fn is_of_installed(cubin: &[u8]) -> bool {
    let (_, behind) = INSTALLED.split_once("nvidia-cuda-nvrtc==").expect("a wheel with a version");
    let version = behind.lines().next().expect("a version");
    let reported = format!(", V{version}\0");
    cubin.windows(reported.len()).any(|bytes| bytes == reported.as_bytes())
}

/// Prints what a kernel takes, and looks whether it is in bounds.
fn judge(arch: u32, own: &Figures, is_known: bool) {
    let Figures { kernel, registers, stack, spills } = own;
    println!("sm_{arch} {kernel}: {registers} registers, {stack} B of stack, {spills} spills");
    let column = ARCHS.iter().position(|one| *one == arch).expect("one of them");
    let arrays = ARRAYS.iter().find(|(name, _)| name == kernel).map_or(0, |one| one.1[column]);
    assert!((1..=REGISTERS_MAX).contains(registers), "sm_{arch}: {own:?}");
    assert!(*stack <= STACK_MAX, "sm_{arch}: {own:?}");
    if !is_known {
        return println!("by another NVRTC than tests install, so stack and spills may be others");
    }
    assert!(*stack <= arrays, "sm_{arch}: {own:?}, of which arrays are {arrays}");
    assert_eq!(*spills, 0, "sm_{arch}: {own:?}");
}

/// More numbers than a work-item may have registers, each of them needed in every round. It takes
/// the place of the digest's kernel.
const SPILLING: &str = "
PACKET_KERNEL(digest_payloads)
{
    ITEMS {
        u32 all[300], sum = 0;
        UNROLL
        for (u32 i = 0; i < 300; i++) all[i] = packets[i] + index();
        for (u32 round = 0; round < count; round++) {
            UNROLL
            for (u32 i = 0; i < 300; i++) all[i] = all[i] * all[(i + 7) % 300] + round;
        }
        UNROLL
        for (u32 i = 0; i < 300; i++) sum ^= all[i];
        set_scratch(packet_at(arena, packets, packet_rows, 0), 0, sum);
    }
}
";

#[test]
fn spilled_registers_are_seen() {
    let (function, _) = build(&DEFINITION, "", Path::new("."));
    let kernels = function.kernels().expect("kernels");
    let source = with_text(SPILLING, &kernels, &Binding::MIRROR);
    for arch in ARCHS {
        let Some(cubin) = cubin_of(&source, arch) else { return };
        if !is_of_installed(&cubin) {
            return println!("skipped: another NVRTC than tests install");
        }
        let figures = figures(&cubin);
        let [own] = &figures[..] else { panic!("{figures:?}") };
        assert!(own.spills >= 2 * (300 - own.registers), "sm_{arch}: {own:?}");
        assert!(own.stack >= 4 * (300 - own.registers), "sm_{arch}: {own:?}");
    }
}
