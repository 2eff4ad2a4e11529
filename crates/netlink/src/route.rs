//! Routes of the kernel.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::message::{attributes, half, ip_address, word};

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its destination and the length of the prefix.
    pub prefix: (IpAddr, u8),
    /// The treatment of its packets.
    pub kind: RouteKind,
    /// The number of its table.
    pub table: u32,
    /// Of two routes to a prefix, the one with the lower metric holds.
    pub metric: u32,
    /// Its next hops; one unless it has several.
    pub hops: Vec<NextHop>,
    /// An attribute that limits it to some packets or wraps them, as `ip route` names it.
    pub special: Option<Cow<'static, str>>,
    /// Whether the kernel copied it from another for its own use.
    pub is_cloned: bool,
}

/// The treatment of the packets of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// They go to a next hop.
    Unicast,
    /// They are dropped silently.
    Blackhole,
    /// They are dropped: the host can't be reached.
    Unreachable,
    /// They are dropped: forbidden.
    Prohibit,
    /// Another kind, as `ip route` names it.
    Other(&'static str),
}

/// A next hop of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// The router's address; none if the prefix is on the link.
    pub gateway: Option<IpAddr>,
    /// The number of the interface.
    pub index: Option<i32>,
    /// Whether the kernel does not use it now.
    pub is_dead: bool,
}

/// The number of the table `main`.
const MAIN: u32 = 254;
/// Flags of `rtmsg` and `rtnexthop`.
const CLONED: u32 = 0x200;
const DEAD: u32 = 0x1;
/// Bytes of `rtmsg` and `rtnexthop`.
const HEADER_LEN: usize = 12;
const HOP_LEN: usize = 8;
/// Most next hops of a route that are read.
const HOPS_MAX: usize = 256;

impl Route {
    /// Whether it is in the table `main`, and not a copy.
    pub fn is_main(&self) -> bool {
        self.table == MAIN && !self.is_cloned
    }

    /// Whether the kernel uses it now.
    pub fn is_alive(&self) -> bool {
        self.kind != RouteKind::Unicast || self.hops.iter().any(|hop| !hop.is_dead)
    }

    /// It as a line of `ip route`, with the interfaces' names by `name`.
    pub fn line(&self, name: impl Fn(i32) -> String) -> String {
        let kind = match self.kind {
            RouteKind::Unicast => "",
            RouteKind::Blackhole => "blackhole ",
            RouteKind::Unreachable => "unreachable ",
            RouteKind::Prohibit => "prohibit ",
            RouteKind::Other(kind) => kind,
        };
        let space = if matches!(self.kind, RouteKind::Other(_)) { " " } else { "" };
        let (address, len) = self.prefix;
        let mut line = format!("{kind}{space}{address}/{len}");
        if self.hops.len() > 1 {
            line += " nexthop";
        } else if let (Some(hop), RouteKind::Unicast) = (self.hops.first(), self.kind) {
            if let Some(gateway) = hop.gateway {
                let differs = gateway.is_ipv6() != address.is_ipv6();
                let family = if gateway.is_ipv6() { "inet6 " } else { "inet " };
                line += &format!(" via {}{gateway}", if differs { family } else { "" });
            }
            if let Some(index) = hop.index {
                line += &format!(" dev {}", name(index));
            }
        }
        if let Some(special) = &self.special {
            line += &format!(" {special}");
        }
        if self.metric > 0 {
            line += &format!(" metric {}", self.metric);
        }
        line
    }
}

/// `rtmsg` and its attributes.
pub(crate) fn parse(body: &[u8]) -> Option<Route> {
    let &[family, len, source_len, tos, table, _, _, kind, ..] = body else { return None };
    let flags = word(body, 8)?;
    let (any, len_max): (IpAddr, u8) = match i32::from(family) {
        libc::AF_INET => (Ipv4Addr::UNSPECIFIED.into(), 32),
        libc::AF_INET6 => (Ipv6Addr::UNSPECIFIED.into(), 128),
        _ => return None,
    };
    let mut route = Route {
        prefix: (any, len),
        kind: kind_of(kind),
        table: table.into(),
        metric: 0,
        hops: Vec::new(),
        special: (tos != 0).then_some("tos 0".into()),
        is_cloned: flags & CLONED != 0,
    };
    if source_len > 0 {
        route.special = Some("tos 0".into());
    }
    let is_dead = flags & DEAD != 0;
    let mut only = NextHop { is_dead, ..NextHop::default() };
    let (mut several, mut next_hop_id) = (None, None);
    attributes(body.get(HEADER_LEN..)?, |attribute, value| match attribute {
        libc::RTA_DST => route.prefix.0 = ip_address(value).unwrap_or(any),
        libc::RTA_OIF => only.index = word(value, 0).map(u32::cast_signed),
        libc::RTA_GATEWAY => only.gateway = ip_address(value),
        RTA_VIA => only.gateway = value.get(2..).and_then(ip_address),
        libc::RTA_PRIORITY => route.metric = word(value, 0).unwrap_or(0),
        libc::RTA_TABLE => route.table = word(value, 0).unwrap_or(route.table),
        libc::RTA_MULTIPATH => several = Some(hops(value, &mut route.special)),
        RTA_ENCAP => route.special = Some("encap".into()),
        RTA_NH_ID => next_hop_id = word(value, 0),
        _ => {}
    })?;
    if let Some(id) = next_hop_id
        && several.is_none()
        && only.gateway.is_none()
        && only.index.is_none()
    {
        route.special = route.special.or_else(|| Some(format!("nhid {id}").into()));
    }
    route.hops = several.unwrap_or_else(|| vec![only]);
    let is_whole = len <= len_max && route.prefix.0.is_ipv4() == any.is_ipv4();
    is_whole.then_some(route)
}

/// Attributes that `libc` lacks.
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;

/// `rtnexthop`s, each with attributes.
fn hops(mut bytes: &[u8], special: &mut Option<Cow<'static, str>>) -> Vec<NextHop> {
    let mut all = Vec::new();
    while let (Some(len), Some(index), Some(&flags)) =
        (half(bytes, 0).map(usize::from), word(bytes, 4), bytes.get(2))
    {
        if len < HOP_LEN || len > bytes.len() || all.len() == HOPS_MAX {
            break;
        }
        let is_dead = u32::from(flags) & DEAD != 0;
        let mut hop = NextHop { gateway: None, index: Some(index.cast_signed()), is_dead };
        let whole = attributes(&bytes[HOP_LEN..len], |attribute, value| match attribute {
            libc::RTA_GATEWAY => hop.gateway = ip_address(value),
            RTA_VIA => hop.gateway = value.get(2..).and_then(ip_address),
            RTA_ENCAP => *special = Some("encap".into()),
            _ => {}
        });
        all.extend(whole.map(|()| hop));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

fn kind_of(kind: u8) -> RouteKind {
    match kind {
        libc::RTN_UNICAST => RouteKind::Unicast,
        libc::RTN_BLACKHOLE => RouteKind::Blackhole,
        libc::RTN_UNREACHABLE => RouteKind::Unreachable,
        libc::RTN_PROHIBIT => RouteKind::Prohibit,
        libc::RTN_LOCAL => RouteKind::Other("local"),
        libc::RTN_BROADCAST => RouteKind::Other("broadcast"),
        libc::RTN_ANYCAST => RouteKind::Other("anycast"),
        libc::RTN_MULTICAST => RouteKind::Other("multicast"),
        libc::RTN_THROW => RouteKind::Other("throw"),
        _ => RouteKind::Other("nat"),
    }
}
