//! Makes sources and calls of functions' kernels, and vouches for them. Kernel tests include this
//! file too.

use warpline_device::{
    Argument, Buffer, Header, Kernel, KernelCall, KernelSpec, Parameter, Source,
};
use warpline_nf::{KernelHeader, KernelParameter, KernelStep, Kernels};
use warpline_packet::{Binding, LaunchRows, kernel_layout};

/// The kernel source of a function, for the places of fields in `binding`.
pub fn source(kernels: &Kernels, binding: &Binding) -> Source {
    let parameters: Vec<Parameter> = kernels.parameters().into_iter().map(kind_of).collect();
    let spec = |step: &KernelStep| KernelSpec {
        name: step.name,
        group: step.group,
        shared_big: step.shared_big,
        parameters: parameters.clone().into(),
    };
    let header = |one: KernelHeader| Header { name: one.name, text: one.text };
    let specs: Vec<KernelSpec> = kernels.steps().iter().map(spec).collect();
    let headers: Vec<Header> = kernels.headers(binding).into_iter().map(header).collect();
    // SAFETY: the heads in the text and the descriptions are made from the same parameters. Only
    // one crate makes the texts of functions, and they have nothing that runs when they are loaded.
    let source = unsafe { Source::vouched(kernels.name(), kernels.text(), headers, specs) };
    let own = kernels.defines().iter().map(|&(name, value)| (name.to_owned(), value));
    let all = kernel_layout().into_iter().chain(own);
    all.fold(source, |source, (name, value)| source.define(name, value))
}

fn kind_of(parameter: KernelParameter) -> Parameter {
    match parameter {
        KernelParameter::Arena
        | KernelParameter::Host
        | KernelParameter::Packets
        | KernelParameter::Findings => Parameter::Writes,
        KernelParameter::Table(_) => Parameter::Reads,
        KernelParameter::FindingsRoom
        | KernelParameter::PacketRows
        | KernelParameter::Count
        | KernelParameter::Place
        | KernelParameter::Without => Parameter::U32,
    }
}

/// The arguments of a call of a function's kernels.
#[derive(Debug)]
pub struct Given<'a> {
    /// The mirror.
    pub arena: Argument,
    /// The arena in the host's memory; for kernels that copy rooms.
    pub host: Option<Argument>,
    /// The table of the packets.
    pub packets: Argument,
    /// The function's tables, in order.
    pub tables: &'a [Buffer],
    /// Room for findings with its head, in which nothing is kept; for kernels that keep some.
    pub findings: Option<Argument>,
    /// For how many numbers.
    pub findings_room: u32,
    /// How many packets there are.
    pub count: u32,
    /// The function's place in its chain.
    pub place: u8,
    /// Bits of mirrors whose packets' rooms are not copied; for kernels that copy rooms.
    pub without: u8,
}

impl Given<'_> {
    /// The arguments of kernels that take `parameters`. Devices refuse kernels with findings but no
    /// room for them, and kernels that reach the host's arena but get none.
    pub fn arguments(&self, parameters: &[KernelParameter]) -> Vec<Argument> {
        let argument = |parameter: &KernelParameter| match *parameter {
            KernelParameter::Arena => self.arena.clone(),
            KernelParameter::Host => self.host.clone().unwrap_or(Argument::U32(0)),
            KernelParameter::Packets => self.packets.clone(),
            KernelParameter::Table(number) => Argument::Reads(self.tables[number].whole()),
            KernelParameter::Findings => self.findings.clone().unwrap_or(Argument::U32(0)),
            KernelParameter::FindingsRoom => Argument::U32(self.findings_room),
            KernelParameter::PacketRows => {
                Argument::U32(LaunchRows::rows_for(self.count as usize) as u32)
            }
            KernelParameter::Count => Argument::U32(self.count),
            KernelParameter::Place => Argument::U32(self.place.into()),
            KernelParameter::Without => Argument::U32(self.without.into()),
        };
        parameters.iter().map(argument).collect()
    }
}

/// A call of a kernel with the arguments that `device::executor` makes, and the tests of kernels.
pub(crate) fn call(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> KernelCall {
    // SAFETY: the mirror has the arena's layout. The launch's table has a row for each packet, with
    // all columns that the text was compiled for, and names rooms in the mirror. The function's
    // tables are its own, and findings have the stated room. With these a function's kernels stay
    // within them, and end. In place, the rooms are those lent to the work: all are its pieces. So
    // are the rooms of the host's arena that kernels copy. The table names no others, and the host
    // has just written their places in it, or writes them again before the kernel that writes them.
    unsafe { KernelCall::vouched(kernel, groups, arguments) }
}
