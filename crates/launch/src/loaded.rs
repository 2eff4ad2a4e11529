//! A function's kernels and tables on a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpline_device::{
    Argument, Buffer, Device, Failure, Kernel, KernelCall, Loads, Part, Step, Stream, Work,
};
use warpline_nf::{KernelParameter, KernelStep, KernelTable, Kernels};
use warpline_packet::{Binding, Field};

use crate::sys::vouched::{self, Given};

/// See the module. Shared by all lanes. Tables may hold keys, so they are zeroed before their
/// memory is freed.
pub struct Loaded {
    device: Arc<dyn Device>,
    /// The kernels in their order.
    pub(crate) kernels: Vec<LoadedKernel>,
    /// The parameters of each.
    parameters: Vec<KernelParameter>,
    /// The word in which packets hold the place of their findings, if there are any.
    pub(crate) findings: Option<Field>,
    /// The tables that they read besides packets.
    pub(crate) tables: Vec<Buffer>,
    /// Whether a lane uses them no more, as their device failed.
    given_up: AtomicBool,
}

impl Loaded {
    /// A lane uses them no more.
    pub(crate) fn set_given_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether a lane uses them no more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// A call of `kernel` for the packets of `on`, as function `place` of its chain.
    pub(crate) fn call(&self, kernel: &LoadedKernel, on: &LaunchData, place: u8) -> KernelCall {
        let LaunchData { arena, host, packets, findings, findings_room, count, without } =
            on.clone();
        let tables = &self.tables[..];
        let given =
            Given { arena, host, packets, tables, findings, findings_room, count, place, without };
        let arguments = given.arguments(&self.parameters);
        vouched::call(&kernel.kernel, kernel.groups(count), arguments)
    }
}

impl Drop for Loaded {
    /// On a device that was given up no work would end. CUDA zeroes memory itself before it frees
    /// it; other devices keep it until the program ends.
    fn drop(&mut self) {
        if !self.is_given_up() {
            let _ = self.zero_tables();
        }
    }
}

impl Loaded {
    fn zero_tables(&self) -> Result<(), Failure> {
        let Some(longest) = self.tables.iter().map(Buffer::len).max() else { return Ok(()) };
        let zeroes = self.device.host_memory(longest.min(ZEROES_LEN))?;
        let mut steps = Vec::new();
        for table in &self.tables {
            for start in (0..table.len()).step_by(zeroes.len()) {
                let end = table.len().min(start + zeroes.len());
                let from = Part { piece: 0, range: 0..end - start };
                steps.push(Step::CopyIn { from, to: table.at(start..end) });
            }
        }
        let work = Work::new(vec![zeroes], steps);
        finish(&mut *self.device.stream()?, work, ZERO_TIMEOUT).map(drop)
    }
}

/// Bytes that are zeroed by one step.
const ZEROES_LEN: usize = 1 << 20;
/// For how long that may take altogether.
const ZERO_TIMEOUT: Duration = Duration::from_secs(2);

/// The arguments for the kernels of a launch, the same for all functions.
#[derive(Clone, Debug)]
pub(crate) struct LaunchData {
    pub(crate) arena: Argument,
    /// The arena in the host's memory, where kernels carry frames.
    pub(crate) host: Option<Argument>,
    /// The table of its packets.
    pub(crate) packets: Argument,
    /// Room for findings, where a function keeps some.
    pub(crate) findings: Option<Argument>,
    /// For how many numbers.
    pub(crate) findings_room: u32,
    /// How many packets there are.
    pub(crate) count: u32,
    /// Bits of mirrors whose packets have no room carried there.
    pub(crate) without: u8,
}

/// A kernel, and the properties that a call depends on.
pub(crate) struct LoadedKernel {
    pub(crate) kernel: Kernel,
    group: u32,
    items_per_packet: u32,
}

impl LoadedKernel {
    /// Work-groups for `packets` packets, at least one.
    pub(crate) fn groups(&self, packets: u32) -> u32 {
        let items = u64::from(packets) * u64::from(self.items_per_packet.max(1));
        items.div_ceil(self.group.max(1).into()).clamp(1, u32::MAX.into()) as u32
    }
}

/// For how long a step of loading may take before it is given up.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Compiles a function's text for the fields' places in `binding`, and copies its tables.
///
/// # Errors
/// The device's, or that it doesn't end.
pub fn load(
    device: &Arc<dyn Device>,
    kernels: &Kernels,
    binding: &Binding,
) -> Result<Loaded, Failure> {
    let _loading = device.loads().map(Loads::begin);
    let module = device.compile(&vouched::source(kernels, binding))?;
    let with_kernel = |step: &KernelStep| {
        let kernel = module.kernel(step.name)?;
        Ok(LoadedKernel { kernel, group: step.group, items_per_packet: step.items_per_packet })
    };
    let loaded = kernels.steps().iter().map(with_kernel).collect::<Result<_, Failure>>()?;
    let mut stream = device.stream()?;
    let mut loaded = Loaded {
        device: Arc::clone(device),
        kernels: loaded,
        parameters: kernels.parameters(),
        findings: kernels.findings(),
        tables: Vec::new(),
        given_up: AtomicBool::new(false),
    };
    for KernelTable { bytes, .. } in kernels.tables() {
        let buffer = device.allocate(bytes.len())?;
        loaded.tables.push(buffer.clone());
        copy_table(&**device, &mut *stream, bytes, &buffer)?;
    }
    run_empty(&**device, &mut *stream, &loaded)?;
    Ok(loaded)
}

/// Runs every kernel once without packets. Some compilers finish their work at the first launch,
/// and packets should not wait for that.
fn run_empty(device: &dyn Device, stream: &mut dyn Stream, loaded: &Loaded) -> Result<(), Failure> {
    let memory = || device.allocate(64);
    let (mirror, host, table, findings) = (memory()?, memory()?, memory()?, memory()?);
    let on = LaunchData {
        arena: Argument::Writes(mirror.whole()),
        host: Some(Argument::Writes(host.whole())),
        packets: Argument::Writes(table.whole()),
        findings: Some(Argument::Writes(findings.whole())),
        findings_room: 0,
        count: 0,
        without: 0,
    };
    let call = |kernel: &LoadedKernel| Step::Call(loaded.call(kernel, &on, 0));
    let steps = loaded.kernels.iter().map(call).collect();
    finish(stream, Work::new(Vec::new(), steps), LOAD_TIMEOUT).map(drop)
}

fn copy_table(
    device: &dyn Device,
    stream: &mut dyn Stream,
    table: &[u8],
    buffer: &Buffer,
) -> Result<(), Failure> {
    let mut piece = device.host_memory(table.len())?;
    piece.copy_from_slice(table);
    let step = Step::CopyIn { from: Part { piece: 0, range: 0..table.len() }, to: buffer.whole() };
    let work = Work::new(vec![piece], vec![step]);
    // Tables may hold keys.
    let mut work = finish(stream, work, LOAD_TIMEOUT)?;
    work.pieces.iter_mut().for_each(|piece| piece.fill(0));
    Ok(())
}

/// Has a stream do `work`, and waits for it, no longer than `timeout`.
fn finish(stream: &mut dyn Stream, work: Work, timeout: Duration) -> Result<Work, Failure> {
    stream.submit(work).map_err(|refused| refused.why)?;
    let start = Instant::now();
    loop {
        if let Some(done) = stream.poll() {
            return done.outcome.map(|()| done.work);
        }
        if start.elapsed() > timeout {
            return Err(Failure::Work("loading a function does not end".into()));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}
