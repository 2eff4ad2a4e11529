//! An alert as a line of JSON, in Suricata's EVE form (userguide, output/eve/eve-json-format).

use core::net::IpAddr;
use std::io::Write;

use warpline_packet::LinkType;
use warpline_packet::wire::ethernet::Ethernet;

use super::text::{
    address, base64, has_ports, is_icmp, iso_time, json_printable, json_text, protocol_name,
};
use super::{Alert, FlowAt, Source};
use crate::apps::{Apps, DetectedApp};
use crate::detect::FlowVars;
use warpline_nids_rules::{About, Names, Target};

/// Options for the contents of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EveOptions {
    /// Bytes of the payload in base 64, as `payload`.
    pub payload: usize,
    /// Bytes of the payload as text, as `payload_printable`.
    pub payload_printable: usize,
    /// Bytes of the frame in base 64, as `packet`, and its link type, as `packet_info`.
    pub packet: usize,
    /// The Ethernet addresses, as `ether`.
    pub ether: bool,
    /// The rule's metadata, as `alert.metadata`, and the flow's flowbits and flowints, as
    /// `metadata`.
    pub metadata: bool,
}

impl EveOptions {
    /// The most bytes of an alert's payload and of its frame in reports.
    pub fn reported_len(&self) -> [usize; 2] {
        [self.payload.max(self.payload_printable), self.packet]
    }
}

/// Parts of a line that aren't in its alert.
pub(super) struct Known<'a> {
    /// The number of the packet that it is about.
    pub(super) packet: u64,
    /// Its rule.
    pub(super) about: &'a About,
    /// The names of flowbits and flowints.
    pub(super) names: &'a Names,
}

/// Appends the line of `alert`.
pub(super) fn write_line(
    out: &mut Vec<u8>,
    alert: &Alert<'_>,
    &Known { packet, about, names }: &Known<'_>,
    options: EveOptions,
) {
    out.extend_from_slice(b"{\"timestamp\":\"");
    iso_time(out, alert.captured);
    out.push(b'"');
    if let Some(flow) = &alert.flow {
        let _ = write!(out, ",\"flow_id\":{}", flow.id);
    }
    if alert.source == Source::Wire {
        let _ = write!(out, ",\"pcap_cnt\":{packet}");
    }
    out.extend_from_slice(b",\"event_type\":\"alert\"");
    vlans(out, alert);
    packet_ends(out, alert);
    let source = match alert.source {
        Source::Wire => WIRE,
        Source::Fragments => "defrag",
        Source::FlowEnd => "stream (flow timeout)",
    };
    let _ = write!(out, ",\"pkt_src\":\"{source}\"");
    if options.metadata {
        flow_vars(out, &alert.vars, names);
    }
    if options.ether {
        ether(out, alert);
    }
    rule(out, alert, about, options);
    if alert.source == Source::Fragments {
        last_fragment(out, alert, packet);
    }
    if let Some(flow) = &alert.flow {
        application(out, &flow.apps);
        flow_at(out, alert, flow);
    }
    payload(out, alert, options);
    let _ = write!(out, ",\"stream\":{}", u8::from(alert.is_stream));
    if options.packet > 0 && alert.source != Source::FlowEnd {
        out.extend_from_slice(b",\"packet\":\"");
        base64(out, alert.frame);
        packet_info(out, alert.link);
    }
    out.extend_from_slice(b"}\n");
}

/// The link type, as the number and the name that libpcap has for it on Linux.
fn packet_info(out: &mut Vec<u8>, link: LinkType) {
    let (number, name) = match link.0 {
        0 => (0, "NULL"),
        1 => (1, "EN10MB"),
        9 => (9, "PPP"),
        50 => (50, "PPP_SERIAL"),
        51 => (51, "PPP_ETHER"),
        101 => (12, "RAW"),
        104 => (104, "C_HDLC"),
        105 => (105, "IEEE802_11"),
        108 => (108, "LOOP"),
        113 => (113, "LINUX_SLL"),
        228 => (228, "IPV4"),
        229 => (229, "IPV6"),
        276 => (276, "LINUX_SLL2"),
        other => (other, "n/a"),
    };
    let _ =
        write!(out, "\",\"packet_info\":{{\"linktype\":{number},\"linktype_name\":\"{name}\"}}");
}

/// The flow's variables, as rules set them. Bits with these prefixes go to `traffic`, without the
/// prefix.
fn flow_vars(out: &mut Vec<u8>, vars: &FlowVars, names: &Names) {
    if vars.bits().is_empty() && vars.ints().is_empty() {
        return;
    }
    let bits = vars.bits().iter().filter_map(|name| names.get(name)).map(|name| &**name);
    let kinds = ["traffic/id/", "traffic/label/"];
    let of = |kind: &'static str| bits.clone().filter_map(move |name| name.strip_prefix(kind));
    let is_plain = |name: &&str| !kinds.iter().any(|kind| name.starts_with(*kind));
    let mut traffic = Fields::open(out, "traffic");
    traffic.list("id", of(kinds[0]));
    traffic.list("label", of(kinds[1]));
    if !traffic.close() {
        out.truncate(out.len() - ",\"traffic\":{}".len());
    }
    let mut metadata = Fields::open(out, "metadata");
    metadata.list("flowbits", bits.clone().filter(is_plain));
    let ints = vars.ints().iter().filter_map(|(name, value)| Some((names.get(name)?, value)));
    metadata.numbers("flowints", ints.map(|(name, value)| (&**name, *value)));
    metadata.close();
}

