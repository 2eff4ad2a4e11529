//! The constructors where a caller vouches for kernel text and for calls of kernels: their effects
//! can't be checked.

use std::sync::Arc;

use crate::{Argument, Header, Kernel, KernelCall, KernelSpec, Source};

impl Source {
    /// Takes kernel text whose writer vouches for it.
    ///
    /// # Safety
    /// `kernels` describes each kernel exactly as its head in the text does. The text does nothing
    /// when it is loaded: the host device runs it inside this process.
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
    /// `kernel` on `groups` work-groups with `arguments`. Submitting the work checks their number
    /// and kinds, that they are within their memory, and that nothing written overlaps.
    ///
    /// # Safety
    /// With these arguments, and whatever their memory then contains, the kernel ends. It reads and
    /// writes within them only; of a region ([`Argument::InPlace`], [`Argument::Mapped`]) within
    /// the work's pieces only.
    pub unsafe fn vouched(kernel: &Kernel, groups: u32, arguments: Vec<Argument>) -> Self {
        Self { kernel: kernel.clone(), groups, arguments }
    }
}
