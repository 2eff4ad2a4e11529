//! Properties of network interfaces: netdevice(7) and ethtool.

use core::ffi::CStr;
use core::mem;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong, ifreq};

/// ethtool's requests, of `linux/ethtool.h`.
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// An interface by its name, and a socket to ask about it.
pub(crate) struct Link {
    name: CString,
    socket: OwnedFd,
}

/// The argument of an ethtool request that returns a number.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

impl Link {
    /// The interface called `name`, which need not exist.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
        if name.as_bytes().is_empty() || name.as_bytes().len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: a call without pointers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system just opened it, so nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { name, socket })
    }

    /// Its number now; fails if there is no such interface.
    pub(crate) fn index(&self) -> io::Result<c_int> {
        let name: &CStr = &self.name;
        // SAFETY: the name ends with a zero byte.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Err(io::Error::last_os_error()),
            index => c_int::try_from(index).map_err(io::Error::other),
        }
    }

    /// Whether it is up and has a carrier.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        let request = self.ask(libc::SIOCGIFFLAGS as c_ulong, self.request())?;
        // SAFETY: the call wrote the flags.
        let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        Ok(flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
    }

    /// The longest packet that it sends, without the Ethernet header.
    pub(crate) fn mtu(&self) -> io::Result<usize> {
        let request = self.ask(libc::SIOCGIFMTU as c_ulong, self.request())?;
        // SAFETY: the call wrote the MTU.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// The type of its link header, an `ARPHRD` number.
    pub(crate) fn hardware(&self) -> io::Result<u16> {
        let request = self.ask(libc::SIOCGIFHWADDR as c_ulong, self.request())?;
        // SAFETY: the call wrote the address.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
    }

    /// The offloads that join received frames, as `ethtool -K` names them.
    pub(crate) fn joining_offloads(&self) -> Vec<&'static str> {
        let on = |command, mask| self.ethtool(command).is_ok_and(|value| value & mask != 0);
        let offloads = [("gro", on(ETHTOOL_GGRO, 1)), ("lro", on(ETHTOOL_GFLAGS, ETH_FLAG_LRO))];
        offloads.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
    }

    fn ethtool(&self, command: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { command, data: 0 };
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        self.ask(libc::SIOCETHTOOL as c_ulong, request)?;
        Ok(value.data)
    }

    fn request(&self) -> ifreq {
        // SAFETY: it is plain numbers and bytes; all zero is a value of each.
        let mut request: ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        request
    }

    fn ask(&self, what: c_ulong, mut request: ifreq) -> io::Result<ifreq> {
        // SAFETY: these calls read and write one `ifreq`, and for `SIOCETHTOOL` the `EthtoolValue`
        // that it points to, which outlives the call.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &raw mut request) } {
            0 => Ok(request),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
