//! A file in memory that no process can change.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

/// Lets code run from the file where the system asks for it; unknown before Linux 6.3.
const MFD_EXEC: libc::c_uint = 0x10;

/// `bytes` as a sealed file.
///
/// # Errors
/// The system makes none.
pub(crate) fn sealed(bytes: &[u8]) -> io::Result<File> {
    let mut file = match create(MFD_EXEC) {
        Err(why) if why.raw_os_error() == Some(libc::EINVAL) => create(0),
        made => made,
    }?;
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is the file's; the call takes a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

fn create(exec: libc::c_uint) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | exec;
    // SAFETY: the name ends with a zero.
    match unsafe { libc::memfd_create(c"warpline-kernels".as_ptr(), flags) } {
        descriptor @ 0.. => {
            // SAFETY: the descriptor is new and belongs to this file alone.
            Ok(unsafe { File::from_raw_fd(descriptor) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_keeps_its_bytes() {
        let mut file = sealed(b"code").expect("a file");
        assert!(file.write_all(b"more").is_err() && file.set_len(1).is_err());
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(std::fs::read(path).expect("readable"), b"code");
    }
}
