//! OpenCL 1.2 by the system's ICDs, through the loader libOpenCL.so.1.

mod api;
mod maker;
mod memory;
mod program;
mod recent;
mod shared;
mod stream;
mod turns;
mod zeros;

use core::iter::once;
use core::ptr;
use std::sync::{Arc, OnceLock};

use api::{Api, Id, info};
use maker::Maker;
use memory::Content;
use program::Program;
use recent::Recent;
use shared::{SharedMemory, Sharing};
use turns::Turns;

use crate::device::next_number;
use crate::find::OpenedKind;
use crate::{
    Buffer, Description, Device, Failure, HostMemory, Loads, Missing, Module, Region, Source,
    Stream, source,
};

/// A device of a platform.
pub(crate) struct OpenCl {
    number: u64,
    description: Description,
    api: &'static Api,
    device: Id,
    context: Arc<Context>,
    turns: Option<Arc<Turns>>,
    maker: Option<Arc<Maker>>,
    programs: Arc<Recent<Program>>,
}

/// A context; everything made in it keeps it. It belongs to one device, or to all devices of a
/// platform that share the host's memory. These then share each other's, since memory is shared
/// within a context only.
pub(crate) struct Context {
    api: &'static Api,
    context: Id,
    /// Where the host and all its devices share memory byte by byte.
    sharing: Option<Sharing>,
}

impl Context {
    fn of(api: &'static Api, devices: &[Id]) -> Result<Arc<Self>, Missing> {
        let mut code = 0;
        let count = devices.len() as u32;
        // SAFETY: so many valid devices of one platform, no properties, no callback.
        let context = unsafe {
            let none = ptr::null_mut();
            (api.create_context)(ptr::null(), count, devices.as_ptr(), None, none, &mut code)
        };
        if code != api::SUCCESS {
            return Err(Missing(format!("clCreateContext gives {}", api::name_of(code))));
        }
        Ok(Arc::new(Self { api, context, sharing: Sharing::of(api, devices) }))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by clCreateContext, released once.
        unsafe { (self.api.release_context)(self.context) };
    }
}

/// A device that was found, with its context. Some ICDs (PoCL 3.1) unload their compiler with the
/// last context, while another thread may be making one. Turns and programs belong to the device,
/// for all who open it.
struct Known {
    api: &'static Api,
    device: Id,
    context: Arc<Context>,
    turns: Option<Arc<Turns>>,
    maker: Option<Arc<Maker>>,
    programs: Arc<Recent<Program>>,
    description: Description,
}

/// Every device of every platform, in the loader's order. They are looked for once.
pub(crate) fn find() -> OpenedKind<Arc<dyn Device>> {
    static KNOWN: OnceLock<OpenedKind<Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(look).as_ref().map_err(Clone::clone)?;
    let open = |known: &Result<Known, (String, Missing)>| match known {
        Ok(known) => Ok(Arc::new(OpenCl::open(known)) as Arc<dyn Device>),
        Err(why) => Err(why.clone()),
    };
    Ok(known.iter().map(open).collect())
}

fn look() -> OpenedKind<Known> {
    let api: &'static Api = Box::leak(Box::new(Api::load()?));
    let mut all = Vec::new();
    for platform in ids(|count, out, found| {
        // SAFETY: `out` has room for `count` ids, `found` for one number.
        unsafe { (api.get_platform_ids)(count, out, found) }
    }) {
        let devices = ids(|count, out, found| {
            // SAFETY: as above; the platform is one that the loader named.
            unsafe { (api.get_device_ids)(platform, api::DEVICE_TYPE_ALL, count, out, found) }
        });
        let mut sharing = devices.clone();
        sharing.retain(|&device| is_usable(api, device) && shared::is_shared_by(api, device));
        let together = Context::of(api, &sharing).ok();
        for device in devices {
            let id = format!("opencl:{}", all.len());
            let context = together.clone().filter(|_| sharing.contains(&device));
            all.push(Known::look(api, [platform, device], context, &id).map_err(|why| (id, why)));
        }
    }
    match all.is_empty() {
        true => Err(Missing("libOpenCL.so.1 is there, but no ICD has a device".into())),
        false => Ok(all),
    }
}

fn is_usable(api: &Api, device: Id) -> bool {
    api.flag(device, info::AVAILABLE) && api.flag(device, info::COMPILER_AVAILABLE)
}

/// Asks twice, as OpenCL requires: for the number of ids, then for the ids.
fn ids(ask: impl Fn(u32, *mut Id, *mut u32) -> i32) -> Vec<Id> {
    let mut count = 0;
    if ask(0, ptr::null_mut(), &mut count) != api::SUCCESS {
        return Vec::new();
    }
    let mut ids = vec![Id::NULL; count as usize];
    match ask(count, ids.as_mut_ptr(), &mut count) {
        api::SUCCESS => ids,
        _ => Vec::new(),
    }
}

