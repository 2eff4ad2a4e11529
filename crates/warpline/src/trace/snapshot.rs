//! A packet at one moment of its way, in words.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use warpline_packet::fields_at::places;
use warpline_packet::wire::ip_protocol;
use warpline_packet::{Field, FieldSet, Flags, Headers, LinkType, Packet};

/// A frame.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    link: LinkType,
    wire_len: usize,
}

/// A field that differs between two moments; a packet may lack it in one of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) field: &'static str,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

impl Snapshot {
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        let (link, wire_len) = (packet.link(), packet.wire_len());
        Self { bytes: packet.frame().to_vec(), link, wire_len }
    }

    fn headers(&self) -> Headers {
        Headers::parse(&self.bytes, self.link, self.wire_len)
    }

    /// The bytes of each field that it has.
    fn fields(&self) -> Vec<(Field, Vec<u8>)> {
        let headers = self.headers();
        let bytes = |field: Field| {
            let places = places(field, &headers, self.link, self.bytes.len());
            let bytes: Vec<u8> =
                places.into_iter().flat_map(|range| self.bytes[range].iter().copied()).collect();
            (field, bytes)
        };
        FieldSet::FRAME.iter().map(bytes).filter(|(_, bytes)| !bytes.is_empty()).collect()
    }

    fn field(&self, wanted: Field) -> Option<Vec<u8>> {
        self.fields().into_iter().find(|(field, _)| *field == wanted).map(|(_, bytes)| bytes)
    }

    /// Bytes on the wire.
    pub(crate) fn wire_len(&self) -> usize {
        self.wire_len
    }

    /// Names and values of its fields.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.fields().into_iter().map(|(field, bytes)| (field.name(), value(field, &bytes)))
    }

    /// The fields that differ in `after`.
    pub(crate) fn changes(&self, after: &Self) -> Vec<Change> {
        let (mut old, mut new) = (self.fields(), after.fields());
        let is_same = |all: &[(Field, Vec<u8>)], one: &(Field, Vec<u8>)| all.contains(one);
        let same: Vec<_> = old.iter().filter(|one| is_same(&new, one)).cloned().collect();
        old.retain(|one| !is_same(&same, one));
        new.retain(|one| !is_same(&same, one));
        let text = |all: &[(Field, Vec<u8>)], wanted: Field| {
            let found = all.iter().find(|(field, _)| *field == wanted);
            found.map(|(field, bytes)| value(*field, bytes))
        };
        let differing = |field: Field| {
            let (from, mut to) = (text(&old, field), text(&new, field));
            if from.is_some() && from == to {
                to = to.map(|to| format!("{to}, others"));
            }
            let differs = from.is_some() || to.is_some();
            differs.then(|| Change { field: field.name(), from, to })
        };
        FieldSet::FRAME.iter().filter_map(differing).collect()
    }

    /// A line about it, like `TCP 10.0.0.1:80 > 10.0.0.2:4000 [SA], ttl 64, 60 bytes`.
    pub(crate) fn headline(&self) -> String {
        let headers = self.headers();
        let mut line = match headers.version {
            0 => match self.field(Field::EthType) {
                Some(kind) => format!("no IP, type {}", value(Field::EthType, &kind)),
                None => "no IP".into(),
            },
            _ => self.ip_headline(&headers),
        };
        let _ = write!(line, ", {} bytes", self.wire_len);
        if self.bytes.len() < self.wire_len {
            let _ = write!(line, ", {} captured", self.bytes.len());
        }
        line
    }

    fn ip_headline(&self, headers: &Headers) -> String {
        let text = |field| self.field(field).map(|bytes| value(field, &bytes));
        let end = |address, port| {
            let address = text(address).unwrap_or_default();
            match text(port) {
                Some(port) if headers.version == 6 => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
                None => address,
            }
        };
        let (from, to) = (end(Field::SrcAddr, Field::SrcPort), end(Field::DstAddr, Field::DstPort));
        let mut line = format!("{} {from} > {to}", protocol(headers.protocol));
        if let Some(flags) = text(Field::TcpFlags) {
            let _ = write!(line, " [{flags}]");
        }
        if let (Some(kind), Some(code)) = (text(Field::IcmpType), text(Field::IcmpCode)) {
            let _ = write!(line, " type {kind} code {code}");
        }
        if let Some(spi) = text(Field::EspSpi) {
            let _ = write!(line, " spi {spi}");
        }
        if headers.flags.has(Flags::FRAGMENT) {
            line += ", fragment";
        }
        if let Some(lie) = headers.malformed() {
            let _ = write!(line, ", malformed: {}", lie.name());
        }
        line + &text(Field::Ttl).map_or_else(String::new, |ttl| format!(", ttl {ttl}"))
    }
}

