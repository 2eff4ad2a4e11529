//! The interfaces that rules may name: the ports of a chain.

use crate::NumberSet;

/// How rules see the port by which a packet will leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// It is not known where the rules are asked.
    #[default]
    Unknown,
    /// By the other port of two.
    Across,
    /// By the port of the route that was chosen before the rules are asked.
    ByRoute,
}

/// The interfaces of a chain.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    names: Vec<String>,
    leaves: Leaves,
}

/// A direction through the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortDirection {
    /// The packet came in there.
    In,
    /// It will leave there.
    Out,
}

/// In the place of a port: the packet has none to leave by.
pub const NO_PORT_OUT: u16 = u16::MAX;

impl Interfaces {
    /// Those called `names`, by number.
    pub fn new(names: Vec<String>, leaves: Leaves) -> Self {
        Self { names, leaves }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The numbers of the interfaces called `name`. If `name` ends with `any`, the rest is the
    /// beginning of names. The error is the reason why a rule can't ask for it.
    pub fn named(&self, name: &str, any: char) -> Result<NumberSet, String> {
        if self.names.is_empty() {
            return Err("the chain has no [[port]]".into());
        }
        let is_it = |own: &str| match name.strip_suffix(any) {
            Some(start) => own.starts_with(start),
            None => own == name,
        };
        let found = (0..).zip(&self.names).filter(|(_, own)| is_it(own));
        let found = NumberSet::of(found.map(|(number, _)| (number, number)).collect());
        match found.is_empty() {
            true => Err(format!("no port of the chain; ports: {}", self.names.join(", "))),
            false => Ok(found),
        }
    }

    /// The way and the ports that a condition is about. For packets that leave across, these are
    /// the ports that they come by. The error is the reason why a rule can't ask for it.
    pub(crate) fn seen(
        &self,
        way: PortDirection,
        ports: NumberSet,
    ) -> Result<(PortDirection, NumberSet), String> {
        match (way, self.leaves) {
            (PortDirection::In, _) => Ok((PortDirection::In, ports)),
            (PortDirection::Out, Leaves::ByRoute) => Ok((PortDirection::Out, ports)),
            (PortDirection::Out, Leaves::Across) => {
                let others = ports.ranges().iter().flat_map(|&(first, last)| first..=last);
                Ok((
                    PortDirection::In,
                    NumberSet::of(others.map(|port| (1 - port, 1 - port)).collect()),
                ))
            }
            (PortDirection::Out, Leaves::Unknown) => Err(UNKNOWN.into()),
        }
    }

    /// Whether conditions on [`PortDirection::Out`] take for granted that packets leave across.
    pub(crate) fn presumes(&self, way: PortDirection) -> bool {
        way == PortDirection::Out && self.leaves == Leaves::Across
    }
}

const UNKNOWN: &str = "with more than two ports, the router must come before the rules";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_beginnings() {
        let names = ["eth0", "eth1", "wan"].map(str::to_owned).to_vec();
        let all = Interfaces::new(names, Leaves::Unknown);
        for (name, numbers) in [
            ("eth1", Some(vec![(1, 1)])),
            ("eth+", Some(vec![(0, 1)])),
            ("+", Some(vec![(0, 2)])),
            ("wan+", Some(vec![(2, 2)])),
            ("eth", None),
            ("eth*", None),
            ("ppp+", None),
            ("", None),
        ] {
            let found = all.named(name, '+').ok();
            assert_eq!(found.map(|set| set.ranges().to_vec()), numbers, "{name}");
        }
    }
}