impl Known {
    /// A device in `context`, or in one of its own.
    fn look(
        api: &'static Api,
        [platform, device]: [Id; 2],
        context: Option<Arc<Context>>,
        id: &str,
    ) -> Result<Self, Missing> {
        let description = describe(api, device, id);
        if !is_usable(api, device) {
            let name = description.name;
            return Err(Missing(format!("{name} is not available or has no compiler")));
        }
        let context = context.map_or_else(|| Context::of(api, &[device]), Ok)?;
        let [version, driver] =
            [info::VERSION, info::DRIVER_VERSION].map(|what| api.text(device, what));
        let turns = Turns::of(api, &version, &driver).map(Arc::new);
        let maker = Maker::of(api, platform, device).map(Arc::new);
        let programs = Arc::default();
        Ok(Self { api, device, context, turns, maker, programs, description })
    }
}

impl OpenCl {
    fn open(known: &Known) -> Self {
        Self {
            number: next_number(),
            description: known.description.clone(),
            api: known.api,
            device: known.device,
            context: known.context.clone(),
            turns: known.turns.clone(),
            maker: known.maker.clone(),
            programs: Arc::clone(&known.programs),
        }
    }
}

fn describe(api: &Api, device: Id, id: &str) -> Description {
    let (vendor, version) =
        (api.text(device, info::VERSION), api.text(device, info::DRIVER_VERSION));
    let shares = api.flag(device, info::HOST_UNIFIED_MEMORY);
    Description {
        id: id.into(),
        name: api.text(device, info::NAME),
        driver: format!("{vendor}, driver {version}"),
        memory: api.number(device, info::GLOBAL_MEM_SIZE),
        buffer_max: api.number(device, info::MAX_MEM_ALLOC_SIZE),
        units: api.number(device, info::MAX_COMPUTE_UNITS) as u32,
        group_max: api.number(device, info::MAX_WORK_GROUP_SIZE) as u32,
        shared: api.number(device, info::LOCAL_MEM_SIZE) as u32,
        shares_host_memory: shares,
        reaches_host_memory: shares,
        runs_on_cpu: api.number(device, info::TYPE) & api::DEVICE_TYPE_CPU != 0,
        has_graphs: false,
        bus: None,
        uuid: None,
    }
}

impl OpenCl {
    fn allocate_with(&self, bytes: usize, source: Content<'_>) -> Result<Buffer, Failure> {
        if bytes as u64 > self.description.buffer_max {
            return Err(Failure::OutOfMemory {
                wanted: bytes,
                free: Some(self.description.buffer_max as usize),
            });
        }
        let memory = memory::Memory::new(self.api, &self.context, bytes, source)?;
        Ok(Buffer::new(self.number, bytes, Arc::new(memory)))
    }
}

/// PoCL compiles for all its devices under one lock, and loads a launch's kernel under it too.
static LOADS: Loads = Loads::new();

impl Device for OpenCl {
    fn description(&self) -> &Description {
        &self.description
    }

    fn loads(&self) -> Option<&Loads> {
        Some(&LOADS)
    }

    fn compile(&self, source: &Source) -> Result<Module, Failure> {
        let text = source.assemble()?;
        let names = source.kernels().iter().map(|kernel| kernel.name);
        let key = source::key_of(&once(&*text).chain(names).collect::<Vec<_>>());
        let (context, maker) = (&self.context, self.maker.as_deref());
        let build = || program::build(context, self.device, maker, (&text, source.kernels()));
        let program = self.programs.get(key, || super::signals::keeping(build))?;
        Ok(Module { device: self.number, kernels: Arc::clone(source.kernels()), loaded: program })
    }

    fn allocate(&self, bytes: usize) -> Result<Buffer, Failure> {
        self.allocate_with(bytes, Content::Nothing)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<Buffer, Failure> {
        let zeroes = vec![0_u8; bytes.max(1)];
        self.allocate_with(bytes, Content::Copied(&zeroes))
    }

    /// Memory needs no registration: a buffer over host memory is made when a call names it.
    /// Kernels work in place in memory that was made to be shared.
    fn register(&self, memory: Arc<dyn HostMemory>) -> Result<Region, Failure> {
        let is_shared = self.context.sharing.as_ref().is_some_and(|own| own.has(&*memory));
        let region = Region::new(memory, None);
        Ok(if is_shared { region.in_place_for(self.number) } else { region })
    }

    fn shared_memory(&self, bytes: usize) -> Option<Arc<dyn HostMemory>> {
        SharedMemory::new(&self.context, bytes)
            .map(|memory| Arc::new(memory) as Arc<dyn HostMemory>)
    }

    fn stream(&self) -> Result<Box<dyn Stream>, Failure> {
        let queue = stream::Queue::new(self.api, self.context.clone(), self.device)?;
        let reaches = self.description.reaches_host_memory;
        let turns = self.turns.clone();
        Ok(Box::new(stream::ClStream::new(self.number, reaches, queue, turns)))
    }
}
