//! The first bytes of TCP streams.
//!
//! Most protocols are recognised by a literal, on any port. The others are checked on their ports
//! only, because their first bytes prove too little.

use super::app::App::{self, *};
use super::bytes::{Fit, be16, be32, byte, has};
use super::datagrams::{is_krb5, is_ldap};
use super::{Guess, dns, text};
use warpline_streams::flows::Direction;

/// Bytes after which a stream without a likely protocol fails, by [`Direction`]: those of the
/// longest method of HTTP with its space, and those that servers' literals take.
const DEPTHS: [usize; 2] = [17, 10];
/// Bytes of a stream within which it is settled.
pub const DECIDED_MAX: usize = 128;

/// A protocol, and the beginning that shows it on any port.
type Sign = (App, fn(&[u8]) -> Fit);

/// In the order of precedence: a sign that may still come true holds back those after it.
const CLIENT: &[Sign] = &[
    (Sip, text::is_sip_request),
    (Http, text::is_http_request),
    // RFC 9113, 3.4.
    (Http2, |bytes| has(bytes, 0, b"PRI * HTTP/2.0\r\n", false)),
    (Tls, is_handshake),
    (Ssh, is_ssh),
    (Ftp, text::is_ftp_request),
    (Smtp, text::is_smtp_request),
    (Rfb, is_rfb),
    (Imap, text::is_imap_request),
    (Tls, |bytes| is_hello_of_ssl(bytes, &[1, 0, 2])),
    (Dcerpc, is_dcerpc),
    (Smb, is_smb),
];

const SERVER: &[Sign] = &[
    (Http, text::is_http_answer),
    (Tls, is_handshake),
    (Tls, is_warning),
    (Ssh, is_ssh),
    (Rfb, is_rfb),
    (Sip, |bytes| has(bytes, 0, b"SIP/2.0", false)),
    // RFC 9051, 7.1.1.
    (Imap, |bytes| has(bytes, 0, b"* OK", false)),
    (Ftp, |bytes| has(bytes, 0, b"220 (", false)),
    (Dcerpc, is_dcerpc),
    (Smb, is_smb),
];

/// Judges a direction by its bytes so far, [`DECIDED_MAX`] at most. `port` is the server's.
pub(super) fn guess(direction: Direction, port: u16, bytes: &[u8]) -> Guess {
    let is_server = direction == Direction::ToClient;
    let is_all = bytes.len() >= DECIDED_MAX;
    let signs = if is_server { SERVER } else { CLIENT };
    let likely =
        signs.iter().map(|(app, sign)| (*app, sign(bytes))).find(|(_, fit)| *fit != Fit::No);
    if let Some((app, Fit::Yes)) = likely {
        return Guess::Is(app);
    }
    let probed = probe(direction, port, bytes);
    if let Some((app, Fit::Yes)) = probed {
        return Guess::Is(app);
    }
    let may_be = |guess: Option<(App, Fit)>| matches!(guess, Some((_, Fit::Maybe)));
    if !is_all && (may_be(likely) || may_be(probed)) {
        return Guess::More;
    }
    let is_greeting =
        has(bytes, 0, b"220", false).and(|| byte(bytes, 3, |byte| matches!(byte, b' ' | b'-')));
    match is_greeting {
        Fit::Yes if is_server => Guess::Greeting,
        _ if bytes.len() < DEPTHS[direction as usize] => Guess::More,
        _ => Guess::Nothing,
    }
}

