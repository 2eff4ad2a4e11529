//! Settings by which the kernel forwards the packets of an interface. A chain with packet sockets
//! gets copies of them. The kernel sends the originals, also those that the chain drops.

use core::time::Duration;
use std::fs;
use std::time::Instant as Clock;

/// How often the settings are read while packets flow.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A setting that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelForwarding {
    /// `IPv4` or `IPv6`.
    pub family: &'static str,
    /// Its name, for `sysctl`.
    pub setting: String,
}

/// The settings by which the kernel forwards packets of `interface`.
pub fn kernel_forwarding(interface: &str) -> Vec<KernelForwarding> {
    // IPv4 forwards by the setting of the interface, IPv6 by that of all, and since Linux 6.17 also
    // by one of the interface.
    let settings = [
        ("IPv4", format!("net/ipv4/conf/{interface}/forwarding")),
        ("IPv6", "net/ipv6/conf/all/forwarding".into()),
        ("IPv6", format!("net/ipv6/conf/{interface}/force_forwarding")),
    ];
    let is_on = |(_, setting): &(&str, String)| {
        let value = fs::read_to_string(format!("/proc/sys/{setting}")).unwrap_or_default();
        !matches!(value.trim(), "" | "0")
    };
    let on = settings.into_iter().filter(is_on);
    on.map(|(family, setting)| KernelForwarding { family, setting }).collect()
}

/// Reports when the kernel begins to forward packets of an interface, and when it ends.
pub(crate) struct ForwardingWatch {
    found: Vec<KernelForwarding>,
    looked: Clock,
}

impl ForwardingWatch {
    /// Of an interface whose packets the kernel does not forward.
    pub(crate) fn new() -> Self {
        Self { found: Vec::new(), looked: Clock::now() }
    }

    /// Looks once a second.
    pub(crate) fn look(&mut self, interface: &str, report: &mut dyn FnMut(String)) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Clock::now();
        let found = kernel_forwarding(interface);
        if found == self.found {
            return;
        }
        for KernelForwarding { family, setting } in &found {
            report(format!(
                "interface {interface}: the kernel forwards {family} packets, too: it sends those \
                 that the chain drops, and the others twice; run `sysctl -w {setting}=0`"
            ));
        }
        if found.is_empty() {
            report(format!("interface {interface}: the kernel no longer forwards its packets"));
        }
        self.found = found;
    }
}
