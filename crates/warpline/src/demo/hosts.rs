//! Who is in the demo capture: addresses by place, as the table of [`super`] has them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Someone who sends, as seen on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) ip: IpAddr,
    /// Source of its frames: its own, or the provider's router for whoever is beyond that.
    pub(super) mac: [u8; 6],
    /// Time to live (hop limit) that its packets still have on the link.
    pub(super) hops: u8,
}

impl Host {
    /// Whether what is sent to it finds it. Behind the NAT, answers go to an address and port that
    /// the NAT chooses when the chain runs, so they can't be in the capture.
    pub(super) fn is_reachable(&self) -> bool {
        !matches!(self.ip, IpAddr::V4(ip) if ip.octets()[..2] == [10, 1])
    }

    pub(super) const fn is_v4(&self) -> bool {
        self.ip.is_ipv4()
    }

    /// The same host with that many hops left.
    pub(super) const fn with_hops(self, hops: u8) -> Self {
        Self { hops, ..self }
    }

    /// The same address, but sent by someone beyond the provider's router.
    pub(super) const fn forged(self) -> Self {
        Self { mac: PROVIDER, hops: 49, ..self }
    }
}

/// 10.1.`subnet`.`host`.
pub(super) const fn inside(subnet: u8, host: u8) -> Host {
    at_site(IpAddr::V4(Ipv4Addr::new(10, 1, subnet, host)), [10, 1, subnet, host])
}

/// 2001:db8:1:`subnet`::`host`: the same machine as [`inside`] of these numbers.
pub(super) const fn inside6(subnet: u8, host: u8) -> Host {
    let ip = Ipv6Addr::new(0x2001, 0xdb8, 1, subnet as u16, 0, 0, 0, host as u16);
    at_site(IpAddr::V6(ip), [10, 1, subnet, host])
}

/// 203.0.113.`host`, a server in the DMZ.
pub(super) const fn dmz(host: u8) -> Host {
    at_site(IpAddr::V4(Ipv4Addr::new(203, 0, 113, host)), [203, 0, 113, host])
}

/// 192.0.2.`host`.
pub(super) const fn internet(host: u8) -> Host {
    far(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), host)
}

/// 198.51.100.`host`.
pub(super) const fn internet_b(host: u8) -> Host {
    far(IpAddr::V4(Ipv4Addr::new(198, 51, 100, host)), host)
}

/// 10.2.0.`host`, in the branch office, at the far end of the leased line.
pub(super) const fn branch(host: u8) -> Host {
    Host { mac: LEASED_LINE, ..far(IpAddr::V4(Ipv4Addr::new(10, 2, 0, host)), host) }
}

/// 100.64.1.`host`: the space of carriers' NATs, to which there is no route.
pub(super) const fn unrouted(host: u8) -> Host {
    far(IpAddr::V4(Ipv4Addr::new(100, 64, 1, host)), host)
}

/// 2001:db8:ffff::`host`.
pub(super) const fn internet6(host: u16) -> Host {
    far(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, host)), host as u8)
}

/// 2001:db8:dead::`host`, to which there is no route.
pub(super) const fn unrouted6(host: u16) -> Host {
    far(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xdead, 0, 0, 0, 0, host)), host as u8)
}

/// The address that the NAT gives to what comes from inside.
pub(super) const NAT: Host = dmz(1);
/// Web server: TCP 80 and 443.
pub(super) const WEB: Host = dmz(17);
/// Name server: UDP 53.
pub(super) const NAME_SERVER: Host = dmz(18);
/// Telephony: UDP 16384 to 32767.
pub(super) const TELEPHONY: Host = dmz(19);
/// Keeps the time for the site; a client only.
pub(super) const CLOCK: Host = dmz(20);
/// File server, for the branch office: TCP 80.
pub(super) const FILE_SERVER: Host = dmz(21);
/// The address of the balanced shop, TCP 80, at which nobody is.
pub(super) const VIP: Host = dmz(24);
/// Who serves the shop, at TCP 8080.
pub(super) const BACKENDS: [Host; 2] = [dmz(25), dmz(26)];
/// The servers that there are, and may be pinged.
pub(super) const SERVERS: [Host; 4] = [WEB, NAME_SERVER, TELEPHONY, CLOCK];

/// The chain's own interface: where every unicast frame goes.
pub(super) const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// The router of the provider, from which all that comes from outside is sent.
pub(super) const PROVIDER: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The router of the leased line to the branch office.
pub(super) const LEASED_LINE: [u8; 6] = [2, 0, 0, 0, 0, 4];

/// One system in two sends with 64 hops, the others with 128.
const fn at_site(ip: IpAddr, [a, b, c, d]: [u8; 4]) -> Host {
    Host { ip, mac: [2, 0, a, b, c, d], hops: if d.is_multiple_of(2) { 64 } else { 128 } }
}

const fn far(ip: IpAddr, host: u8) -> Host {
    let start = if host.is_multiple_of(2) { 64 } else { 128 };
    Host { ip, mac: PROVIDER, hops: start - 6 - host % 13 }
}
