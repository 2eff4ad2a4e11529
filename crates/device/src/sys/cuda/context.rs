//! A device's context, the memory allocated in it, and kernels.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::ffi::CString;
use std::sync::Arc;

use super::api::{self, Driver, Handle};
use super::retired::{Item, Retired};
use crate::{Failure, KernelSpec};

/// The primary context of a device.
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    device: c_int,
    context: Handle,
    lost: AtomicBool,
    /// The driver refused a cubin and took PTX.
    takes_ptx: AtomicBool,
    /// Works of all streams that are not done.
    flying: AtomicUsize,
    pub(super) retired: Retired,
}

impl Context {
    pub(super) fn retain(driver: &'static Driver, device: c_int) -> Result<Self, Failure> {
        let mut context = Handle::NULL;
        // SAFETY: the device is one of the driver's; one handle is written.
        match unsafe { (driver.retain_context)(&mut context, device) } {
            api::SUCCESS => {
                let [lost, takes_ptx] = [false; 2].map(AtomicBool::new);
                let (flying, retired) = (AtomicUsize::new(0), Retired::default());
                Ok(Self { driver, device, context, lost, takes_ptx, flying, retired })
            }
            code => Err(Failure::Refused(format!("no context: {}", driver.name_of(code)))),
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
        if Driver::is_loss(code) || self.repeats(code) {
            self.lost.store(true, Ordering::Relaxed);
            return Err(Failure::Lost(name));
        }
        Err(Failure::Work(name))
    }

    /// Whether a call that can't go wrong gives the error again, as all do after a loss: a driver
    /// may know losses that this program doesn't.
    fn repeats(&self, code: c_int) -> bool {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two numbers are written.
        unsafe { (self.driver.free_memory)(&mut free, &mut total) == code }
    }

    /// A stream was given a work.
    pub(super) fn took_off(&self) {
        self.flying.fetch_add(1, Ordering::Relaxed);
    }

    /// `works` are done, or left permanently.
    pub(super) fn landed(&self, works: usize) {
        self.flying.fetch_sub(works, Ordering::Relaxed);
    }

    /// Whether no stream has work.
    pub(super) fn is_idle(&self) -> bool {
        self.flying.load(Ordering::Relaxed) == 0
    }

    /// From now on only PTX is made for it.
    pub(super) fn prefer_ptx(&self) {
        self.takes_ptx.store(true, Ordering::Relaxed);
    }

    pub(super) fn takes_ptx(&self) -> bool {
        self.takes_ptx.load(Ordering::Relaxed)
    }

    /// Whether a call reported that the device is lost.
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
    bytes: usize,
}

impl Allocation {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Failure> {
        let bytes = bytes.max(1);
        loop {
            // Dropped memory may not be freed yet.
            let released = context.retired.released();
            match take(context, bytes) {
                Err(Failure::OutOfMemory { .. }) if context.retired.wait_for_more(released) => {}
                taken => break Ok(Self { context: context.clone(), address: taken?, bytes }),
            }
        }
    }
}

impl Allocation {
    /// Zeroes all of it, and waits until that is done.
    pub(super) fn zero(&self) -> Result<(), Failure> {
        // SAFETY: the memory is this value's, and no stream has it yet. The null stream does it, so
        // other streams would not wait.
        self.context.call(|driver| unsafe {
            match (driver.set_memory)(self.address, 0, self.bytes) {
                api::SUCCESS => (driver.synchronize)(Handle::NULL),
                code => code,
            }
        })
    }
}

fn take(context: &Context, bytes: usize) -> Result<u64, Failure> {
    let (mut address, mut full) = (0, false);
    // SAFETY: one address is written.
    let taken = context.call(|driver| unsafe {
        let code = (driver.allocate)(&mut address, bytes);
        full = code == api::OUT_OF_MEMORY;
        code
    });
    match taken {
        Ok(()) => Ok(address),
        Err(_) if full => Err(Failure::OutOfMemory { wanted: bytes, free: free(context) }),
        Err(why) => Err(why),
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
        let (address, bytes) = (self.address, self.bytes);
        self.context.retired.push(&self.context, Item::Memory { address, bytes });
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
        self.context.retired.push(&self.context, Item::Module(self.module));
    }
}
