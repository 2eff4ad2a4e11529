//! Rules by hand.

use std::sync::Arc;

use warpline_nids_rules::*;

/// `alert ip any any -> any any ()`.
pub(super) fn rule() -> Rule {
    Rule {
        place: SourceLine::default(),
        action: Action::Alert,
        header: header(Protocol::Ip),
        about: About { gid: 1, sid: 1, priority: 3, ..About::default() },
        packet: Vec::new(),
        flow: FlowTests::default(),
        payload: Vec::new(),
        slots: 0,
        effects: Vec::new(),
        threshold: None,
        detection_filter: None,
    }
}

/// Any address, any port.
pub(super) fn header(protocol: Protocol) -> Header {
    let addresses = Arc::new(any());
    let ports = Arc::new(Ports(vec![(0, u16::MAX)]));
    Header {
        protocol,
        src: addresses.clone(),
        src_ports: ports.clone(),
        dst: addresses,
        dst_ports: ports,
        is_bidirectional: false,
    }
}

pub(super) fn any() -> Addresses {
    Addresses {
        v4: vec![([0; 4].into(), [255; 4].into())],
        v6: vec![([0; 16].into(), [255; 16].into())],
        excludes: false,
    }
}

/// From `min` to `max`.
pub(super) fn span<T>(min: T, max: T) -> Span<T> {
    Span { min, max, is_negated: false }
}

pub(super) fn not<T: Copy>(number: T) -> Span<T> {
    Span { min: number, max: number, is_negated: true }
}

pub(super) fn content(bytes: &[u8]) -> Content {
    Content {
        bytes: bytes.into(),
        is_nocase: false,
        is_negated: false,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        starts: false,
        ends: false,
        fast_pattern: None,
    }
}

/// A content with its modifiers, as in rules: `c("!abc", "nocase; offset 3; depth x0")`, where `x0`
/// is slot 0.
pub(super) fn c(bytes: &str, modifiers: &str) -> PayloadTest {
    let (bytes, is_negated) = match bytes.strip_prefix('!') {
        Some(bytes) => (bytes, true),
        None => (bytes, false),
    };
    let mut content = Content { is_negated, ..content(bytes.as_bytes()) };
    for modifier in modifiers.split(';').map(str::trim).filter(|m| !m.is_empty()) {
        match modifier.split_once(' ') {
            None if modifier == "nocase" => content.is_nocase = true,
            None if modifier == "startswith" => content.starts = true,
            None if modifier == "endswith" => content.ends = true,
            Some(("offset", number)) => content.offset = Some(value(number)),
            Some(("depth", number)) => content.depth = Some(value(number)),
            Some(("distance", number)) => content.distance = Some(value(number)),
            Some(("within", number)) => content.within = Some(value(number)),
            _ => panic!("{modifier}"),
        }
    }
    PayloadTest::Content(content)
}

/// A number, or `x0` for slot 0.
pub(super) fn value(text: &str) -> Value {
    match text.strip_prefix('x') {
        Some(slot) => Value::Slot(slot.parse().unwrap()),
        None => Value::Number(text.parse().unwrap()),
    }
}

/// `pcre:"/pattern/letters"`, negated with `!` before the slash.
pub(super) fn p(text: &str) -> PayloadTest {
    let (text, is_negated) = match text.strip_prefix('!') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (pattern, letters) = text[1..].rsplit_once('/').unwrap();
    let has = |letter| letters.contains(letter);
    PayloadTest::Pcre(Pcre {
        pattern: pattern.as_bytes().into(),
        is_negated,
        is_caseless: has('i'),
        is_dot_all: has('s'),
        is_multi_line: has('m'),
        is_extended: has('x'),
        is_anchored: has('A'),
        is_dollar_end: has('E'),
        is_ungreedy: has('G'),
        is_relative: has('R'),
    })
}

/// `isdataat`: `"!1,relative"`.
pub(super) fn at(text: &str) -> PayloadTest {
    let is_negated = text.starts_with('!');
    let (number, is_relative) = match text.trim_start_matches('!').split_once(',') {
        Some((number, _)) => (number, true),
        None => (text.trim_start_matches('!'), false),
    };
    PayloadTest::IsDataAt { at: value(number), is_relative, is_negated }
}

/// A number of `bytes` bytes at `offset`, big-endian; `options`: `relative`, `little`, `dec`,
/// `hex`, `oct`, `mask 0xf0`.
pub(super) fn number(bytes: &str, offset: &str, options: &str) -> Number {
    let mut number = Number {
        bytes: value(bytes),
        offset: value(offset),
        is_relative: false,
        encoding: Encoding::Big,
        mask: 0,
    };
    for option in options.split(';').map(str::trim).filter(|o| !o.is_empty()) {
        match option {
            "relative" => number.is_relative = true,
            "little" => number.encoding = Encoding::Little,
            "oct" => number.encoding = Encoding::Text(8),
            "dec" => number.encoding = Encoding::Text(10),
            "hex" => number.encoding = Encoding::Text(16),
            _ => {
                let digits = option.strip_prefix("mask 0x").unwrap();
                number.mask = u32::from_str_radix(digits, 16).unwrap();
            }
        }
    }
    number
}

pub(super) fn test(number: Number, operator: &str, with: &str) -> PayloadTest {
    let (operator, is_negated) = match operator.strip_prefix('!') {
        Some("") => ("=", true),
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let compare = match operator {
        "<" => Compare::Less,
        "<=" => Compare::LessEqual,
        "=" => Compare::Equal,
        ">=" => Compare::GreaterEqual,
        ">" => Compare::Greater,
        "&" => Compare::And,
        "^" => Compare::Xor,
        _ => panic!("{operator}"),
    };
    PayloadTest::ByteTest { number, compare, is_negated, value: value(with) }
}

/// `byte_jump` without multiplier, from the end of the number.
pub(super) fn jump(number: Number) -> PayloadTest {
    jump_from(number, JumpFrom::Here, "0")
}

pub(super) fn jump_from(number: Number, from: JumpFrom, post_offset: &str) -> PayloadTest {
    let post_offset = value(post_offset);
    PayloadTest::ByteJump { number, multiplier: 1, is_aligned: false, from, post_offset }
}

pub(super) fn extract(number: Number, slot: u8) -> PayloadTest {
    PayloadTest::ByteExtract { number, multiplier: 1, align: 0, slot }
}

pub(super) fn math(number: Number, operator: MathOperator, with: &str, slot: u8) -> PayloadTest {
    PayloadTest::ByteMath { number, operator, value: value(with), slot }
}
