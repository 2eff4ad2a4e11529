//! Conversations with the protocols that Suricata 8.0.8 reports: of the flow, of the client and of
//! the server. Each is played in one piece and byte by byte.

use super::{App, Apps, DetectedApp};
use warpline_streams::flows::Direction::{self, ToClient, ToServer};

/// Bytes of no protocol.
const JUNK: &[u8] =
    b"\x91zZ\x88qq\x97\x91zZ\x88qq\x97\x91zZ\x88qq\x97\x91zZ\x88qq\x97\x91zZ\x88qq\x97";
const HELLO: &[u8] = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03 random bytes";
const SMB: &[u8] = b"\0\0\0\x44\xfeSMB\x40\0\0\0\0\0\0\0\0\0";
const BIND: &[u8] = b"\x05\0\x0b\x03\x10\0\0\0\x48\0\0\0\x01\0\0\0";
const ASK: &[u8] = b"\0\x18\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x02de\0\0\x01\0\x01";
const CONNECT: &[u8] = b"\x10\x16\0\x04MQTT\x04\x02\0\x3c\0\x0aclientid12";

/// Pieces of data, and the direction of each.
type Talk = &'static [(Direction, &'static [u8])];
/// A server's port, a conversation, and the protocol of the flow, the client and the server, where
/// those are reported.
type Case = (u16, Talk, [&'static str; 3]);

const STREAMS: &[Case] = &[
    (9999, &[(ToServer, b"GET / HTTP/1.1\r\n")], ["http", "http", ""]),
    (9999, &[(ToServer, b"get /")], ["http", "http", ""]),
    (9999, &[(ToServer, b"BASELINE-CONTROL /")], ["http", "http", ""]),
    (9999, &[(ToServer, b"GETX / HTTP/1.1\r\n\r\n"), (ToClient, JUNK)], ["failed"; 3]),
    (9999, &[(ToServer, b" GET / HTTP/1.1\r\n\r\n"), (ToClient, JUNK)], ["failed"; 3]),
    (9999, &[(ToServer, b"OPTIONS * HTTP/1.1\r\n")], ["http", "http", ""]),
    (9999, &[(ToServer, b"OPTIONS sip:a@b SIP/2.0\r\n")], ["sip", "sip", ""]),
    (9999, &[(ToServer, b"INVITE sip:a@b SIP/2.0\r\n")], ["sip", "sip", ""]),
    (9999, &[(ToServer, JUNK), (ToClient, b"HTTP/1.0 200 OK\r\n")], ["http", "failed", "http"]),
    (9999, &[(ToServer, JUNK), (ToClient, b"HTTP/1.2 200 OK\r\n")], ["failed"; 3]),
    (9999, &[(ToServer, b"GET / HTTP/1.1\r\n"), (ToClient, JUNK)], ["http", "http", "failed"]),
    (9999, &[(ToServer, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")], ["http2", "http2", ""]),
    (9999, &[(ToServer, HELLO)], ["tls", "tls", ""]),
    (9999, &[(ToServer, b"\x15\x03\x01\0\x02\x02 random bytes"), (ToClient, JUNK)], ["failed"; 3]),
    (9999, &[(ToServer, b"\x16\x03\x04\0\x40 random bytes"), (ToClient, JUNK)], ["failed"; 3]),
    (9999, &[(ToServer, b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10")], ["tls", "tls", ""]),
    (443, &[(ToServer, b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10")], ["tls", "tls", ""]),
    (9999, &[(ToServer, JUNK), (ToClient, HELLO)], ["tls", "failed", "tls"]),
    (9999, &[(ToServer, HELLO), (ToClient, b"\x15\x03\x03\0\x02\x01\x70\x16\x03\x03")], ["tls"; 3]),
    // The server of TLS never speaks first.
    (9999, &[(ToClient, HELLO)], ["failed", "", "tls"]),
    (9999, &[(ToClient, JUNK), (ToServer, HELLO)], ["failed", "tls", "failed"]),
    (9999, &[(ToClient, b"SSH-2.0-OpenSSH_9.2\r\n")], ["ssh", "", "ssh"]),
    (9999, &[(ToServer, b"ssh-2.0-x\r\n")], ["ssh", "ssh", ""]),
    (
        9999,
        &[(ToClient, b"SSH-2.0-OpenSSH_9.2\r\n"), (ToServer, b"GET / HTTP/1.1\r\n\r\n")],
        ["ssh", "http", "ssh"],
    ),
    (
        9999,
        &[(ToClient, b"220 mail.example.com ESMTP\r\n"), (ToServer, b"EHLO a\r\n")],
        ["smtp"; 3],
    ),
    (9999, &[(ToServer, b"EHLO a.b\r\n"), (ToClient, b"220 b\r\n")], ["smtp"; 3]),
    (9999, &[(ToClient, b"220 a server ready\r\n")], [""; 3]),
    (25, &[(ToClient, b"220 mail.example.com ESMTP\r\n")], ["smtp", "", "smtp"]),
    (25, &[(ToClient, b"220 hello there\r\n"), (ToServer, JUNK)], ["failed"; 3]),
    (9999, &[(ToClient, b"220 a server ready\r\n"), (ToServer, b"USER a\r\n")], ["ftp"; 3]),
    (9999, &[(ToClient, b"220 a server ready\r\n"), (ToServer, JUNK)], ["failed"; 3]),
    (
        9999,
        &[(ToClient, b"220 a server ready\r\n"), (ToServer, b"GET / HTTP/1.1\r\n")],
        ["http", "http", "failed"],
    ),
    (9999, &[(ToClient, b"220 (vsFTPd 3.0.3)\r\n")], ["ftp", "", "ftp"]),
    (21, &[(ToClient, b"220-welcome\r\n")], ["ftp", "", "ftp"]),
    (21, &[(ToClient, b"220 hi there\r\n"), (ToServer, b"EHLO a\r\n")], ["ftp", "smtp", "ftp"]),
    // Internet Relay Chat has USER as well.
    (8000, &[(ToServer, b"USER a\r\n"), (ToClient, b":irc.example 001")], ["ftp", "ftp", "failed"]),
    (9999, &[(ToClient, b"* OK ready\r\n")], ["imap", "", "imap"]),
    (143, &[(ToClient, b"* OK ready\r\n"), (ToServer, b"a1 LOGIN a b\r\n")], ["imap"; 3]),
    (9999, &[(ToServer, b"a001 CAPABILITY\r\n")], ["imap", "imap", ""]),
    (110, &[(ToClient, b"+OK ready\r\n"), (ToServer, b"USER a\r\n")], ["pop3"; 3]),
    (9999, &[(ToClient, b"+OK ready\r\n"), (ToServer, b"USER a\r\n")], ["ftp", "ftp", "failed"]),
    (9999, &[(ToServer, SMB)], ["smb", "smb", ""]),
    (9999, &[(ToServer, JUNK), (ToClient, SMB)], ["smb", "failed", "smb"]),
    (9999, &[(ToServer, b"\0\x02\x03\x04\xfcSMB and more"), (ToClient, JUNK)], ["failed"; 3]),
    (9999, &[(ToServer, BIND), (ToClient, JUNK)], ["dcerpc"; 3]),
    (9999, &[(ToClient, JUNK), (ToServer, BIND)], ["dcerpc"; 3]),
    (9999, &[(ToServer, BIND.split_at(15).0)], [""; 3]),
    (9999, &[(ToServer, b"\x05\x01\0"), (ToClient, b"\x05\0")], [""; 3]),
    (9999, &[(ToServer, b"\x01\x02\x03\x04\xffSMB and more"), (ToClient, JUNK)], ["failed"; 3]),
    (3389, &[(ToServer, b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03")], ["rdp", "rdp", ""]),
    (3389, &[(ToServer, HELLO)], ["tls", "tls", ""]),
    (9999, &[(ToServer, b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03")], [""; 3]),
    (9999, &[(ToClient, b"RFB 003.008\n")], ["rfb", "", "rfb"]),
    (1883, &[(ToServer, CONNECT), (ToClient, b"\x20\x02\0\0")], ["mqtt"; 3]),
    (1883, &[(ToServer, b"\x1f\x16\0\x04MQTT\x04\x02\0\x3c\0\x0aid")], [""; 3]),
    (9999, &[(ToServer, CONNECT), (ToClient, JUNK)], ["failed"; 3]),
    (23, &[(ToClient, b"login: ")], ["telnet", "", "telnet"]),
    (53, &[(ToServer, ASK), (ToClient, JUNK)], ["dns", "dns", "failed"]),
    (53, &[(ToServer, ASK.split_at(13).0)], [""; 3]),
    (53, &[(ToServer, JUNK), (ToClient, JUNK)], ["failed"; 3]),
    (88, &[(ToServer, b"\0\0\0\x20\x6a\x1e\x30\x1c\xa1\x03\x02\x01\x05")], ["krb5", "krb5", ""]),
    (
        2049,
        &[(ToServer, b"\x80\0\0\x28abcd\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\0")],
        ["nfs", "nfs", ""],
    ),
    (
        389,
        &[(ToServer, b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0")],
        ["ldap", "ldap", ""],
    ),
    // Detection waits for 17 bytes of the client and 10 of the server.
    (9999, &[(ToServer, JUNK.split_at(16).0), (ToClient, JUNK)], ["", "", "failed"]),
    (9999, &[(ToServer, JUNK), (ToClient, JUNK.split_at(9).0)], ["", "failed", ""]),
    (9999, &[(ToServer, JUNK.split_at(17).0), (ToClient, JUNK.split_at(10).0)], ["failed"; 3]),
];

const NAME: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x02de\0\0\x01\0\x01";
const ANSWER: &[u8] = b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0\x03www\x02de\0\0\x01\0\x01";
const DHCP: &[u8] = &[1; 240];
const NTP: &[u8] = &[0x23; 48];
const SNMP: &[u8] = b"\x30\x13\x02\x01\x01\x04\x06public\xa0\x06\x02\x01\x01\x02\x01\0";
const IKE: &[u8] = b"initiate\0\0\0\0\0\0\0\0\x21\x20\x22\x08\0\0\0\0\0\0\0\x1c";
const QUIC: &[u8] = b"\xc3\0\0\0\x01\x08identify\0\0\x08 payload";

const DATAGRAMS: &[Case] = &[
    (9999, &[(ToServer, b"")], ["failed", "failed", ""]),
    (53, &[(ToServer, NAME)], ["dns", "dns", ""]),
    (53, &[(ToServer, NAME), (ToClient, JUNK)], ["dns"; 3]),
    (53, &[(ToServer, JUNK), (ToClient, ANSWER)], ["dns", "failed", "dns"]),
    (53, &[(ToServer, NAME), (ToClient, b"\x12\x34\x81\x85\0\0\0\0\0\0\0\0")], ["dns"; 3]),
    (53, &[(ToServer, b"\x12\x34\x01\0\0\0\0\0\0\0\0\0")], ["failed", "failed", ""]),
    (53, &[(ToServer, JUNK), (ToServer, NAME)], ["failed", "failed", ""]),
    (53, &[(ToServer, NAME.split_at(12).0)], ["failed", "failed", ""]),
    (
        53,
        &[(ToServer, b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01")],
        ["failed", "failed", ""],
    ),
    (
        53,
        &[(ToServer, b"\x12\x34\x01\0\0\x02\0\0\0\0\0\0\x01a\0\0\x01\0\x01")],
        ["failed", "failed", ""],
    ),
    (9999, &[(ToServer, NAME)], ["failed", "failed", ""]),
    (5353, &[(ToServer, NAME)], ["mdns", "mdns", ""]),
    (5353, &[(ToServer, b"\0\0\x84\0\0\0\0\x01\0\0\0\0\x01a")], ["mdns", "mdns", ""]),
    (67, &[(ToServer, DHCP)], ["dhcp", "dhcp", ""]),
    (67, &[(ToServer, DHCP.split_at(239).0)], ["failed", "failed", ""]),
    (69, &[(ToServer, b"\0\x01file\0octet\0")], ["tftp", "tftp", ""]),
    (123, &[(ToServer, NTP), (ToClient, NTP)], ["ntp"; 3]),
    (123, &[(ToServer, NTP.split_at(47).0)], ["failed", "failed", ""]),
    (123, &[(ToServer, &[0x13; 48])], ["failed", "failed", ""]),
    (161, &[(ToServer, SNMP)], ["snmp", "snmp", ""]),
    (161, &[(ToServer, b"\x30\x7f\x02\x01\x01\x04\x06public\xa0\0")], ["failed", "failed", ""]),
    (500, &[(ToServer, IKE)], ["ike", "ike", ""]),
    (
        500,
        &[(ToServer, b"initiate\0\0\0\0\0\0\0\0\x21\x20\x22\x08\0\0\0\0\0\0\0\x1d")],
        ["failed", "failed", ""],
    ),
    (4500, &[(ToServer, IKE)], ["failed", "failed", ""]),
    (88, &[(ToServer, b"\x7e\x1e\x30\x1c\xa0\x03\x02\x01\x05")], ["krb5", "krb5", ""]),
    (443, &[(ToServer, QUIC), (ToClient, JUNK)], ["quic"; 3]),
    (443, &[(ToServer, b"\xc3\0\0\0\x01\x08identify\0\0\x09 payload")], ["failed", "failed", ""]),
    (443, &[(ToServer, b"\x80\0\0\0\0\x08identify\0 payload")], ["failed", "failed", ""]),
    (443, &[(ToServer, b"\x41short")], ["quic", "quic", ""]),
    (8443, &[(ToServer, QUIC)], ["failed", "failed", ""]),
    (9999, &[(ToServer, b"REGISTER sip:a SIP/2.0\r\n")], ["sip", "sip", ""]),
    (9999, &[(ToServer, b"register sip:a SIP/2.0\r\n")], ["failed", "failed", ""]),
    (9999, &[(ToServer, JUNK), (ToClient, b"SIP/2.0 200 OK\r\n")], ["sip", "failed", "sip"]),
    (9999, &[(ToServer, b"d1:ad2:id20:abc")], ["bittorrent-dht", "bittorrent-dht", ""]),
];

fn names(apps: &Apps) -> [&'static str; 3] {
    [apps.flow, apps.sides[0], apps.sides[1]].map(|side| side.name().unwrap_or(""))
}

/// Plays a conversation in a flow that is packed between packets.
fn play(
    take: fn(&mut Apps, Direction, u16, &[u8]),
    port: u16,
    talk: &[(Direction, &[u8])],
) -> Apps {
    let mut kept = Apps::default().pack();
    for (direction, bytes) in talk {
        let mut apps = kept.unpack();
        take(&mut apps, *direction, port, bytes);
        kept = apps.pack();
        assert_eq!(kept.unpack(), apps);
        assert_eq!(kept.is_settled(*direction), apps.is_settled(*direction));
    }
    kept.unpack()
}

#[test]
fn streams_are_known_by_their_first_bytes() {
    for (port, talk, expected) in STREAMS {
        let whole = play(
            |apps, direction, port, bytes| {
                apps.take_stream(direction, port, Some(bytes));
            },
            *port,
            talk,
        );
        assert_eq!(names(&whole), *expected, "port {port}: {}", shown(talk));
        // However the bytes are cut, in the order of their directions.
        let cut: Vec<(Direction, &[u8])> = talk
            .iter()
            .flat_map(|(direction, bytes)| {
                (1..=bytes.len()).map(move |len| (*direction, &bytes[..len]))
            })
            .collect();
        let bytewise = play(
            |apps, direction, port, bytes| {
                apps.take_stream(direction, port, Some(bytes));
            },
            *port,
            &cut,
        );
        assert_eq!(names(&bytewise), *expected, "by bytes, port {port}: {}", shown(talk));
    }
}

#[test]
fn datagrams_are_known_one_by_one() {
    for (port, talk, expected) in DATAGRAMS {
        let apps = play(Apps::take_datagram, *port, talk);
        assert_eq!(names(&apps), *expected, "port {port}: {}", shown(talk));
    }
}

/// A stream without its start is of no protocol, and every stream is settled sooner or later.
#[test]
fn streams_are_settled() {
    let mut lost = Apps::default();
    lost.take_stream(ToServer, 80, None);
    assert_eq!(lost.sides[0], DetectedApp::Failed);
    let starts: [&[u8]; 6] = [
        b"",
        b"220 a",
        b"\x05\0\x0b\x03\x10\0",
        b"\x80\0\0\x28abcd",
        b"\x30\x84",
        b"\0\0\0\x20\x6a",
    ];
    for port in [25, 53, 80, 88, 110, 389, 443, 1883, 2049, 3389] {
        for start in starts {
            let bytes = [start, &[b'x'; super::STREAM_LEN_MAX]].concat();
            for direction in [ToServer, ToClient] {
                let mut apps = Apps::default();
                apps.take_stream(direction, port, Some(&bytes[..super::STREAM_LEN_MAX]));
                assert!(apps.is_settled(direction), "port {port}: {}", start.escape_ascii());
            }
        }
    }
}

/// Whatever the bytes, nothing is read past their end, and a note has room for it.
#[test]
fn any_bytes_are_judged() {
    let seed: u64 = std::env::var("APPS_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("APPS_SEED={seed}");
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let all: Vec<(u16, &[u8])> = STREAMS
        .iter()
        .chain(DATAGRAMS)
        .flat_map(|(port, talk, _)| talk.iter().map(|(_, bytes)| (*port, *bytes)))
        .collect();
    for _ in 0..20_000 {
        let (port, bytes) = all[random() % all.len()];
        let mut bytes = bytes[..random() % (bytes.len() + 1)].to_vec();
        if !bytes.is_empty() {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        let mut apps = Apps::default();
        apps.take_datagram(ToServer, port, &bytes);
        apps.take_stream(ToClient, port, Some(&bytes));
        assert_eq!(Apps::from_bytes(apps.to_bytes()).sides, apps.sides);
        assert_eq!(apps.pack().unpack(), apps);
    }
}

#[test]
fn sides_fit_a_byte() {
    for side in [
        DetectedApp::Unknown,
        DetectedApp::Greeting,
        DetectedApp::Failed,
        DetectedApp::Known(App::BittorrentDht),
    ] {
        assert_eq!(DetectedApp::from_byte(side.to_byte()), side);
    }
    assert_eq!(DetectedApp::from_byte(u8::MAX), DetectedApp::Unknown);
}

fn shown(talk: &[(Direction, &[u8])]) -> String {
    talk.iter().map(|(_, bytes)| format!("{} ", bytes.escape_ascii())).collect()
}
