//! The kernels of functions, vouched for. Their tests have this file, too.

use warpline_device::{Argument, Header, Kernel, KernelSpec, Launch, Parameter, Source};
use warpline_nf::{KERNEL_TABLES_MAX, KernelHeader, KernelStep, Kernels};
use warpline_packet::{ArenaLayout, kernel_layout};

/// What every kernel of a function takes: the mirror, the packets, its tables, how many packets there are, and its place.
fn parameters(tables: usize) -> &'static [Parameter] {
    use Parameter::{Reads, U32, Writes};
    match tables {
        0 => &[Writes, Reads, U32, U32],
        1 => &[Writes, Reads, Reads, U32, U32],
        2 => &[Writes, Reads, Reads, Reads, U32, U32],
        3 => &[Writes, Reads, Reads, Reads, Reads, U32, U32],
        4 => &[Writes, Reads, Reads, Reads, Reads, Reads, U32, U32],
        5 => &[Writes, Reads, Reads, Reads, Reads, Reads, Reads, U32, U32],
        6 => &[Writes, Reads, Reads, Reads, Reads, Reads, Reads, Reads, U32, U32],
        7 => &[Writes, Reads, Reads, Reads, Reads, Reads, Reads, Reads, Reads, U32, U32],
        _ => &[Writes, Reads, Reads, Reads, Reads, Reads, Reads, Reads, Reads, Reads, U32, U32],
    }
}

const _: () = assert!(KERNEL_TABLES_MAX == 8);

/// The text of a function, for arenas of `layout`.
pub fn source(kernels: &Kernels, layout: &ArenaLayout) -> Source {
    let tables = kernels.tables().len();
    let spec = |step: &KernelStep| KernelSpec {
        name: step.name,
        group: step.group,
        shared_big: step.shared_big,
        parameters: parameters(tables),
    };
    let header = |one: &KernelHeader| Header { name: one.name, text: one.text };
    let specs: Vec<KernelSpec> = kernels.steps().iter().map(spec).collect();
    let headers: Vec<Header> = kernels.headers().iter().map(header).collect();
    // SAFETY: `Kernels` are made by the functions of one crate only, whose texts have the heads that it says they
    // have and nothing that runs when they are loaded.
    let source = unsafe { Source::vouched(kernels.name(), kernels.text(), headers, specs) };
    let own = kernels.defines().iter().map(|&(name, value)| (name.to_owned(), value));
    let all = kernel_layout(layout).into_iter().chain(own);
    all.fold(source, |source, (name, value)| source.define(name, value))
}

/// A launch with the arguments that `device::executor` makes, and the tests of kernels.
pub(crate) fn launch(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> Launch {
    // SAFETY: the mirror has the arena's layout, which the text was compiled for; the list names rows of tables in
    // it; the tables are the function's own. With these a function's kernels stay within rows, rooms and tables, and end. In place the
    // list names rows of the launch's own tables, which name rooms that the work was lent: all are its pieces.
    unsafe { Launch::vouched(kernel, groups, arguments) }
}