fn protocol(number: u8) -> String {
    let name = match number {
        ip_protocol::TCP => "TCP",
        ip_protocol::UDP => "UDP",
        ip_protocol::ICMP => "ICMP",
        ip_protocol::ICMPV6 => "ICMPv6",
        ip_protocol::ESP => "ESP",
        other => return format!("protocol {other}"),
    };
    name.into()
}

/// The value of a field in words.
fn value(field: Field, bytes: &[u8]) -> String {
    match (field, bytes) {
        (Field::EthDst | Field::EthSrc, _) => {
            let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":")
        }
        (Field::SrcAddr | Field::DstAddr, _) => address(bytes),
        (Field::TcpFlags, &[_, flags]) => {
            let letters = "FSRPAUEC".chars().enumerate();
            letters.filter(|(bit, _)| flags >> bit & 1 != 0).map(|(_, letter)| letter).collect()
        }
        (
            Field::EthType
            | Field::VlanTci
            | Field::TrafficClass
            | Field::IpFragment
            | Field::IpChecksum
            | Field::L4Checksum
            | Field::EspSpi,
            _,
        ) => format!("0x{}", hex(bytes)),
        (Field::IpOptions | Field::TcpOptions, _) => hex(bytes),
        // A sealed payload beside the plain one would help to open those of a run, whose numbers
        // a trace does not use up.
        (Field::Payload | Field::Remainder, _) => format!("{} bytes", bytes.len()),
        _ => bytes.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte)).to_string(),
    }
}

fn address(bytes: &[u8]) -> String {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(bytes).to_string();
    }
    <[u8; 16]>::try_from(bytes)
        .map_or_else(|_| hex(bytes), |bytes| Ipv6Addr::from(bytes).to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("digits")
        };
        let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
        let wire_len = bytes.len();
        Snapshot { bytes, link: LinkType::ETHERNET, wire_len }
    }

    const SYN: &str = "0200000000010200000000020800 \
        450000280001000040060000 0a000001c0000201 04d20050000000010000000050020400 00000000";

    #[test]
    fn packets_and_their_changes_are_put_in_words() {
        let syn = snapshot(SYN);
        let expected = "TCP 10.0.0.1:1234 > 192.0.2.1:80 [S], ttl 64, 54 bytes";
        assert_eq!(syn.headline(), expected);
        assert_eq!(syn.changes(&syn), []);
        let later = snapshot(&SYN.replace("0a000001", "cb007107").replace("4006", "3f06"));
        let change = |field, from: &str, to: &str| Change {
            field,
            from: Some(from.into()),
            to: Some(to.into()),
        };
        let both = [change("ttl", "64", "63"), change("src-addr", "10.0.0.1", "203.0.113.7")];
        assert_eq!(syn.changes(&later), both);
        let arp = snapshot("ffffffffffff0200000000020806 0001080006040001");
        assert_eq!(arp.headline(), "no IP, type 0x0806, 22 bytes");
        let to_arp = syn.changes(&arp);
        let gone = to_arp.iter().find(|change| change.field == "src-port").expect("a change");
        assert_eq!((gone.from.as_deref(), gone.to.as_deref()), (Some("1234"), None));
    }

    #[test]
    fn any_bytes_have_words() {
        let syn = snapshot(SYN);
        for len in 0..syn.bytes.len() {
            for link in [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL2, LinkType(147)] {
                let cut = Snapshot { bytes: syn.bytes[..len].to_vec(), link, wire_len: 54 };
                assert!(cut.headline().contains("54 bytes"), "{}", cut.headline());
                let _ = (cut.changes(&syn), syn.changes(&cut), cut.values().count());
            }
        }
    }
}
