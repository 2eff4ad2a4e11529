//! Where a packet goes, seen from the translator: decided by its addresses, before any state.

use warpline_packet::{Flags, PacketMut};

use super::super::Refusal;
use super::super::content::{Content, content};
use super::NatShard;
use super::ends::remote;
use warpline_rewrite::fixed::Target;
use warpline_rewrite::{Endpoint, is_portless};

/// The course of a packet.
pub(super) enum Course {
    Out,
    /// To an outside address: its number in the pool, where it is of that.
    In(Option<u64>),
    /// To a forwarded port.
    Forwarded(Target),
    /// From a mapped inside host: its outside address.
    MappedOut(u128),
    /// To a mapped outside address: its inside host.
    MappedIn(u128),
    /// From inside to an outside address.
    Hairpin,
    Past,
    Refused(Refusal),
}

impl NatShard {
    pub(super) fn course(&self, packet: &PacketMut<'_>, src: u128, dst: u128) -> Course {
        let (config, version) = (&self.config, packet.version());
        if version == 0 {
            return if packet.has(Flags::IP_CUT) {
                Course::Refused(Refusal::Snapped)
            } else {
                Course::Past
            };
        }
        if !config.is_inside(version, src) {
            if self.is_about_hairpin(packet, dst) {
                return Course::Hairpin;
            }
            let outside = config.outside.find(version, dst);
            return match self.course_in(packet, dst, outside) {
                Course::Past if self.is_about_binding(packet, dst) => Course::Out,
                course => course,
            };
        }
        let fixed = &config.fixed;
        if config.is_inside(version, dst) || stays_on_link(version, dst) {
            Course::Past
        } else if self.is_outside(version, dst) {
            match self.words.has_two() {
                _ if self.is_about_remote(packet, dst) => {
                    self.course_in(packet, dst, config.outside.find(version, dst))
                }
                true => Course::Hairpin,
                false => Course::Refused(Refusal::Hairpin),
            }
        } else if is_multicast(version, dst) {
            Course::Refused(Refusal::Multicast)
        } else if let Some(course) = self.course_of_error(packet, dst) {
            course
        } else if config.rules.is_empty() && fixed.is_empty() {
            Course::Out
        } else {
            let answers = || self.answers_forward(packet, src, dst);
            let own = || match fixed.is_empty() {
                true => None,
                false => fixed.outside_of(version, src).filter(|_| !answers()),
            };
            let own = || own().map(Course::MappedOut);
            match config.translates(version, src, dst, packet.protocol(), || packet.interface()) {
                Some(true) => own().unwrap_or(Course::Out),
                _ if answers() => Course::Out,
                Some(false) => Course::Past,
                None => own().unwrap_or(Course::Past),
            }
        }
    }

    /// Whether an address is an outside one.
    #[inline]
    pub(super) fn is_outside(&self, version: u8, address: u128) -> bool {
        let (config, fixed) = (&self.config, &self.config.fixed);
        let is_fixed =
            || fixed.has_forwards(version, address) || fixed.inside_of(version, address).is_some();
        config.outside.find(version, address).is_some() || !fixed.is_empty() && is_fixed()
    }

    /// The same of a packet from outside; `outside` is the number of its destination in the pool.
    fn course_in(&self, packet: &PacketMut<'_>, dst: u128, outside: Option<u64>) -> Course {
        let (fixed, version) = (&self.config.fixed, packet.version());
        if fixed.is_empty() {
            return outside.map_or(Course::Past, |number| Course::In(Some(number)));
        }
        let is_portless = is_portless(version, packet.protocol());
        if packet.has(Flags::TRANSPORT) || is_portless && !packet.has(Flags::LATER_FRAGMENT) {
            let port = match is_portless {
                true => packet.protocol().into(),
                false => packet.dst_port(),
            };
            let to = Endpoint { address: dst, port };
            if let Some(target) = fixed.forward(version, packet.protocol(), to)
                && takes(&target, packet)
            {
                return Course::Forwarded(target);
            }
        }
        let has_forwards = || fixed.has_forwards(version, dst);
        match fixed.inside_of(version, dst) {
            Some(_) if has_forwards() && self.follows_forward(packet) => Course::In(outside),
            Some(inside) => Course::MappedIn(inside),
            None if outside.is_some() || has_forwards() => Course::In(outside),
            None => Course::Past,
        }
    }

    /// Whether a packet belongs to a connection to a forwarded port, which is translated back
    /// whatever the rules say of its host.
    #[inline(never)]
    fn answers_forward(&self, packet: &PacketMut<'_>, src: u128, dst: u128) -> bool {
        let version = packet.version();
        self.config.fixed.is_host(version, src)
            && match content(packet) {
                Ok(Content::Flow(flow)) => {
                    let inside = Endpoint { address: src, port: flow.src_port };
                    let remote = remote(flow.protocol, dst, flow.dst_port);
                    self.connection(version, flow.protocol, inside, remote).is_some()
                }
                Ok(Content::LaterFragment) => self.followed(packet).is_ok(),
                _ => false,
            }
    }
}

/// Whether a forward takes a packet that comes by this port.
pub(super) fn takes(target: &Target, packet: &PacketMut<'_>) -> bool {
    target.came_by.is_all() || target.came_by.has(packet.interface())
}

/// Link-local addresses of IPv6, the limited broadcast, and groups of link scope.
fn stays_on_link(version: u8, dst: u128) -> bool {
    if version == 4 {
        let dst = dst as u32;
        return dst >> 8 == 0x00e0_0000 || dst == u32::MAX;
    }
    let scope = dst >> 112 & 0xf;
    dst >> 118 == 0xfe80 >> 6 || (is_multicast(6, dst) && scope <= 2)
}

fn is_multicast(version: u8, dst: u128) -> bool {
    if version == 4 { dst as u32 >> 28 == 0xe } else { dst >> 120 == 0xff }
}
