//! Where a caller vouches for kernel text and for calls of kernels: what they do can't be checked.

use std::sync::Arc;

use crate::{Argument, Header, Kernel, KernelCall, KernelSpec, Source};

impl Source {
    /// Takes kernel text whose writer vouches for it.
    ///
    /// # Safety
    /// `kernels` says of each kernel what its head in the text says, and the text does nothing when it is loaded: the host
    /// device runs it inside this process.
    pub unsafe fn vouched(
        name: &'static str,
        text: &'static str,
        headers: impl Into<Arc<[Header]>>,
        kernels: impl Into<Arc<[KernelSpec]>>,
    ) -> Self {
        let (headers, kernels) = (headers.into(), kernels.into());
        Self { name, text, headers, kernels, defines: Vec::new() }
    }
}

impl KernelCall {
    /// `kernel` on `groups` work-groups with `arguments`. How many and of what kinds they are, whether they lie within
    /// their memory, and that nothing written overlaps is looked at when the work is submitted.
    ///
    /// # Safety
    /// With these arguments, and whatever their memory then holds, the kernel ends, and reads and writes
    /// within them only; of a region ([`Argument::InPlace`], [`Argument::Mapped`]) within the work's pieces only.
    pub unsafe fn vouched(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> Self {
        Self { kernel: kernel.clone(), groups, arguments }
    }
}
