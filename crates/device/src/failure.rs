//! Errors of devices, as values: the caller continues without the device.

use core::fmt;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel text was not accepted. The log names the lines of our text.
    Compile {
        /// The compiler's output.
        log: String,
    },
    /// The compiler can't be used: there is none, or it can't make code for this device.
    NoCompiler(String),
    /// The device has too little memory.
    OutOfMemory {
        /// The requested bytes.
        wanted: usize,
        /// The free bytes, if the device reports them.
        free: Option<usize>,
    },
    /// The request is invalid: a range outside its memory, arguments that don't fit the kernel,
    /// memory of another device. Nothing was done.
    Refused(String),
    /// A copy or a kernel failed. The device continues.
    Work(String),
    /// The device is lost, and with it what lay in its memory. Nothing on it will succeed again.
    Lost(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile { log } => {
                write!(f, "the kernel text does not compile:\n{}", log.trim_end())
            }
            Self::NoCompiler(why) => write!(f, "no compiler for kernels: {why}"),
            Self::OutOfMemory { wanted, free: Some(free) } => {
                write!(f, "out of memory: {wanted} bytes wanted, {free} are free")
            }
            Self::OutOfMemory { wanted, free: None } => {
                write!(f, "out of memory: {wanted} bytes wanted")
            }
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Work(why) => write!(f, "a copy or a kernel failed: {why}"),
            Self::Lost(why) => write!(f, "the device is lost: {why}"),
        }
    }
}

impl core::error::Error for Failure {}

/// The reason why a kind of device, a compiler or a meter is missing, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Missing {}
