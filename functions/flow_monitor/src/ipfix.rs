//! IPFIX messages (RFC 7011) of biflows (RFC 5103): templates, data records, sequence numbers.
//!
//! [`walk`] alone defines the content of a data record; templates and records are both made from
//! it. Each [`kind`] of record has a template: IPv4 or IPv6, ports or an ICMP type, one direction
//! or two. Uniflows have templates of their own, without the elements of RFC 5103.

use core::ops::Range;

use super::record::{FlowRecord, Form, Half};
use warpline_nf::Format;

/// RFC 7011, 3.1: version 0x000a.
const VERSION: u16 = 10;
const MESSAGE_HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
/// RFC 7011, 3.3.2: Set ID 2 is a Template Set; those from 256 on are Data Sets, by their template.
const TEMPLATE_SET: u16 = 2;
const TEMPLATE_FIRST: u16 = 256;
/// RFC 5103, 6.1: the Private Enterprise Number of Reverse Information Elements.
const REVERSE_PEN: u32 = 29_305;
const ENTERPRISE: u16 = 0x8000;
/// Bytes of the longest message that has all templates and one record.
pub(super) const MESSAGE_LEN_MIN: usize = 1024;

/// Information Elements, by the numbers that IANA gives them.
mod element {
    pub(super) const OCTET_DELTA_COUNT: u16 = 1;
    pub(super) const PACKET_DELTA_COUNT: u16 = 2;
    pub(super) const PROTOCOL_IDENTIFIER: u16 = 4;
    pub(super) const TCP_CONTROL_BITS: u16 = 6;
    pub(super) const SOURCE_TRANSPORT_PORT: u16 = 7;
    pub(super) const SOURCE_IPV4_ADDRESS: u16 = 8;
    pub(super) const DESTINATION_TRANSPORT_PORT: u16 = 11;
    pub(super) const DESTINATION_IPV4_ADDRESS: u16 = 12;
    pub(super) const SOURCE_IPV6_ADDRESS: u16 = 27;
    pub(super) const DESTINATION_IPV6_ADDRESS: u16 = 28;
    pub(super) const ICMP_TYPE_CODE_IPV4: u16 = 32;
    pub(super) const FLOW_END_REASON: u16 = 136;
    pub(super) const ICMP_TYPE_CODE_IPV6: u16 = 139;
    pub(super) const FLOW_START_MILLISECONDS: u16 = 152;
    pub(super) const FLOW_END_MILLISECONDS: u16 = 153;
    pub(super) const BIFLOW_DIRECTION: u16 = 239;
}

/// An Information Element as a template has it.
#[derive(Clone, Copy)]
struct Element {
    id: u16,
    /// Bytes.
    len: u16,
    reverse: bool,
}

const IPV6: u16 = 1;
const ICMP: u16 = 2;
const BIFLOW: u16 = 4;
const UNIFLOW: u16 = 8;

/// The kinds of a form's records.
fn kinds(form: Form) -> Range<u16> {
    match form {
        Form::Biflow => 0..BIFLOW << 1,
        Form::Uniflow => UNIFLOW..UNIFLOW + BIFLOW,
    }
}

/// Which template a record takes, counted from [`TEMPLATE_FIRST`].
fn kind(record: &FlowRecord, form: Form) -> u16 {
    let bit = |is: bool, bit| if is { bit } else { 0 };
    bit(record.key.version == 6, IPV6)
        | bit(record.key.is_icmp(), ICMP)
        | bit(record.is_biflow(), BIFLOW)
        | bit(form == Form::Uniflow, UNIFLOW)
}

