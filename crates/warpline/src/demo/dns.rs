//! DNS messages (RFC 1035), with EDNS (RFC 6891).

use super::rng::Rng;

/// A question: name and type, class IN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) id: u16,
    pub(super) name: &'static str,
    pub(super) kind: u16,
}

impl Question {
    /// A question for one of a few names.
    pub(super) fn any(rng: &mut Rng) -> Self {
        Self { id: rng.bits() as u16, name: rng.pick(&NAMES), kind: rng.pick(&[A, A, AAAA, MX]) }
    }

    /// The message that asks, ready for answers of up to 4096 bytes.
    pub(super) fn query(&self) -> Vec<u8> {
        let mut message = self.head(RECURSION_DESIRED, 0);
        message.extend(OPT);
        message
    }

    /// The message with `records` answers, or with "no such name" for none.
    pub(super) fn answer(&self, records: u16, rng: &mut Rng) -> Vec<u8> {
        let code = if records == 0 { NO_SUCH_NAME } else { 0 };
        let mut message = self.head(RESPONSE | AUTHORITATIVE | RECURSION_DESIRED | code, records);
        for _ in 0..records {
            let data = self.data(rng);
            message.extend(POINTER_TO_QUESTION);
            message.extend(self.kind.to_be_bytes());
            message.extend(CLASS_IN.to_be_bytes());
            message.extend((rng.between(60, 86_400) as u32).to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message.extend(OPT);
        message
    }

    /// Header and question; the additional section will have the OPT record.
    fn head(&self, flags: u16, answers: u16) -> Vec<u8> {
        let header = [self.id, flags, 1, answers, 0, 1];
        let mut message: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
        message.extend(labels(self.name));
        message.extend(self.kind.to_be_bytes());
        message.extend(CLASS_IN.to_be_bytes());
        message
    }

    fn data(&self, rng: &mut Rng) -> Vec<u8> {
        match self.kind {
            A => vec![192, 0, 2, rng.between(150, 200) as u8],
            AAAA => {
                let host = [1, rng.between(1, 24) as u8];
                [&[0x20, 0x01, 0x0d, 0xb8, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0], &host[..]].concat()
            }
            MX => [&[0, 10], &labels("mail.example.net")[..]].concat(),
            _ => {
                let text: Vec<u8> = (0..240).map(|_| rng.between(0x61, 0x7a) as u8).collect();
                [&[text.len() as u8], &text[..]].concat()
            }
        }
    }
}

/// A name as labels with their lengths.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Type of text records.
pub(super) const TXT: u16 = 16;
const A: u16 = 1;
const MX: u16 = 15;
const AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
const RESPONSE: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
const RECURSION_DESIRED: u16 = 0x0100;
const NO_SUCH_NAME: u16 = 3;
/// The name at offset 12, where the question has it (RFC 1035, 4.1.4).
const POINTER_TO_QUESTION: [u8; 2] = [0xc0, 12];
/// OPT record: root name, type 41, 4096 bytes, no flags, no data.
const OPT: [u8; 11] = [0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0];
const NAMES: [&str; 8] = [
    "www.example.com",
    "example.net",
    "shop.example.net",
    "static.example.org",
    "mail.example.net",
    "time.example.org",
    "news.example.com",
    "a-rather-longer-name.of.a.deeper.zone.example.org",
];
