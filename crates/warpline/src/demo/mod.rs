//! The demo: a chain of every function, and a capture of about 20 s of traffic of a small site.
//!
//! `tools/demo_capture.py` makes the capture, the same bytes every time. Each function finds
//! packets in it to work on and to refuse. `files/capture.txt` counts them by kind.
//!
//! # The capture
//!
//! The capture is of one Ethernet link before the chain, with the packets that reach the chain from
//! either side. Frames go to the gateway's address whatever their sender; only ARP goes elsewhere.
//!
//! Conversations are seen both ways. What inside hosts send over IPv4 passes the NAT, so its
//! answers go to 203.0.113.1 and the port that the NAT assigned. `tools/demo_ports.txt` lists
//! these ports; the script makes the list with the program itself.
//!
//! Partners use an inside web server by a forwarded port of the NAT. Others try that port and the
//! next one.
//!
//! The shop's clients send to its VIP, and its backends send to the clients: which backend a client
//! gets follows from the balancer's file alone. The script lists the choices.
//!
//! # Address plan
//!
//! | who | addresses | Ethernet address | to know for rules and routes |
//! |---|---|---|---|
//! | gateway (the chain) | 10.1.0.1, 203.0.113.1, 203.0.113.30 | 02:00:00:00:00:01 | answers ARP only |
//! | NAT, outside | 203.0.113.1 | gateway's | answers to inside hosts; backscatter: TCP from port 80 to 500-745, SYN+ACK or RST+ACK |
//! | inside hosts, IPv4 | 10.1.0.0/16: 10.1.0-3.10-49, guests 10.1.20.10-30 | 02:00:0a:01:xx:yy for 10.1.x.y | pass the NAT; never talk to the DMZ or to each other |
//! | - intranet | 10.1.0.5 | | a web server, TCP 443; 203.0.113.1 TCP 8443 leads to it |
//! | inside hosts, IPv6 | 2001:db8:1::/48: 2001:db8:1:S::H for 10.1.S.H, tenants 2001:db8:1:28::/64 | as 10.1.S.H | not translated; two-way with 2001:db8:ffff::/48 only |
//! | DMZ | 203.0.113.16/28 | 02:00:cb:00:71:zz for 203.0.113.z | not translated; two-way |
//! | - web | 203.0.113.17 | | TCP 80 and 443 |
//! | - name server | 203.0.113.18 | | UDP 53; answers of 3 kB in fragments |
//! | - telephony | 203.0.113.19 | | UDP 16384-32767 (RTP), from the same ports |
//! | - clock | 203.0.113.20 | | client only: UDP 123 to 123 of 192.0.2.240 and 198.51.100.240 |
//! | - these four | 203.0.113.17-20 | | ICMP echo, some of it in fragments |
//! | - file server | 203.0.113.21 | | TCP 80, for the branch office |
//! | - shop | 203.0.113.24 | | a VIP, TCP 80; backends 203.0.113.25 and .26 at TCP 8080 |
//! | branch office | 10.2.0.0/16 | leased line's router, 02:00:00:00:00:04 | not translated; two-way with the file server; the far end of the line decompresses |
//! | Internet, IPv4 | 192.0.2.0/24, 198.51.100.0/24 | provider's router, 02:00:00:00:00:02 | clients of the DMZ below .130, servers for the inside from .150 on |
//! | Internet, IPv6 | 2001:db8:ffff::/48 | provider's | servers: TCP 80 and 443, UDP 53, 123 and 16384-32767, ICMPv6 echo |
//! | partners | 192.0.2.100-109 | provider's | clients of the intranet server |
//! | intruder | 198.51.100.141 | provider's | TCP to 203.0.113.1, ports 8443 and 8444: SYN, ACK, RST |
//! | scanner | 198.51.100.140 | provider's | probes closed TCP and UDP ports of 203.0.113.17-30 |
//! | no route | 100.64.0.0/10, 2001:db8:dead::/48 | | so no default route, or these as unreachable |
//!
//! | traffic | how to tell it |
//! |---|---|
//! | from inside over IPv4 | to TCP 80 and 443, UDP 53, 123, 16384-32767, 33434-33442 (traceroute), ICMP echo, some of it in fragments |
//! | spoofed | from the provider's router; source in 10.1.0.0/16 and destination in the DMZ, or both in 2001:db8:1::/48 |
//! | traceroute | UDP 33434-33442, 1 to 3 hops left: a third of them end at the router |
//! | no route | TCP 443 and UDP 40404 to the addresses above |
//! | VLAN | 802.1Q 20: guests; 802.1ad 100 around 802.1Q 40: tenants |
//! | extension headers | IPv6 hop-by-hop options, destination options, fragment header of a whole packet |
//! | malformed | 12 lies, 6 of each: to 203.0.113.17 and .18, to 2001:db8:1::a |
//!
//! Routes: 192.0.2.0/24, 198.51.100.0/24 and 2001:db8:ffff::/48 by way of the provider; the DMZ,
//! 10.1.0.0/16 and 2001:db8:1::/48 directly; 10.2.0.0/16 by the leased line; nothing else.
//!
//! A firewall without state has to let answers through by their source ports.
//!
//! Not here: lost or repeated segments, congestion, neighbour discovery, SCTP, tunnels.

#[cfg(test)]
mod tests;

use std::io::Cursor;

use warpline_io::{CaptureReader, SourceError};

/// The demo's files, by name; the chain file is the first.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("chain.toml", include_str!("files/chain.toml")),
    ("sensor.rules", include_str!("files/sensor.rules")),
    ("classes.config", include_str!("files/classes.config")),
    ("firewall.rules", include_str!("files/firewall.rules")),
    ("routes.txt", include_str!("files/routes.txt")),
    ("neighbours.txt", include_str!("files/neighbours.txt")),
    ("services.txt", include_str!("files/services.txt")),
    ("gateway.toml", include_str!("files/gateway.toml")),
    ("policies.toml", include_str!("files/policies.toml")),
    (KEYS, include_str!("files/sas.toml")),
];
/// The file that only its owner may read; files with keys are refused otherwise.
pub(crate) const KEYS: &str = "sas.toml";
/// The name of the demo's capture among them.
pub(crate) const CAPTURE: &str = "capture.pcap";

/// The name and text of the chain file.
pub(crate) fn chain() -> (&'static str, &'static str) {
    ("the demo's chain.toml", FILES[0].1)
}

/// The packets of each kind in the capture.
pub(crate) const SUMMARY: &str = include_str!("files/capture.txt");
const COMPRESSED: &[u8] = include_bytes!("files/capture.pcap.zst");

/// The demo capture as a source, from memory.
pub(crate) fn source() -> Result<CaptureReader, SourceError> {
    CaptureReader::new(Box::new(Cursor::new(COMPRESSED)), Some(COMPRESSED.len() as u64))
}
