//! Request lines of text protocols.

use super::bytes::{Fit, byte, has};

/// RFC 9110, 9.3; RFC 5789; RFC 4918, 9; RFC 3253, 3.5 to 13.
const HTTP_METHODS: [&[u8]; 27] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"VERSION-CONTROL",
    b"REPORT",
    b"CHECKOUT",
    b"CHECKIN",
    b"UNCHECKOUT",
    b"MKWORKSPACE",
    b"UPDATE",
    b"LABEL",
    b"MERGE",
    b"BASELINE-CONTROL",
    b"MKACTIVITY",
];

/// RFC 3261, 7.1, and its extensions. Methods that HTTP has too are known with the URI's scheme.
const SIP_REQUESTS: [&[u8]; 16] = [
    b"INVITE ",
    b"ACK ",
    b"BYE ",
    b"CANCEL ",
    b"REGISTER ",
    b"PRACK ",
    b"SUBSCRIBE ",
    b"NOTIFY ",
    b"PUBLISH ",
    b"INFO ",
    b"REFER ",
    b"MESSAGE ",
    b"OPTIONS sip",
    b"OPTIONS tel",
    b"UPDATE sip",
    b"UPDATE tel",
];

/// The longest tag before a client's first command that is recognized.
const IMAP_TAG_MAX: usize = 6;

pub(super) fn is_http_request(bytes: &[u8]) -> Fit {
    any(HTTP_METHODS.iter().map(|method| {
        has(bytes, 0, method, true)
            .and(|| byte(bytes, method.len(), |byte| matches!(byte, b' ' | b'\t')))
    }))
}

/// RFC 9110, 15: status lines of HTTP/0.9 as some servers send it, 1.0 and 1.1.
pub(super) fn is_http_answer(bytes: &[u8]) -> Fit {
    let starts: [&[u8]; 3] = [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9"];
    any(starts.iter().map(|start| has(bytes, 0, start, false)))
}

pub(super) fn is_sip_request(bytes: &[u8]) -> Fit {
    any(SIP_REQUESTS.iter().map(|start| has(bytes, 0, start, false)))
}

/// RFC 9051, 6.1.1: a client asks for capabilities first, with a short tag that ends in a digit.
pub(super) fn is_imap_request(bytes: &[u8]) -> Fit {
    let Some(len) = bytes.iter().position(|byte| *byte == b' ') else {
        let may_be_tag = bytes.len() <= IMAP_TAG_MAX && bytes.iter().all(u8::is_ascii_graphic);
        return if may_be_tag { Fit::Maybe } else { Fit::No };
    };
    let is_tag = (1..=IMAP_TAG_MAX).contains(&len) && bytes[len - 1].is_ascii_digit();
    Fit::of(is_tag).and(|| has(bytes, len, b" CAPABILITY", true))
}

pub(super) fn is_ftp_request(bytes: &[u8]) -> Fit {
    let starts: [&[u8]; 4] = [b"USER ", b"PASS ", b"PORT ", b"FEAT"];
    any(starts.iter().map(|start| has(bytes, 0, start, false)))
}

pub(super) fn is_smtp_request(bytes: &[u8]) -> Fit {
    let starts: [&[u8]; 3] = [b"EHLO", b"HELO", b"QUIT"];
    any(starts.iter().map(|start| has(bytes, 0, start, true)))
}

/// RFC 5321, 4.2: a mail server's greeting names its domain.
pub(super) fn is_smtp_greeting(bytes: &[u8]) -> Fit {
    has(bytes, 0, b"220 ", false).and(|| {
        let line = bytes[4..].split_inclusive(|byte| *byte == b'\n').next().unwrap_or(&[]);
        let domain = line.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next();
        match domain {
            Some(domain) if domain.contains(&b'.') => Fit::Yes,
            Some(domain) if domain.len() == line.len() => Fit::Maybe,
            _ => Fit::No,
        }
    })
}

/// RFC 1939, 3 and 7; RFC 2449, 5.
pub(super) fn is_pop3_request(bytes: &[u8]) -> Fit {
    let starts: [&[u8]; 3] = [b"CAPA", b"APOP ", b"STLS"];
    any(starts.iter().map(|start| has(bytes, 0, start, true)))
}

pub(super) fn is_pop3_answer(bytes: &[u8]) -> Fit {
    let starts: [&[u8]; 2] = [b"+OK", b"-ERR"];
    any(starts.iter().map(|start| has(bytes, 0, start, false)))
}

/// Yes where one is, or else maybe where one may be.
fn any(mut fits: impl Iterator<Item = Fit>) -> Fit {
    let mut best = Fit::No;
    let found = fits.find(|fit| {
        if *fit == Fit::Maybe {
            best = Fit::Maybe;
        }
        *fit == Fit::Yes
    });
    found.unwrap_or(best)
}
