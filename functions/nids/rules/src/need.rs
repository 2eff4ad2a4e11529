//! Unsupported requirements of a rule: buffers of application protocols, and other keywords.

use core::fmt;
use std::sync::Arc;

use super::keywords;

/// A feature that a rule requires and this crate lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A buffer, by its current name: `http.uri` also where the rule has `http_uri` or
    /// `uricontent`.
    Buffer(Arc<str>),
    /// An application protocol, in the header of the rule.
    Protocol(Arc<str>),
    /// A keyword or an action that Suricata or Snort has.
    Keyword(Arc<str>),
    /// A value of a keyword: `byte_test dce`.
    Value(Arc<str>),
}

impl Need {
    /// The name that reports group it by: `http.*` for all buffers of HTTP, otherwise its own name.
    pub fn family(&self) -> String {
        match self {
            Self::Buffer(name) | Self::Protocol(name) => {
                format!("{}.*", name.split('.').next().unwrap_or_default())
            }
            Self::Keyword(name) => name.to_string(),
            Self::Value(name) => name.split(' ').next().unwrap_or_default().into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Buffer(name) | Self::Protocol(name) | Self::Keyword(name) | Self::Value(name) => {
                name
            }
        }
    }

    /// Its kind: `buffer`, `protocol`, `keyword`, `value`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Buffer(_) => "buffer",
            Self::Protocol(_) => "protocol",
            Self::Keyword(_) => "keyword",
            Self::Value(_) => "value",
        }
    }

    /// `keyword` with an unsupported value.
    pub(super) fn value(keyword: &str, value: &str) -> Self {
        Self::Value(format!("{keyword} {value}").into())
    }

    /// The need of an unsupported keyword (in lower case); `None` if neither Suricata nor Snort has
    /// it.
    pub(super) fn of_keyword(keyword: &str) -> Option<Self> {
        if !keywords::is_known(keyword) {
            return None;
        }
        if let Some(buffer) = old_buffer(keyword) {
            return Some(Self::Buffer(buffer.into()));
        }
        Some(match keyword.split_once(['.', '_']) {
            Some((family, rest))
                if FAMILIES.binary_search(&family).is_ok() && !NO_BUFFERS.contains(&keyword) =>
            {
                Self::Buffer(format!("{}.{rest}", today(family)).into())
            }
            _ => Self::Keyword(keyword.into()),
        })
    }

    /// The application protocol `name` (in lower case) of a header, if there is one of that name.
    pub(super) fn of_protocol(name: &str) -> Option<Self> {
        PROTOCOLS.binary_search(&name).is_ok().then(|| Self::Protocol(today(name).into()))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Families and protocols that go by another name today.
fn today(family: &str) -> &str {
    match family {
        "ssl" => "tls",
        "dce" | "dcerpcudp" | "dcerpctcp" => "dcerpc",
        "dnsudp" | "dnstcp" => "dns",
        "ikev2" => "ike",
        "http1" => "http",
        other => other,
    }
}

/// Names of buffers that are not their names of today with `_` for the first `.`.
fn old_buffer(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "uricontent" | "urilen" | "http_encode" | "http_uri" => "http.uri",
        "http_raw_uri" => "http.uri.raw",
        "http_raw_header" => "http.header.raw",
        "http_raw_cookie" => "http.cookie",
        "http_raw_host" => "http.host.raw",
        "http_client_body" => "http.request_body",
        "http_server_body" => "http.response_body",
        "file_data" => "file.data",
        "filename" | "fileext" => "file.name",
        "filemagic" => "file.magic",
        "filesize" | "filestore" | "filemd5" | "filesha1" | "filesha256" | "file_type" => {
            "file.data"
        }
        "ftpdata_command" | "ftpbounce" => "ftp.command",
        "modbus" => "modbus.function",
        "iec104_apci_type" => "iec104.apci_type",
        _ => return None,
    })
}

/// First parts of the names of buffers, sorted.
const FAMILIES: &[&str] = &[
    "arp",
    "cip",
    "dce",
    "dcerpc",
    "dhcp",
    "dnp3",
    "dns",
    "doh2",
    "email",
    "enip",
    "ether",
    "file",
    "ftp",
    "ftpdata",
    "gtp",
    "http",
    "http2",
    "icmpv4",
    "icmpv6",
    "igmp",
    "ike",
    "ipv4",
    "ipv6",
    "ja3",
    "ja3s",
    "ja4",
    "krb5",
    "ldap",
    "llmnr",
    "mdns",
    "mime",
    "modbus",
    "mqtt",
    "nfs",
    "ntp",
    "pgsql",
    "pop3",
    "quic",
    "rfb",
    "s7comm",
    "sctp",
    "sdp",
    "sip",
    "smb",
    "smtp",
    "snmp",
    "ssh",
    "ssl",
    "tcp",
    "telnet",
    "tls",
    "udp",
    "websocket",
];

/// Application protocols, and those below IP, sorted.
const PROTOCOLS: &[&str] = &[
    "arp",
    "bittorrent-dht",
    "dcerpc",
    "dcerpctcp",
    "dcerpcudp",
    "dhcp",
    "dnp3",
    "dns",
    "dnstcp",
    "dnsudp",
    "doh2",
    "enip",
    "ether",
    "ftp",
    "ftp-data",
    "http",
    "http1",
    "http2",
    "igmp",
    "ike",
    "ikev2",
    "imap",
    "irc",
    "jabber",
    "krb5",
    "ldap",
    "llmnr",
    "mdns",
    "modbus",
    "mqtt",
    "msn",
    "nfs",
    "ntp",
    "pgsql",
    "pop3",
    "quic",
    "rdp",
    "rfb",
    "sip",
    "smb",
    "smtp",
    "snmp",
    "ssh",
    "ssl",
    "telnet",
    "tftp",
    "tls",
    "websocket",
];

/// Keywords that are no buffers, though their first part is that of buffers.
const NO_BUFFERS: &[&str] = &["icmpv6.mtu", "tcp.session", "tcp.wscale"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [FAMILIES, PROTOCOLS] {
            assert!(list.is_sorted_by(|a, b| a < b), "{list:?}");
        }
    }

    #[test]
    fn old_names_are_reported_with_the_new_ones() {
        for (keyword, name, family) in [
            ("http_uri", "http.uri", "http.*"),
            ("uricontent", "http.uri", "http.*"),
            ("http.uri", "http.uri", "http.*"),
            ("http_stat_code", "http.stat_code", "http.*"),
            ("http_header_names", "http.header_names", "http.*"),
            ("dns_query", "dns.query", "dns.*"),
            ("tls_sni", "tls.sni", "tls.*"),
            ("tls.cert_subject", "tls.cert_subject", "tls.*"),
            ("ssl_version", "tls.version", "tls.*"),
            ("dce_stub_data", "dcerpc.stub_data", "dcerpc.*"),
            ("file_data", "file.data", "file.*"),
            ("tcp.hdr", "tcp.hdr", "tcp.*"),
            ("replace", "replace", "replace"),
            ("flow.age", "flow.age", "flow.age"),
            ("tcp.session", "tcp.session", "tcp.session"),
        ] {
            let need = Need::of_keyword(keyword).unwrap();
            assert_eq!((need.name(), &*need.family()), (name, family), "{keyword}");
        }
        assert_eq!(Need::of_keyword("http.urii"), None);
        assert_eq!(Need::of_protocol("ssl").map(|n| n.family()), Some("tls.*".into()));
        assert_eq!(Need::of_protocol("htp"), None);
    }
}
