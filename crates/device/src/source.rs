//! Kernel text and its declarations: `Device::compile` takes a [`Source`] and returns a [`Module`],
//! which gives [`Kernel`]s by name.

use core::any::Any;
use core::fmt;
use core::fmt::Write as _;
use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Failure;

/// The portable dialect, which stands before every kernel text.
pub const PLATFORM: Header =
    Header { name: "platform.h", text: Cow::Borrowed(include_str!("../kernels/platform.h")) };

/// Text that stands before a kernel's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name in the logs of compilers.
    pub name: &'static str,
    /// The text.
    pub text: Cow<'static, str>,
}

/// The kind of a kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A `const GLOBAL` pointer.
    Reads,
    /// A `GLOBAL` pointer, read and written.
    Writes,
    /// A `u32`.
    U32,
    /// A `u64`.
    U64,
}

/// The head of a kernel in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// Its name.
    pub name: &'static str,
    /// Work-items of a group, as in `KERNEL(name, group)`.
    pub group: u32,
    /// Bytes of its `SHARED_BIG`; 0 where it has none.
    pub shared_big: u32,
    /// Its parameters in order.
    pub parameters: Cow<'static, [Parameter]>,
}

/// Kernel text with its headers and descriptions, made by `Source::vouched`. Compilers see the
/// defines, [`PLATFORM`], the headers and the text, each with its own line numbers.
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) headers: Arc<[Header]>,
    pub(crate) kernels: Arc<[KernelSpec]>,
    pub(crate) defines: Vec<(String, String)>,
}

impl Source {
    /// Adds `#define name value`. Both must be tokens of C; a line end in them is refused by the
    /// compiler.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.defines.push((name.into(), value.to_string()));
        self
    }

    /// The text's name in the logs of compilers.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The kernels that the text has.
    pub fn kernels(&self) -> &Arc<[KernelSpec]> {
        &self.kernels
    }

    /// The whole text.
    pub(crate) fn assemble(&self) -> Result<String, Failure> {
        let mut whole = String::new();
        for (name, value) in &self.defines {
            if name.contains('\n') || value.contains('\n') {
                return Err(Failure::Refused(format!("the define {name:?} has a line's end")));
            }
            let _ = writeln!(whole, "#define {name} {value}");
        }
        for part in [PLATFORM].iter().chain(&*self.headers) {
            let _ = writeln!(whole, "#line 1 \"{}\"\n{}", part.name, part.text);
        }
        let _ = writeln!(whole, "#line 1 \"{}\"\n{}", self.name, self.text);
        Ok(whole)
    }
}

/// The name under which the disk cache keeps what was made from `parts`.
pub(crate) fn key_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize()[..16].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Kernels ready for one device. Copies share what is loaded.
#[derive(Clone)]
pub struct Module {
    pub(crate) device: u64,
    pub(crate) kernels: Arc<[KernelSpec]>,
    pub(crate) loaded: Arc<dyn Any + Send + Sync>,
}

impl Module {
    /// The kernel called `name`.
    ///
    /// # Errors
    /// The text has no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Failure> {
        match self.kernels.iter().position(|kernel| kernel.name == name) {
            Some(index) => Ok(Kernel { module: self.clone(), index }),
            None => Err(Failure::Refused(format!("the module has no kernel {name:?}"))),
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("kernels", &self.kernels).finish_non_exhaustive()
    }
}

/// One kernel of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) module: Module,
    pub(crate) index: usize,
}

impl Kernel {
    /// The contents of its head.
    pub fn spec(&self) -> &KernelSpec {
        &self.module.kernels[self.index]
    }

    /// Whether both are the same kernel of the same loaded module.
    pub fn is(&self, other: &Self) -> bool {
        self.index == other.index && Arc::ptr_eq(&self.module.loaded, &other.module.loaded)
    }
}
