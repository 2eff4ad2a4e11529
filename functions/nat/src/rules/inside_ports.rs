//! Ports of the inside host that a rule forwards to.

/// The ports that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InsidePorts {
    /// The first and the last.
    pub(super) range: (u16, u16),
    /// The outside port of the first one, where the others follow it.
    pub(super) base: Option<u16>,
    /// Whether one is chosen at random.
    pub(super) is_random: bool,
}

/// Why ports are not forwarded.
pub(super) const CHOSEN: &str = "a range of inside ports, of which Linux takes a free one";

impl InsidePorts {
    /// The inside ports of these outside ones, one or as many. `None` if other connections or
    /// chance decide: Linux keeps a port within the range, and takes the first free one otherwise.
    pub(super) fn of(self, outside: (u16, u16)) -> Option<(u16, u16)> {
        let (first, last) = self.range;
        let ports = match self.base {
            _ if first == last => return Some(self.range),
            _ if self.is_random => return None,
            Some(base) => {
                let at = |port: u16| first.checked_add(port.checked_sub(base)?);
                (at(outside.0)?, at(outside.1)?)
            }
            None => outside,
        };
        (first <= ports.0 && ports.1 <= last).then_some(ports)
    }
}