/// An object that is written field by field.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
    has_any: bool,
}

impl<'a> Fields<'a> {
    fn open(out: &'a mut Vec<u8>, name: &str) -> Self {
        let _ = write!(out, ",\"{name}\":{{");
        Self { out, has_any: false }
    }

    fn name(&mut self, name: &str) {
        if self.has_any {
            self.out.push(b',');
        }
        json_text(self.out, name);
        self.out.push(b':');
        self.has_any = true;
    }

    /// Texts, if there are some.
    fn list<'t>(&mut self, name: &str, texts: impl Iterator<Item = &'t str>) {
        let mut has_any = false;
        for text in texts {
            if !has_any {
                self.name(name);
            }
            self.out.push(if has_any { b',' } else { b'[' });
            json_text(self.out, text);
            has_any = true;
        }
        if has_any {
            self.out.push(b']');
        }
    }

    /// Numbers by name, if there are some.
    fn numbers<'t>(&mut self, name: &str, numbers: impl Iterator<Item = (&'t str, u32)>) {
        let mut has_any = false;
        for (key, number) in numbers {
            if !has_any {
                self.name(name);
            }
            self.out.push(if has_any { b',' } else { b'{' });
            json_text(self.out, key);
            let _ = write!(self.out, ":{number}");
            has_any = true;
        }
        if has_any {
            self.out.push(b'}');
        }
    }

    /// Returns whether it has any fields.
    fn close(self) -> bool {
        self.out.push(b'}');
        self.has_any
    }
}

/// Suricata's value for packets from a capture.
const WIRE: &str = "wire/pcap";

fn ether(out: &mut Vec<u8>, alert: &Alert<'_>) {
    let Some(header) = &alert.ether else { return };
    let header = Ethernet::new_unchecked(&header[..]);
    let _ = write!(out, ",\"ether\":{{\"ether_type\":{}", header.ethertype());
    for (name, address) in [("src_mac", header.src()), ("dest_mac", header.dst())] {
        let [a, b, c, d, e, f] = address;
        let _ = write!(out, ",\"{name}\":\"{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\"");
    }
    out.push(b'}');
}

/// The packet that completed a datagram, as Suricata names the packet around one.
fn last_fragment(out: &mut Vec<u8>, alert: &Alert<'_>, packet: u64) {
    out.extend_from_slice(b",\"tunnel\":{");
    if let Some((src, dst)) = alert.ends {
        for (name, ip) in [("src", src), ("dest", dst)] {
            let _ = write!(out, "\"{name}_ip\":\"");
            address(out, ip);
            let _ = write!(out, "\",\"{name}_port\":0,");
        }
        let _ = match protocol_name(alert.protocol) {
            Some(name) => write!(out, "\"proto\":\"{name}\","),
            None => write!(out, "\"proto\":\"{}\",", alert.protocol),
        };
    }
    let _ = write!(out, "\"depth\":0,\"pcap_cnt\":{packet},\"pkt_src\":\"{WIRE}\"}}");
}

fn vlans(out: &mut Vec<u8>, alert: &Alert<'_>) {
    for (place, id) in alert.vlans.iter().flatten().enumerate() {
        let before = if place == 0 { ",\"vlan\":[" } else { "," };
        let _ = write!(out, "{before}{id}");
    }
    if alert.vlans.iter().any(Option::is_some) {
        out.push(b']');
    }
}

fn packet_ends(out: &mut Vec<u8>, alert: &Alert<'_>) {
    let Some((src, dst)) = alert.ends else { return };
    let ports = has_ports(alert.protocol).then_some((alert.src_port, alert.dst_port));
    end(out, ["src_ip", "src_port"], src, ports.map(|(port, _)| port));
    end(out, ["dest_ip", "dest_port"], dst, ports.map(|(_, port)| port));
    let _ = match protocol_name(alert.protocol) {
        Some(name) => write!(out, ",\"proto\":\"{name}\""),
        None => write!(out, ",\"proto\":\"{}\"", alert.protocol),
    };
    let _ = write!(out, ",\"ip_v\":{}", if src.is_ipv4() { 4 } else { 6 });
    if is_icmp(alert.protocol) {
        let (kind, code) = (alert.src_port, alert.dst_port);
        let _ = write!(out, ",\"icmp_type\":{kind},\"icmp_code\":{code}");
    }
}

/// An address and, where there is one, a port, with a comma before them.
fn end(out: &mut Vec<u8>, names: [&str; 2], ip: IpAddr, port: Option<u16>) {
    let _ = write!(out, ",\"{}\":\"", names[0]);
    address(out, ip);
    out.push(b'"');
    if let Some(port) = port {
        let _ = write!(out, ",\"{}\":{port}", names[1]);
    }
}

