//! NVIDIA's GPUs through the driver API, with kernels compiled by NVRTC. A MIG instance that the
//! process sees is a device like any other.

mod api;
mod context;
mod graph;
mod nvrtc;
mod pages;
mod queue;
mod retired;
mod staging;
mod stream;

use core::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use api::{Driver, attribute};
use context::{Allocation, Context, Kernels};
pub use nvrtc::{compile_for, compile_ptx_for};
use pages::RegisteredPages;

use crate::device::next_number;
use crate::find::OpenedKind;
use crate::{
    Buffer, Description, Device, Failure, HostMemory, Missing, Module, Region, Source, Stream,
};

/// A GPU, or a MIG instance of one.
pub(crate) struct Cuda {
    number: u64,
    known: Arc<Known>,
}

/// A device that was found.
struct Known {
    driver: &'static Driver,
    device: c_int,
    description: Description,
    arch: u32,
    /// Made when it is first used, as that takes a good part of a second and of the device's
    /// memory, and kept.
    context: Mutex<Option<Arc<Context>>>,
}

/// Every device that the driver shows this process (`CUDA_VISIBLE_DEVICES` selects, also MIG
/// instances). Looked up once.
pub(crate) fn find() -> OpenedKind<Arc<dyn Device>> {
    static KNOWN: OnceLock<OpenedKind<Arc<Known>>> = OnceLock::new();
    let known = KNOWN.get_or_init(look).as_ref().map_err(Clone::clone)?;
    let open = |known: &Result<Arc<Known>, (String, Missing)>| match known {
        Ok(known) => Ok(Arc::new(Cuda::open(known)) as Arc<dyn Device>),
        Err(why) => Err(why.clone()),
    };
    Ok(known.iter().map(open).collect())
}

fn look() -> OpenedKind<Arc<Known>> {
    let driver = Driver::get()?;
    let mut count = 0;
    // SAFETY: called before anything else of the driver; then one number is written.
    let code = unsafe {
        match (driver.init)(0) {
            api::SUCCESS => (driver.count)(&mut count),
            code => code,
        }
    };
    if code != api::SUCCESS {
        return Err(Missing(format!("the driver can't start: {}", driver.name_of(code))));
    }
    if count == 0 {
        return Err(Missing("the driver shows no device".into()));
    }
    let known = |ordinal: c_int| {
        let id = format!("cuda:{ordinal}");
        Known::look(driver, ordinal, &id).map(Arc::new).map_err(|why| (id, why))
    };
    Ok((0..count).map(known).collect())
}

impl Known {
    fn look(driver: &'static Driver, ordinal: c_int, id: &str) -> Result<Self, Missing> {
        let mut device = 0;
        // SAFETY: the ordinal is below the count; one number is written.
        let code = unsafe { (driver.device)(&mut device, ordinal) };
        if code != api::SUCCESS {
            return Err(Missing(driver.name_of(code)));
        }
        let ask = |what| ask(driver, device, what);
        let arch = ask(attribute::CAPABILITY_MAJOR) * 10 + ask(attribute::CAPABILITY_MINOR);
        let description = describe(driver, device, id, arch);
        Ok(Self { driver, device, description, arch, context: Mutex::new(None) })
    }

    fn context(&self) -> Result<Arc<Context>, Failure> {
        let mut kept = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = &*kept {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Context::retain(self.driver, self.device)?);
        Ok(Arc::clone(kept.insert(context)))
    }
}

impl Cuda {
    fn open(known: &Arc<Known>) -> Self {
        Self { number: next_number(), known: Arc::clone(known) }
    }

    /// A cubin's kernels; those of PTX where the driver takes no cubin that NVRTC can make.
    fn load(&self, source: &Source) -> Result<Kernels, Failure> {
        let Known { description: Description { driver: versions, .. }, arch, .. } = &*self.known;
        let context = self.known.context()?;
        let load = |image: Vec<u8>| Kernels::load(&context, &image, source.kernels(), versions);
        let by_ptx = || compile_ptx_for(source, *arch).and_then(load);
        if context.takes_ptx() {
            return by_ptx();
        }
        let cubin = match compile_for(source, *arch).and_then(load) {
            Err(Failure::NoCompiler(why)) => why,
            other => return other,
        };
        let loaded = by_ptx().map_err(|why| match why {
            Failure::NoCompiler(ptx) if ptx != cubin => {
                Failure::NoCompiler(format!("{cubin}; by PTX: {ptx}"))
            }
            other => other,
        })?;
        context.prefer_ptx();
        Ok(loaded)
    }