/// Gives the elements of a record of `kind` in order, each with its value.
#[inline(always)]
fn walk(kind: u16, record: &FlowRecord, put: &mut impl FnMut(Element, u128)) {
    let mut own = |id, len, value: u64| put(Element { id, len, reverse: false }, u128::from(value));
    let key = &record.key;
    if kind & ICMP == 0 {
        own(element::SOURCE_TRANSPORT_PORT, 2, key.src_port.into());
        own(element::DESTINATION_TRANSPORT_PORT, 2, key.dst_port.into());
    } else {
        let v4 = kind & IPV6 == 0;
        let id = if v4 { element::ICMP_TYPE_CODE_IPV4 } else { element::ICMP_TYPE_CODE_IPV6 };
        own(id, 2, key.dst_port.into());
    }
    own(element::PROTOCOL_IDENTIFIER, 1, key.protocol.into());
    own(element::FLOW_END_REASON, 1, record.end as u64);
    if kind & UNIFLOW == 0 {
        own(element::BIFLOW_DIRECTION, 1, record.direction as u64);
    }
    let (src, dst, len) = match kind & IPV6 {
        0 => (element::SOURCE_IPV4_ADDRESS, element::DESTINATION_IPV4_ADDRESS, 4),
        _ => (element::SOURCE_IPV6_ADDRESS, element::DESTINATION_IPV6_ADDRESS, 16),
    };
    put(Element { id: src, len, reverse: false }, key.src);
    put(Element { id: dst, len, reverse: false }, key.dst);
    // The source's own times come last: nfdump 1.7 takes the reverse ones for the same elements.
    if kind & BIFLOW != 0 {
        walk_half(&record.reverse, true, put);
    }
    walk_half(&record.forward, false, put);
}

#[inline(always)]
fn walk_half(half: &Half, reverse: bool, put: &mut impl FnMut(Element, u128)) {
    let mut own = |id, len, value: u64| put(Element { id, len, reverse }, u128::from(value));
    own(element::FLOW_START_MILLISECONDS, 8, half.first_us / 1000);
    own(element::FLOW_END_MILLISECONDS, 8, half.last_us / 1000);
    own(element::OCTET_DELTA_COUNT, 8, half.bytes);
    own(element::PACKET_DELTA_COUNT, 8, half.packets);
    // RFC 7125, 3: in one octet it stands for the lower eight flags; the others were not looked at.
    own(element::TCP_CONTROL_BITS, 1, half.tcp_flags.into());
}

/// Makes messages of records.
pub(super) struct Encoder {
    form: Form,
    domain: u32,
    len_max: usize,
    /// Messages from one with templates to the next.
    template_every: u32,
    /// Messages until there are templates again.
    until_templates: u32,
    /// The same in seconds of packet time, and when there were templates last.
    template_every_s: u32,
    templates_s: u32,
    /// Data records in the messages before this one (RFC 7011, 3.1: modulo 2^32).
    sequence: u32,
    /// Data records in this message.
    records: u32,
    message: Vec<u8>,
    /// Where the data set at the end of the message starts, and its kind.
    set: Option<(usize, u16)>,
    /// The latest of the message's packets, in seconds.
    export_s: u32,
}

impl Encoder {
    /// An encoder for records of `form` and observation domain `domain`. Messages have at most
    /// `len_max` bytes, from [`MESSAGE_LEN_MIN`] to 65535. The first message has the templates,
    /// then every `template_every`th. So does a message `template_every_s` seconds of packet time
    /// or more after the last templates.
    pub(super) fn new(
        form: Form,
        domain: u32,
        len_max: usize,
        template_every: u32,
        template_every_s: u32,
    ) -> Self {
        let len_max = len_max.clamp(MESSAGE_LEN_MIN, usize::from(u16::MAX));
        Self {
            form,
            domain,
            len_max,
            template_every,
            until_templates: 0,
            template_every_s,
            templates_s: 0,
            sequence: 0,
            records: 0,
            message: Vec::with_capacity(len_max),
            set: None,
            export_s: 0,
        }
    }

