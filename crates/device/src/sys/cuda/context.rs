//! A device's context, and what is made in it: memory, registered pages, kernels.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;
use std::sync::Arc;

use super::api::{self, Driver, Handle};
use crate::sys::host_memory::Registration;
use crate::{Failure, HostMemory, KernelSpec, Region};

/// The primary context of a device.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    device: c_int,
    context: Handle,
    lost: AtomicBool,
    /// The driver refused a cubin and took PTX.
    takes_ptx: AtomicBool,
}

impl Context {
    pub(super) fn retain(driver: &'static Driver, device: c_int) -> Result<Self, Failure> {
        let mut context = Handle::NULL;
        // SAFETY: the device is one of the driver's; one handle is written.
        match unsafe { (driver.retain_context)(&mut context, device) } {
            api::SUCCESS => {
                let [lost, takes_ptx] = [false; 2].map(AtomicBool::new);
                Ok(Self { driver, device, context, lost, takes_ptx })
            }
            code => Err(Failure::Lost(driver.name_of(code))),
        }
    }

    /// Makes the context this thread's, and calls.
    pub(super) fn call(&self, call: impl FnOnce(&Driver) -> c_int) -> Result<(), Failure> {
        // SAFETY: the context is retained as long as this lives.
        let code = match unsafe { (self.driver.set_context)(self.context) } {
            api::SUCCESS => call(self.driver),
            code => code,
        };
        self.outcome(code)
    }

    pub(super) fn outcome(&self, code: c_int) -> Result<(), Failure> {
        if code == api::SUCCESS {
            return Ok(());
        }
        let name = self.driver.name_of(code);
        if Driver::is_loss(code) {
            self.lost.store(true, Ordering::Relaxed);
            return Err(Failure::Lost(name));
        }
        Err(Failure::Work(name))
    }

    /// Nothing waits for the device any more.
    pub(super) fn give_up(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// From now on only PTX is made for it.
    pub(super) fn prefer_ptx(&self) {
        self.takes_ptx.store(true, Ordering::Relaxed);
    }

    pub(super) fn takes_ptx(&self) -> bool {
        self.takes_ptx.load(Ordering::Relaxed)
    }

    /// Whether a call said that the device is lost, or it was given up.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.is_lost() {
            // SAFETY: retained once, released once.
            unsafe { (self.driver.release_context)(self.device) };
        }
    }
}

/// Memory on the device.
pub(super) struct Allocation {
    context: Arc<Context>,
    pub(super) address: u64,
}

impl Allocation {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Failure> {
        let mut address = 0;
        let mut full = false;
        // SAFETY: one address is written.
        let taken = context.call(|driver| unsafe {
            let code = (driver.allocate)(&mut address, bytes.max(1));
            full = code == api::OUT_OF_MEMORY;
            code
        });
        match taken {
            Ok(()) => Ok(Self { context: context.clone(), address }),
            Err(_) if full => Err(Failure::OutOfMemory { wanted: bytes, free: free(context) }),
            Err(why) => Err(why),
        }
    }
}

fn free(context: &Context) -> Option<usize> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: two numbers are written.
    context
        .call(|driver| unsafe { (driver.free_memory)(&mut free, &mut total) })
        .ok()
        .map(|()| free)
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Freeing waits for the device, which never ends on one that is lost.
        if !self.context.is_lost() {
            // SAFETY: allocated in `new`, freed once; work in flight keeps its buffers.
            let _ = self.context.call(|driver| unsafe { (driver.free)(self.address) });
        }
    }
}

/// Host pages that the driver locked. The memory is kept, as a registration outlives none.
pub(super) struct RegisteredPages {
    context: Arc<Context>,
    memory: Arc<dyn HostMemory>,
}

impl RegisteredPages {
    pub(super) fn new(
        context: &Arc<Context>,
        memory: Arc<dyn HostMemory>,
    ) -> Result<Self, Failure> {
        let (base, len) = (memory.base().as_ptr().cast::<c_void>(), memory.len());
        // SAFETY: the memory is valid as long as `memory` is kept, which this does.
        context.call(|driver| unsafe {
            (driver.register)(base, len, api::REGISTER_PORTABLE_MAPPED)
        })?;
        Ok(Self { context: context.clone(), memory })
    }

    /// Whether this context's driver locked the pages of `region`.
    pub(super) fn has_locked(context: &Arc<Context>, region: &Region) -> bool {
        let pages: Option<&Self> = region.registered_as();
        pages.is_some_and(|pages| Arc::ptr_eq(&pages.context, context))
    }
}

impl Registration for RegisteredPages {}

impl Drop for RegisteredPages {
    fn drop(&mut self) {
        if self.context.is_lost() {
            // To end a registration waits, too; and the device may still write there.
            core::mem::forget(Arc::clone(&self.memory));
            return;
        }
        let base = self.memory.base().as_ptr().cast();
        // SAFETY: registered in `new`, ended once; work in flight keeps its pieces and so the registration.
        let _ = self.context.call(|driver| unsafe { (driver.unregister)(base) });
    }
}

/// A loaded cubin or PTX, with its kernels in the order of their descriptions.
pub(super) struct Kernels {
    context: Arc<Context>,
    module: Handle,
    pub(super) functions: Vec<Handle>,
}

impl Kernels {
    pub(super) fn load(
        context: &Arc<Context>,
        image: &[u8],
        specs: &[KernelSpec],
        versions: &str,
    ) -> Result<Self, Failure> {
        if !image.starts_with(b"\x7fELF") && image.last() != Some(&0) {
            return Err(Failure::NoCompiler("it made neither a cubin nor whole PTX".into()));
        }
        let mut module = Handle::NULL;
        // SAFETY: a cubin names its own length, PTX ends with a zero; the driver copies it.
        let loaded = context
            .call(|driver| unsafe { (driver.load_module)(&mut module, image.as_ptr().cast()) });
        loaded.map_err(|why| match why {
            Failure::Work(why) => {
                Failure::NoCompiler(format!("{why}; the driver and the compiler are {versions}"))
            }
            other => other,
        })?;
        let mut kernels = Self { context: context.clone(), module, functions: Vec::new() };
        for spec in specs {
            kernels.functions.push(kernels.function(spec)?);
        }
        Ok(kernels)
    }

    fn function(&self, spec: &KernelSpec) -> Result<Handle, Failure> {
        let name =
            CString::new(spec.name).map_err(|_| Failure::Refused("a zero in a name".into()))?;
        let mut function = Handle::NULL;
        // SAFETY: the module is loaded; the name ends with a zero.
        self.context.call(|driver| unsafe {
            (driver.function)(&mut function, self.module, name.as_ptr())
        })?;
        if spec.shared_big > 0 {
            let bytes = spec.shared_big as c_int;
            // SAFETY: the function was just found.
            self.context.call(|driver| unsafe {
                (driver.set_attribute)(function, api::FUNCTION_MAX_DYNAMIC_SHARED, bytes)
            })?;
        }
        Ok(function)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if !self.context.is_lost() {
            // SAFETY: loaded once, unloaded once; work in flight keeps its kernels.
            let _ = self.context.call(|driver| unsafe { (driver.unload_module)(self.module) });
        }
    }
}
