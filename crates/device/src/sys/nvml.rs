//! NVML: power, energy, memory and utilisation of NVIDIA's GPUs, with the numbers of nvml.h.

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ffi::CString;
use std::ptr;
use std::sync::OnceLock;

use crate::Missing;
use crate::sys::library::functions;

functions! {
    /// nvml.h, version 11 and later.
    Api in &["libnvidia-ml.so.1"];
    init = "nvmlInit_v2"() -> c_int;
    by_bus = "nvmlDeviceGetHandleByPciBusId_v2"(*const c_char, *mut *mut c_void) -> c_int;
    by_uuid = "nvmlDeviceGetHandleByUUID"(*const c_char, *mut *mut c_void) -> c_int;
    power = "nvmlDeviceGetPowerUsage"(*mut c_void, *mut c_uint) -> c_int;
    energy = "nvmlDeviceGetTotalEnergyConsumption"(*mut c_void, *mut c_ulonglong) -> c_int;
    memory = "nvmlDeviceGetMemoryInfo"(*mut c_void, *mut Memory) -> c_int;
    utilisation = "nvmlDeviceGetUtilizationRates"(*mut c_void, *mut Utilisation) -> c_int;
    mig_mode = "nvmlDeviceGetMigMode"(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;
}

/// Finds a device by a name.
type Find = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;

/// `nvmlMemory_t`, in bytes.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlUtilization_t`, in percent of the last sample's time, which is between a sixth of a second
/// and a second.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Utilisation {
    gpu: c_uint,
    memory: c_uint,
}

/// Loaded and started once.
fn api() -> Result<&'static Api, Missing> {
    static API: OnceLock<Result<Api, Missing>> = OnceLock::new();
    API.get_or_init(start).as_ref().map_err(Clone::clone)
}

fn start() -> Result<Api, Missing> {
    let api = Api::load()?;
    // SAFETY: takes nothing; it may be called at any time.
    let code = unsafe { (api.init)() };
    right(code, "NVML can't start").map(|()| api)
}

/// A GPU of NVML's, or a MIG instance of one.
pub(crate) struct Gpu {
    api: &'static Api,
    device: *mut c_void,
}

impl Gpu {
    /// The GPU at a place on the bus, as the CUDA driver writes it.
    pub(crate) fn at(bus: &str) -> Result<Self, Missing> {
        Self::found(api()?.by_bus, bus, "NVML does not know the device")
    }

    /// The MIG instance with a UUID. NVML reports only its memory.
    pub(crate) fn instance(uuid: &str) -> Result<Self, Missing> {
        Self::found(api()?.by_uuid, &format!("MIG-{uuid}"), "NVML does not know the instance")
    }

    fn found(by: Find, name: &str, otherwise: &str) -> Result<Self, Missing> {
        let name = CString::new(name).map_err(|_| Missing("a zero in a device's name".into()))?;
        let mut device = ptr::null_mut();
        // SAFETY: the name ends with a zero; one handle is written, which stays valid.
        let code = unsafe { by(name.as_ptr(), &mut device) };
        right(code, otherwise)?;
        Ok(Self { api: api()?, device })
    }

    /// Watts; on Hopper the mean of the last second.
    pub(crate) fn watts(&self) -> Result<f64, Missing> {
        let mut milliwatts = 0;
        // SAFETY: the handle is NVML's; one number is written.
        let code = unsafe { (self.api.power)(self.device, &mut milliwatts) };
        right(code, "NVML does not say the power")?;
        Ok(f64::from(milliwatts) / 1e3)
    }

    /// Joules since the driver was loaded.
    pub(crate) fn joules(&self) -> Result<f64, Missing> {
        let mut millijoules = 0;
        // SAFETY: as above.
        let code = unsafe { (self.api.energy)(self.device, &mut millijoules) };
        right(code, "NVML does not say the energy")?;
        Ok(millijoules as f64 / 1e3)
    }

    /// Bytes in use by any process, including the driver's own.
    pub(crate) fn memory_used(&self) -> Result<u64, Missing> {
        let mut memory = Memory::default();
        // SAFETY: the handle is NVML's; one struct of nvml.h's layout is written.
        let code = unsafe { (self.api.memory)(self.device, &mut memory) };
        right(code, "NVML does not say the memory in use").map(|()| memory.used)
    }

    /// The share of the last sample's time in which a kernel ran, 0 to 1.
    pub(crate) fn busy(&self) -> Result<f64, Missing> {
        let mut rates = Utilisation::default();
        // SAFETY: as above.
        let code = unsafe { (self.api.utilisation)(self.device, &mut rates) };
        right(code, "NVML does not say the utilisation").map(|()| f64::from(rates.gpu) / 1e2)
    }

    /// Whether it is divided into MIG instances. A GPU without MIG, or one that doesn't report it,
    /// is not.
    pub(crate) fn is_divided(&self) -> bool {
        let (mut now, mut next) = (0, 0);
        // SAFETY: the handle is NVML's; two numbers are written.
        let code = unsafe { (self.api.mig_mode)(self.device, &mut now, &mut next) };
        code == 0 && now == 1
    }
}

fn right(code: c_int, what: &str) -> Result<(), Missing> {
    let why = match code {
        0 => return Ok(()),
        3 => "it is not supported there",
        4 => "no permission",
        6 => "not found",
        9 => "no driver is loaded",
        15 => "the GPU is lost",
        _ => return Err(Missing(format!("{what}: NVML's error {code}"))),
    };
    Err(Missing(format!("{what}: {why}")))
}