fn rule(out: &mut Vec<u8>, alert: &Alert<'_>, about: &About, options: EveOptions) {
    let action = if alert.is_blocked { "blocked" } else { "allowed" };
    let About { gid, sid, rev, .. } = about;
    let _ = write!(
        out,
        ",\"alert\":{{\"action\":\"{action}\",\"gid\":{gid},\"signature_id\":{sid},\"rev\":{rev},\
         \"signature\":"
    );
    json_text(out, &about.msg);
    out.extend_from_slice(b",\"category\":");
    json_text(out, &about.class);
    let _ = write!(out, ",\"severity\":{}", about.priority);
    source_and_target(out, alert, about);
    if options.metadata && !about.metadata.is_empty() {
        metadata(out, about);
    }
    out.push(b'}');
}

fn source_and_target(out: &mut Vec<u8>, alert: &Alert<'_>, about: &About) {
    let (Some(target), Some((src, dst))) = (about.target, alert.ends) else { return };
    let has_ports = has_ports(alert.protocol);
    let port = |port: u16| has_ports.then_some(port);
    let ends = [(src, port(alert.src_port)), (dst, port(alert.dst_port))];
    let [source, target] = match target {
        Target::Destination => ends,
        Target::Source => [ends[1], ends[0]],
    };
    for (name, (ip, port)) in [("source", source), ("target", target)] {
        let _ = write!(out, ",\"{name}\":{{\"ip\":\"");
        address(out, ip);
        out.push(b'"');
        if let Some(port) = port {
            let _ = write!(out, ",\"port\":{port}");
        }
        out.push(b'}');
    }
}

/// Values by key, as Suricata has them: keys by the alphabet, those that differ in case together,
/// values the last first.
fn metadata(out: &mut Vec<u8>, about: &About) {
    let mut all: Vec<_> = about.metadata.iter().rev().collect();
    all.sort_by_key(|(key, _)| key.to_ascii_lowercase());
    let mut fields = Fields::open(out, "metadata");
    for same in all.chunk_by(|(one, _), (other, _)| one.eq_ignore_ascii_case(other)) {
        let Some((key, _)) = same.first() else { continue };
        fields.list(key, same.iter().map(|(_, value)| &**value));
    }
    fields.close();
}

/// The flow's application protocol once it is decided, and those of directions that differ from it.
fn application(out: &mut Vec<u8>, apps: &Apps) {
    if apps.flow == DetectedApp::Unknown {
        return;
    }
    let [client, server] =
        apps.sides.map(|side| if side == apps.flow { DetectedApp::Unknown } else { side });
    for (name, side) in
        [("app_proto", apps.flow), ("app_proto_ts", client), ("app_proto_tc", server)]
    {
        if let Some(app) = side.name() {
            let _ = write!(out, ",\"{name}\":\"{app}\"");
        }
    }
}

fn flow_at(out: &mut Vec<u8>, alert: &Alert<'_>, flow: &FlowAt) {
    let direction = if flow.to_server { "to_server" } else { "to_client" };
    let FlowAt { packets_to_server, packets_to_client, bytes_to_server, bytes_to_client, .. } =
        flow;
    let _ = write!(
        out,
        ",\"direction\":\"{direction}\",\"flow\":{{\"pkts_toserver\":{packets_to_server},\
         \"pkts_toclient\":{packets_to_client},\"bytes_toserver\":{bytes_to_server},\
         \"bytes_toclient\":{bytes_to_client},\"start\":\""
    );
    iso_time(out, flow.start);
    out.push(b'"');
    if let Some((src, dst)) = alert.ends {
        let ports = has_ports(alert.protocol).then_some((alert.src_port, alert.dst_port));
        let mut ends = [(src, ports.map(|(port, _)| port)), (dst, ports.map(|(_, port)| port))];
        if !flow.to_server {
            ends.swap(0, 1);
        }
        end(out, ["src_ip", ""], ends[0].0, None);
        end(out, ["dest_ip", ""], ends[1].0, None);
        if let [(_, Some(src)), (_, Some(dst))] = ends {
            let _ = write!(out, ",\"src_port\":{src},\"dest_port\":{dst}");
        }
    }
    out.push(b'}');
}

fn payload(out: &mut Vec<u8>, alert: &Alert<'_>, options: EveOptions) {
    if alert.payload.is_empty() || options.reported_len()[0] == 0 {
        return;
    }
    let reported = |most: usize| &alert.payload[..most.min(alert.payload.len())];
    if options.payload > 0 {
        out.extend_from_slice(b",\"payload\":\"");
        base64(out, reported(options.payload));
        out.push(b'"');
    }
    let _ = write!(out, ",\"payload_length\":{}", alert.payload_len);
    if options.payload_printable > 0 {
        out.extend_from_slice(b",\"payload_printable\":");
        json_printable(out, reported(options.payload_printable));
    }
}
