//! Ports that forward by routes: the kernel's neighbours and addresses beside a chain.

use std::net::IpAddr;
use std::path::PathBuf;

use warpline_engine::Chain;
use warpline_io::af_packet::AfPacketConfig;
use warpline_io::kernel_forwarding::{KernelForwarding, kernel_forwarding};
use warpline_io::neighbours::{Follower, NotFollowed};
use warpline_io_error::plain;

use crate::ports::NotOpened;

/// Follows the neighbours of a chain's ports, if these forward by routes.
pub(crate) fn follow(chain: &Chain) -> Result<Option<Follower>, NotOpened> {
    let ports = chain.ports();
    if !ports.are_routed() {
        return Ok(None);
    }
    let interfaces = ports.interfaces();
    let first = interfaces.iter().flatten().next().map_or("", String::as_str);
    for interface in interfaces.iter().flatten() {
        refuse_forwarding(interface)?;
    }
    match Follower::start(interfaces.to_vec(), chain.own_addresses()) {
        Ok(follower) => Ok(Some(follower)),
        Err(NotFollowed::NotPermitted) => Err(at(
            first,
            "not permitted: forward = \"route\" needs root or CAP_NET_ADMIN to resolve neighbours",
        )),
        Err(NotFollowed::Io(error)) => Err(at(first, &format!("neighbours: {}", plain(&error)))),
    }
}

/// Warnings for the operator before packets flow.
pub(crate) fn warnings(follower: &Follower) -> Vec<String> {
    let warning = |address: IpAddr| {
        let rules = advised_rules(address);
        format!(
            "warning: {address} is an address of the chain and of this machine; unless a rule \
             drops its packets, the kernel answers them, too: `{rules}`\n"
        )
    };
    follower.shared_addresses().into_iter().map(warning).collect()
}

/// Commands that make the kernel drop packets to `address`, but not neighbour discovery: it answers
/// that for the chain.
fn advised_rules(address: IpAddr) -> String {
    if address.is_ipv4() {
        return format!("iptables -t raw -A PREROUTING -d {address} -j DROP");
    }
    let rule = format!("ip6tables -t raw -A PREROUTING -d {address}");
    let accept = |kind: &str| format!("{rule} -p icmpv6 --icmpv6-type {kind} -j ACCEPT");
    let [asks, answers] = ["neighbour-solicitation", "neighbour-advertisement"].map(accept);
    format!("{asks}; {answers}; {rule} -j DROP")
}

/// A kernel that forwards as well would send each packet a second time.
fn refuse_forwarding(interface: &str) -> Result<(), NotOpened> {
    let found = kernel_forwarding(interface);
    let Some(KernelForwarding { family, setting }) = found.first() else { return Ok(()) };
    let why = format!(
        "the kernel forwards {family} packets of {interface}, so each would be sent twice; run \
         `sysctl -w {setting}=0`"
    );
    Err(at(interface, &why))
}

fn at(interface: &str, why: &str) -> NotOpened {
    let name = format!("{}{interface}", AfPacketConfig::PREFIX);
    NotOpened { why: format!("{name}: {why}"), path: Some(PathBuf::from(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advised_rules_leave_neighbour_discovery_to_the_kernel() {
        let of = |address: &str| advised_rules(address.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), "iptables -t raw -A PREROUTING -d 192.0.2.1 -j DROP");
        let rules = of("2001:db8::1");
        let rules: Vec<&str> = rules.split("; ").collect();
        assert!(rules[0].contains("neighbour-solicitation -j ACCEPT"), "{rules:?}");
        assert!(rules[1].contains("neighbour-advertisement -j ACCEPT"), "{rules:?}");
        assert_eq!(rules[2], "ip6tables -t raw -A PREROUTING -d 2001:db8::1 -j DROP");
    }
}
