//! The course of ICMP errors from inside: that of the connection that they quote, whichever address
//! sends them (RFC 5508, REQ-4 to REQ-6).

use warpline_packet::PacketMut;
use warpline_packet::wire::ip_protocol;

use super::super::Refusal;
use super::super::content::{Content, content};
use super::NatShard;
use super::course::Course;
use super::ends::remote;
use warpline_rewrite::icmp::{self, Quote};

impl NatShard {
    /// The course of an ICMP error about an inside host, or of a later fragment of one; `None` for
    /// other packets.
    #[inline]
    pub(super) fn course_of_error(&self, packet: &PacketMut<'_>, dst: u128) -> Option<Course> {
        match packet.protocol() {
            ip_protocol::ICMP | ip_protocol::ICMPV6 => self.quoted_course(packet, dst),
            _ => None,
        }
    }

    #[inline(never)]
    fn quoted_course(&self, packet: &PacketMut<'_>, dst: u128) -> Option<Course> {
        match content(packet) {
            Ok(Content::Error) => {}
            Ok(Content::LaterFragment) => {
                return self.followed(packet).is_ok().then_some(Course::Out);
            }
            _ => return None,
        }
        let (remote, host, protocol) = icmp::addresses(packet.payload(), packet.version())?;
        if !self.config.is_inside(packet.version(), host) {
            return None;
        }
        Some(match remote == dst {
            false => Course::Refused(Refusal::BadQuote),
            true if self.is_quote_translated(packet, remote, host, protocol) => Course::Out,
            true => Course::Past,
        })
    }

    /// Whether the packet that an error quotes, from `remote` to an inside host, was translated.
    fn is_quote_translated(
        &self,
        packet: &PacketMut<'_>,
        remote: u128,
        host: u128,
        protocol: u8,
    ) -> bool {
        let (config, version) = (&self.config, packet.version());
        let by_rule = config.translates(version, host, remote, protocol, || packet.interface());
        by_rule.unwrap_or_else(|| config.fixed.outside_of(version, host).is_some())
            || match Quote::read(packet.payload(), version) {
                Some(quote) => self.has_binding(packet, &quote),
                // The protocol that rules may ask for follows.
                None => version == 6 && ip_protocol::is_extension(protocol),
            }
    }

    /// Whether a quoted packet came in by a binding, though no rule translates its answers: by a
    /// forwarded port, or to a host whose packets come by another port than the error.
    fn has_binding(&self, packet: &PacketMut<'_>, quote: &Quote) -> bool {
        let Quote { protocol, src, dst: host, .. } = *quote;
        let remote = remote(protocol, src.address, src.port);
        self.connection(packet.version(), protocol, host, remote).is_some()
            || self.config.asks_ports() && self.outbound_error(packet, src.address).is_ok()
    }

    /// Whether an ICMP error from a router without an inside address, or a later fragment of one,
    /// is about a binding.
    #[inline]
    pub(super) fn is_about_binding(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        let course = self.course_of_error(packet, dst);
        // Packets between inside hosts are not translated.
        matches!(course, Some(Course::Out))
            && !self.config.is_inside(packet.version(), dst)
            && self.binds(packet, dst)
    }

    #[cold]
    fn binds(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        match content(packet) {
            Ok(Content::Error) => self.outbound_error(packet, dst).is_ok(),
            _ => true,
        }
    }

    /// Whether an ICMP error from a router without an inside address is about a packet that came to
    /// an inside host by an outside address of another one. Later fragments follow the first.
    #[inline]
    pub(super) fn is_about_hairpin(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        matches!(packet.protocol(), ip_protocol::ICMP | ip_protocol::ICMPV6)
            && self.words.has_two()
            && self.quotes_hairpin(packet, dst)
    }

    /// Whether an ICMP error from an inside address is about a packet that left to a remote one: a
    /// router outside may have an address that counts as inside. Later fragments follow the first.
    #[inline]
    pub(super) fn is_about_remote(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        matches!(packet.protocol(), ip_protocol::ICMP | ip_protocol::ICMPV6)
            && self.quotes_remote(packet, dst)
    }

    #[cold]
    fn quotes_remote(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        let version = packet.version();
        let is_remote = |to| !self.config.is_inside(version, to) && !self.is_outside(version, to);
        match content(packet) {
            Ok(Content::Error) => icmp::addresses(packet.payload(), version)
                .is_some_and(|(from, to, _)| from == dst && is_remote(to)),
            Ok(Content::LaterFragment) => {
                let first = self.fragments.find(packet, self.bindings.now());
                first.is_some_and(|(_, source)| source == 0)
            }
            _ => false,
        }
    }

    #[cold]
    fn quotes_hairpin(&self, packet: &PacketMut<'_>, dst: u128) -> bool {
        let version = packet.version();
        let to_inside = |(_, host, _)| self.config.is_inside(version, host);
        match content(packet) {
            Ok(Content::Error) => {
                self.is_outside(version, dst)
                    && icmp::addresses(packet.payload(), version).is_some_and(to_inside)
            }
            Ok(Content::LaterFragment) => {
                let first = self.fragments.find(packet, self.bindings.now());
                first.is_some_and(|(_, source)| source != 0)
            }
            _ => false,
        }
    }
}
