//! `routes = "kernel"`: the routes of the kernel's main table, followed while packets flow.
//!
//! Every change leads to a new reading of the whole table. A burst of changes, or changes that were
//! lost, thus cost one reading.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpline_io_error::plain;
use warpline_netlink::{Changes, Groups, Message, Requests};
use warpline_nf::{HopPorts, Ports, SourceText};

use super::checks::Checks;
use super::fib::Fib;
use super::routes::{self, ROUTES_MAX, Unsupported};

/// The name of the table in messages.
pub(super) const NAME: &str = "kernel";
/// The least time between two readings. After a long one the pause is longer, too.
const PAUSE: Duration = Duration::from_millis(100);

/// The kernel's routes as both places of a router follow them.
pub(super) struct KernelRoutes {
    ports: Ports,
    checks: Checks,
    current: Mutex<Current>,
}

struct Current {
    changes: Changes,
    /// Whether there were changes since the last reading.
    has_changed: bool,
    /// Whether the last reading failed. It is tried again.
    is_failing: bool,
    next_reading: Instant,
    /// The hash of the table's text.
    hash: u64,
    skipped: usize,
    tables: Option<Tables>,
}

/// The tables of a router, made of one reading.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) fib: Arc<Fib>,
    pub(super) hop_ports: HopPorts,
}

impl KernelRoutes {
    /// Reads the table for a chain with these ports. Changes from now on are followed.
    pub(super) fn open(ports: &Ports, checks: Checks) -> Result<(Self, SourceText), String> {
        let changes = Changes::open(Groups::Routes).map_err(|error| plain(&error))?;
        let text = read(ports).map_err(|error| plain(&error))?;
        let current = Mutex::new(Current {
            changes,
            has_changed: false,
            is_failing: false,
            next_reading: Instant::now() + PAUSE,
            hash: hash(&text.text),
            skipped: 0,
            tables: None,
        });
        Ok((Self { ports: ports.clone(), checks, current }, text))
    }

    /// Notes the tables that were built of the first reading.
    pub(super) fn set(&self, tables: Tables, skipped: usize) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.tables, current.skipped) = (Some(tables), skipped);
    }

    /// The tables that follow `fib`, if there are any.
    pub(super) fn after(&self, fib: &Arc<Fib>, report: &mut dyn FnMut(String)) -> Option<Tables> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = current.tables.as_ref()?;
        if !Arc::ptr_eq(&newest.fib, fib) {
            // The other place of the router took them up before.
            return Some(newest.clone());
        }
        let started = Instant::now();
        if !current.take_changes() || started < current.next_reading {
            return None;
        }
        current.has_changed = false;
        let built = self.rebuild(&mut current, report);
        current.next_reading = Instant::now() + PAUSE.max(started.elapsed() * 4);
        built
    }

    fn rebuild(&self, current: &mut Current, report: &mut dyn FnMut(String)) -> Option<Tables> {
        let text = match read(&self.ports) {
            Ok(text) => text,
            Err(error) => {
                if !mem::replace(&mut current.is_failing, true) {
                    report(format!("the kernel's routes can't be read: {}", plain(&error)));
                }
                current.has_changed = true;
                return None;
            }
        };
        current.is_failing = false;
        let hash = hash(&text.text);
        if hash == current.hash {
            return None;
        }
        let mut mistake = None;
        let note = &mut |reported: warpline_nf::Diagnostic| {
            mistake.get_or_insert_with(|| reported.to_string());
        };
        // The kernel has the route already, so it can't be refused.
        let routes = routes::read(&text, Unsupported::Kernel, &self.ports, note);
        if let Some(mistake) = mistake {
            report(format!("the kernel's routes are not taken up: {mistake}"));
            return None;
        }
        if routes.skipped > current.skipped {
            report(format!("the kernel's table: {}", routes.skipped_text()));
        }
        let tables = match Fib::new(&routes, None, self.checks) {
            Ok(fib) => Tables::new(fib),
            Err(why) => {
                report(format!("the kernel's routes are not taken up: {why}"));
                return None;
            }
        };
        (current.hash, current.skipped) = (hash, routes.skipped);
        current.tables = Some(tables.clone());
        Some(tables)
    }
}

impl Current {
    /// Whether there were changes since the last reading.
    fn take_changes(&mut self) -> bool {
        let mut any = false;
        let has_lost = self.changes.receive(&mut |message| any |= message != Message::Other);
        self.has_changed |= any || has_lost.unwrap_or(true);
        self.has_changed
    }
}

impl Tables {
    pub(super) fn new(mut fib: Fib) -> Self {
        let hop_ports =
            HopPorts::new(mem::take(&mut fib.ports)).with_gateways(mem::take(&mut fib.gateways));
        Self { fib: Arc::new(fib), hop_ports }
    }
}

/// The table as lines of `ip route`, with ports in place of their interfaces.
fn read(ports: &Ports) -> io::Result<SourceText> {
    let rename = |interface: &str| port_name(ports, interface);
    let text = Requests::open()?.route_lines(ROUTES_MAX, rename)?;
    Ok(SourceText::new(NAME, text))
}

/// The name of the port with this interface. Another interface gets a name that no port has.
fn port_name(ports: &Ports, interface: &str) -> String {
    let own = |name: &Option<String>| name.as_deref() == Some(interface);
    let port = ports.interfaces().iter().position(own).and_then(|at| ports.iter().nth(at));
    match port {
        Some(port) => port.name.clone(),
        None if ports.number(interface).is_some() => format!("interface:{interface}"),
        None => interface.replace('#', "_"),
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use warpline_nf::{Port, Side};

    use super::*;

    #[test]
    fn interfaces_of_ports_have_the_ports_names() {
        let port = |name: &str| Port { name: name.into(), side: Side::Inside };
        let interfaces = vec![Some("eth1".into()), Some("lan".into()), None];
        let ports = Ports::new(vec![port("lan"), port("wan"), port("eth7")]);
        let ports = ports.with_interfaces(interfaces);
        for (interface, name) in [
            ("eth1", "lan"),
            ("lan", "wan"),
            ("eth0", "eth0"),
            ("eth7", "interface:eth7"),
            ("a#b", "a_b"),
        ] {
            assert_eq!(port_name(&ports, interface), name);
        }
        assert_eq!(port_name(&Ports::default(), "eth1"), "eth1");
    }
}
