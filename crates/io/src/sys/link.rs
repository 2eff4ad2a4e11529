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
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

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

/// `struct ethtool_drvinfo`, as far as it is read.
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`: the numbers of queues.
#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    command: u32,
    max: [u32; 4],
    received: u32,
    sent: u32,
    other: u32,
    combined: u32,
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
        let flags = self.flags()?;
        Ok(flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
    }

    /// Whether it is up without a carrier: then the system drops what is sent, without an error.
    pub(crate) fn lacks_carrier(&self) -> bool {
        self.flags().is_ok_and(|flags| flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING == 0)
    }

    fn flags(&self) -> io::Result<c_int> {
        let request = self.ask(libc::SIOCGIFFLAGS as c_ulong, self.request())?;
        // SAFETY: the call wrote the flags.
        Ok(c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
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

    /// Its Ethernet address.
    pub(crate) fn address(&self) -> io::Result<[u8; 6]> {
        let request = self.ask(libc::SIOCGIFHWADDR as c_ulong, self.request())?;
        // SAFETY: the call wrote the address.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(core::array::from_fn(|at| data[at] as u8))
    }

    /// The offloads that join received frames, as `ethtool -K` names them.
    pub(crate) fn joining_offloads(&self) -> Vec<&'static str> {
        let on = |command, mask| self.ethtool(command).is_ok_and(|value| value & mask != 0);
        let offloads = [("gro", on(ETHTOOL_GGRO, 1)), ("lro", on(ETHTOOL_GFLAGS, ETH_FLAG_LRO))];
        offloads.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
    }

    /// Whether it removes VLAN tags from received frames.
    pub(crate) fn removes_tags(&self) -> bool {
        self.ethtool(ETHTOOL_GFLAGS).is_ok_and(|flags| flags & ETH_FLAG_RXVLAN != 0)
    }

    /// The name of its driver; empty if it has none.
    pub(crate) fn driver(&self) -> String {
        let mut driver = EthtoolDriver { command: ETHTOOL_GDRVINFO, name: [0; 32], rest: [0; 160] };
        if self.ethtool_to(&mut driver).is_err() {
            return String::new();
        }
        let name = driver.name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        String::from_utf8_lossy(name).into_owned()
    }

    /// How many queues it receives by, at least one.
    pub(crate) fn queues(&self) -> u32 {
        let mut channels =
            EthtoolChannels { command: ETHTOOL_GCHANNELS, ..EthtoolChannels::default() };
        match self.ethtool_to(&mut channels) {
            Ok(()) => (channels.received + channels.combined).max(1),
            Err(_) => 1,
        }
    }

    fn ethtool(&self, command: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { command, data: 0 };
        self.ethtool_to(&mut value)?;
        Ok(value.data)
    }

    /// Makes the request that `value`, a structure of ethtool's, starts with.
    fn ethtool_to<T>(&self, value: &mut T) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = core::ptr::from_mut(value).cast();
        self.ask(libc::SIOCETHTOOL as c_ulong, request).map(drop)
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
        // SAFETY: these calls read and write one `ifreq`, and for `SIOCETHTOOL` the structure
        // that it points to, which is that of its command and outlives the call.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &raw mut request) } {
            0 => Ok(request),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