    /// Adds a record. A message that is full by then is given to `send`.
    pub(super) fn add(&mut self, record: &FlowRecord, send: &mut dyn FnMut(&[u8])) {
        let kind = kind(record, self.form);
        let mut len = 0;
        walk(kind, record, &mut |element, _| len += usize::from(element.len));
        if self.message.len() + SET_HEADER_LEN + len > self.len_max {
            self.flush(send);
        }
        let last_s = (record.last_us() / 1_000_000).min(u32::MAX.into()) as u32;
        if self.message.is_empty() {
            self.export_s = last_s;
            self.open();
        }
        self.export_s = self.export_s.max(last_s);
        if self.set.is_none_or(|(_, own)| own != kind) {
            self.close_set();
            self.set = Some((self.message.len(), kind));
            put_u16(&mut self.message, TEMPLATE_FIRST + kind);
            put_u16(&mut self.message, 0);
        }
        let message = &mut self.message;
        walk(kind, record, &mut |element, value| {
            let bytes = value.to_be_bytes();
            message.extend_from_slice(&bytes[bytes.len() - usize::from(element.len)..]);
        });
        self.records += 1;
    }

    /// Gives what there is to `send`.
    pub(super) fn flush(&mut self, send: &mut dyn FnMut(&[u8])) {
        if self.message.is_empty() {
            return;
        }
        self.close_set();
        let len = self.message.len() as u16;
        let header = &mut self.message[..MESSAGE_HEADER_LEN];
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..8].copy_from_slice(&self.export_s.to_be_bytes());
        send(&self.message);
        self.message.clear();
        self.sequence = self.sequence.wrapping_add(self.records);
        self.records = 0;
    }

    fn open(&mut self) {
        put_u16(&mut self.message, VERSION);
        self.message.extend_from_slice(&[0; 6]);
        put_u32(&mut self.message, self.sequence);
        put_u32(&mut self.message, self.domain);
        if self.until_templates == 0
            || self.export_s.abs_diff(self.templates_s) >= self.template_every_s
        {
            self.until_templates = self.template_every;
            self.templates_s = self.export_s;
            put_templates(&mut self.message, self.form);
        }
        self.until_templates -= 1;
    }

    fn close_set(&mut self) {
        if let Some((start, _)) = self.set.take() {
            put_set_len(&mut self.message, start);
        }
    }
}

/// The form of IPFIX messages in a file or a connection. Each but the first, which is a message's
/// own matter, begins with templates.
pub(super) fn format(form: Form) -> Format {
    let len = |bytes: &[u8]| Some(u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?).into());
    Format::new(len).beginning(move |next| {
        let mut message = next.get(..MESSAGE_HEADER_LEN).unwrap_or_default().to_vec();
        put_templates(&mut message, form);
        let len = message.len() as u16;
        message[2..4].copy_from_slice(&len.to_be_bytes());
        message
    })
}

/// A set with all templates of a form (RFC 7011, 3.4.1).
fn put_templates(message: &mut Vec<u8>, form: Form) {
    let start = message.len();
    put_u16(message, TEMPLATE_SET);
    put_u16(message, 0);
    for kind in kinds(form) {
        let mut elements = Vec::new();
        walk(kind, &FlowRecord::EMPTY, &mut |element, _| elements.push(element));
        put_u16(message, TEMPLATE_FIRST + kind);
        put_u16(message, elements.len() as u16);
        for element in elements {
            put_u16(message, if element.reverse { element.id | ENTERPRISE } else { element.id });
            put_u16(message, element.len);
            if element.reverse {
                put_u32(message, REVERSE_PEN);
            }
        }
    }
    put_set_len(message, start);
}

fn put_set_len(message: &mut [u8], start: usize) {
    let len = (message.len() - start) as u16;
    message[start + 2..start + SET_HEADER_LEN].copy_from_slice(&len.to_be_bytes());
}

fn put_u16(message: &mut Vec<u8>, value: u16) {
    message.extend_from_slice(&value.to_be_bytes());
}

fn put_u32(message: &mut Vec<u8>, value: u32) {
    message.extend_from_slice(&value.to_be_bytes());
}