/// The protocol of the server's port, and whether the bytes are of it.
fn probe(direction: Direction, port: u16, bytes: &[u8]) -> Option<(App, Fit)> {
    let is_server = direction == Direction::ToClient;
    let found = match port {
        21 if is_server => (Ftp, has(bytes, 0, b"220", false)),
        23 => (Telnet, Fit::of(!bytes.is_empty())),
        25 | 465 if is_server => (Smtp, text::is_smtp_greeting(bytes)),
        53 => (Dns, is_dns(bytes)),
        88 => (Krb5, after_length(bytes, is_krb5)),
        110 if is_server => (Pop3, text::is_pop3_answer(bytes)),
        110 => (Pop3, text::is_pop3_request(bytes)),
        389 | 3268 => (Ldap, is_ldap(bytes)),
        443 if !is_server => (Tls, is_hello_of_ssl(bytes, &[1, 3])),
        1883 => (Mqtt, byte(bytes, 0, is_mqtt_type)),
        2049 => (Nfs, is_nfs(bytes)),
        // RFC 2126, 4.3 (TPKT).
        3389 => (Rdp, has(bytes, 0, &[3, 0], false)),
        _ => return None,
    };
    Some(found)
}

/// RFC 8446, 5.1: a record of type handshake, of SSL 3.0 to TLS 1.2.
fn is_handshake(bytes: &[u8]) -> Fit {
    has(bytes, 0, &[0x16, 3], false).and(|| byte(bytes, 2, |minor| minor <= 3))
}

/// RFC 5246, 7.2: an alert, as servers send before their hello for an unknown name.
fn is_warning(bytes: &[u8]) -> Fit {
    has(bytes, 0, &[0x15, 3], false)
        .and(|| byte(bytes, 2, |minor| minor <= 3))
        .and(|| has(bytes, 3, &[0, 2], false))
}

/// RFC 5246, E.2: a client's hello in a record of SSL 2.0, with this type and version.
fn is_hello_of_ssl(bytes: &[u8], start: &[u8]) -> Fit {
    byte(bytes, 0, |first| first & 0x80 != 0).and(|| has(bytes, 2, start, false))
}

/// RFC 4253, 4.2.
fn is_ssh(bytes: &[u8]) -> Fit {
    has(bytes, 0, b"SSH-", true)
}

/// RFC 6143, 7.1.1.
fn is_rfb(bytes: &[u8]) -> Fit {
    has(bytes, 0, b"RFB ", false)
}

/// MS-SMB2, 2.1 and 2.2.1: after the length, the header of SMB 1, 2, or 3 with encryption.
fn is_smb(bytes: &[u8]) -> Fit {
    byte(bytes, 0, |kind| kind == 0)
        .and(|| byte(bytes, 4, |first| matches!(first, 0xfd..=0xff)))
        .and(|| has(bytes, 5, b"SMB", false))
}

/// C706, 12.6.1: version 5.0, and a data representation that there is, in a header of 16 bytes.
fn is_dcerpc(bytes: &[u8]) -> Fit {
    has(bytes, 0, &[5, 0], false)
        .and(|| byte(bytes, 4, |format| format & 0xee == 0))
        .and(|| byte(bytes, 5, |floats| floats <= 3))
        .and(|| byte(bytes, 15, |_| true))
}

/// RFC 1035, 4.2.2.
fn is_dns(bytes: &[u8]) -> Fit {
    let Some(len) = be16(bytes, 0) else { return Fit::Maybe };
    Fit::of(len >= 12).and(|| dns::is_header(&bytes[2..]))
}

/// A message after its length in four bytes, as RFC 4120, 7.2.2 has it.
fn after_length(bytes: &[u8], is: fn(&[u8]) -> Fit) -> Fit {
    const LEN_MAX: u32 = 1 << 20;
    let Some(len) = be32(bytes, 0) else { return Fit::Maybe };
    Fit::of(len <= LEN_MAX).and(|| is(&bytes[4..]))
}

/// MQTT 3.1.1 and 5.0, 2.1: types are 1 to 15, and all except PUBLISH have fixed flags.
fn is_mqtt_type(first: u8) -> bool {
    let (kind, flags) = (first >> 4, first & 0xf);
    match kind {
        0 => false,
        3 => true,
        6 | 8 | 10 => flags == 2,
        _ => flags == 0,
    }
}

/// RFC 5531, 9 and 11: a call of program 100003 in a record.
fn is_nfs(bytes: &[u8]) -> Fit {
    byte(bytes, 0, |mark| mark & 0x80 != 0)
        .and(|| has(bytes, 8, &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa3], false))
}