    fn open_stream(&self, graphs: Option<graph::Graphs>) -> Result<Box<dyn Stream>, Failure> {
        let reaches = self.known.description.reaches_host_memory;
        let context = self.known.context()?;
        Ok(Box::new(stream::CudaStream::new(self.number, reaches, &context, graphs)?))
    }
}

fn describe(driver: &Driver, device: c_int, id: &str, arch: u32) -> Description {
    let mut memory = 0;
    // SAFETY: one number is written.
    unsafe { (driver.total_memory)(&mut memory, device) };
    let version = driver.version().unwrap_or(0);
    let ask = |what| ask(driver, device, what);
    let maps = ask(attribute::CAN_MAP_HOST_MEMORY) != 0;
    // Kernels work in place in pages that the driver locks.
    let locks = ask(attribute::HOST_REGISTER_SUPPORTED) != 0;
    let nvrtc = nvrtc::version().unwrap_or_else(|_| "no NVRTC".into());
    Description {
        id: id.into(),
        name: format!(
            "{} (sm_{arch})",
            text(|at, len| {
                // SAFETY: writes at most `len` bytes, ending with a zero.
                unsafe { (driver.name)(at, len, device) }
            })
        ),
        driver: format!("CUDA {}.{}, {nvrtc}", version / 1000, version % 1000 / 10),
        memory: memory as u64,
        buffer_max: memory as u64,
        units: ask(attribute::MULTIPROCESSORS),
        group_max: ask(attribute::MAX_THREADS_PER_BLOCK),
        shared: ask(attribute::MAX_SHARED_OPTIN),
        shares_host_memory: ask(attribute::INTEGRATED) != 0 && maps && locks,
        reaches_host_memory: maps,
        runs_on_cpu: false,
        has_graphs: graph::driver().is_ok(),
        bus: Some(text(|at, len| {
            // SAFETY: as above.
            unsafe { (driver.bus)(at, len, device) }
        })),
        uuid: uuid(driver, device),
    }
}

/// The UUID; of a MIG instance its own.
fn uuid(driver: &Driver, device: c_int) -> Option<String> {
    let mut bytes = [0_u8; 16];
    // SAFETY: writes sixteen bytes.
    let code = unsafe { (driver.uuid)(&mut bytes, device) };
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    (code == api::SUCCESS).then(|| parts.join("-"))
}

/// An attribute; 0 if the driver does not report it.
fn ask(driver: &Driver, device: c_int, what: c_int) -> u32 {
    let mut value = 0;
    // SAFETY: writes one number.
    match unsafe { (driver.attribute)(&mut value, what, device) } {
        api::SUCCESS => u32::try_from(value).unwrap_or(0),
        _ => 0,
    }
}

fn text(get: impl Fn(*mut c_char, c_int) -> c_int) -> String {
    let mut bytes = [0_u8; 128];
    // The last byte stays zero whatever the driver writes.
    if get(bytes.as_mut_ptr().cast(), 127) != api::SUCCESS {
        return String::new();
    }
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into()).unwrap_or_default()
}

impl Device for Cuda {
    fn description(&self) -> &Description {
        &self.known.description
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        let kernels = self.load(source)?;
        Ok(Module {
            device: self.number,
            kernels: Arc::clone(source.kernels()),
            loaded: Arc::new(kernels),
        })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        let memory = Allocation::new(&self.known.context()?, bytes)?;
        Ok(Buffer::new(self.number, bytes, Arc::new(memory)))
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        let memory = Allocation::new(&self.known.context()?, bytes)?;
        memory.zero()?;
        Ok(Buffer::new(self.number, bytes, Arc::new(memory)))
    }

    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        let about = &self.known.description;
        let context = self.known.context()?;
        let pages = RegisteredPages::new(&context, memory.clone(), about.reaches_host_memory)?;
        let is_mapped = pages.address_in(&context).is_some();
        let region = Region::new(memory, Some(Arc::new(pages)));
        Ok(match is_mapped {
            true if about.shares_host_memory => region.in_place_for(self.number),
            true => region.mapped_for(self.number),
            false => region,
        })
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        self.open_stream(None)
    }

    fn graph_stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let why = |missing| Failure::Refused(format!("the driver has no graphs: {missing}"));
        let driver = graph::driver().map_err(why)?;
        self.open_stream(Some(graph::Graphs::new(driver)))
    }
}
