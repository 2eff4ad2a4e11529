//! Generated rules, printed as text, and read back.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..20, any::<u16>()]
}

/// A content as text and as it is meant.
fn content() -> impl Strategy<Value = (String, Content)> {
    let bytes = prop::collection::vec(any::<u8>(), 1..12);
    let place = (0u8..4, value(), value(), any::<[bool; 3]>());
    (bytes, place, any::<bool>()).prop_map(
        |(bytes, (place, a, b, [nocase, is_negated, ends]), hex)| {
            let mut text = format!("content:{}\"", if is_negated { "!" } else { "" });
            for byte in &bytes {
                let _ = match byte {
                    b';' | b'\\' | b'"' | b':' if !hex => write!(text, "\\{}", char::from(*byte)),
                    b'|' | 0..0x20 | 0x7f.. => write!(text, "|{byte:02x}|"),
                    _ if hex => write!(text, "|{byte:02X}|"),
                    _ => write!(text, "{}", char::from(*byte)),
                };
            }
            text += "\";";
            let long = i64::from(a) + bytes.len() as i64;
            let (depth, near) = (long.min(65535), i64::from(b) - 30000);
            let number = |n| Some(Value::Number(n));
            let (words, places) = match place {
                0 => (String::new(), [None; 4]),
                1 => (
                    format!("offset:{b}; depth:{depth};"),
                    [number(b.into()), number(depth), None, None],
                ),
                2 => (
                    format!("within:{long}; distance:{near};"),
                    [None, None, number(near), number(long)],
                ),
                _ => (format!("distance:{near};"), [None, None, number(near), None]),
            };
            text += &words;
            for (word, is_said) in [("nocase;", nocase), ("endswith;", ends)] {
                text += if is_said { word } else { "" };
            }
            let [offset, depth, distance, within] = places;
            let content = Content {
                bytes: bytes.into(),
                is_nocase: nocase,
                is_negated,
                offset,
                depth,
                distance,
                within,
                starts: false,
                ends,
                fast_pattern: None,
            };
            (text, content)
        },
    )
}

/// A test of a number in the payload as text and as it is meant.
fn number() -> impl Strategy<Value = (String, PayloadTest)> {
    let fields = (1i64..9, -500i64..500, any::<u32>(), any::<[bool; 3]>(), 0usize..8, any::<u32>());
    fields.prop_map(
        |(bytes, offset, value, [is_relative, is_little, is_negated], operator, mask)| {
            use Compare::*;
            let operators = [
                ("<", Less),
                ("<=", LessEqual),
                ("=", Equal),
                (">=", GreaterEqual),
                (">", Greater),
                ("&", And),
                ("^", Xor),
                ("=", Equal),
            ];
            let (sign, compare) = operators[operator];
            let mut text = format!(
                "byte_test:{bytes},{}{sign},{value},{offset}",
                if is_negated { "!" } else { "" }
            );
            text += if is_relative { ",relative" } else { "" };
            text += if is_little { ", little" } else { "" };
            if mask > 0 {
                let _ = write!(text, ",bitmask {mask:#x}");
            }
            let number = Number {
                bytes: Value::Number(bytes),
                offset: Value::Number(offset),
                is_relative,
                encoding: if is_little { Encoding::Little } else { Encoding::Big },
                mask,
            };
            let value = Value::Number(value.into());
            (text + ";", PayloadTest::ByteTest { number, compare, is_negated, value })
        },
    )
}

/// Ranges of ports as text, and their set.
fn ports() -> impl Strategy<Value = (String, Vec<bool>)> {
    let range = (any::<u8>(), 0u8..30, any::<bool>());
    prop::collection::vec(range, 1..6).prop_map(|ranges| {
        let mut text = Vec::new();
        let mut set = [vec![false; 300], vec![false; 300]];
        for (start, len, is_negated) in ranges {
            let end = u16::from(start) + u16::from(len);
            text.push(format!("{}{start}:{end}", if is_negated { "!" } else { "" }));
            (usize::from(start)..=usize::from(end))
                .for_each(|p| set[usize::from(is_negated)][p] = true);
        }
        let [members, excluded] = set;
        let is_all = !members.contains(&true);
        let set = members.iter().zip(&excluded).map(|(m, e)| (is_all || *m) && !e).collect();
        (format!("[{}]", text.join(", ")), set)
    })
}

proptest! {
    #[test]
    fn rules_come_back(
        contents in prop::collection::vec(content(), 0..4),
        numbers in prop::collection::vec(number(), 0..3),
        (ports, set) in ports(),
        msg in "[ -~]{1,20}",
        sid in 1u32..,
    ) {
        let escaped: String =
            msg.chars().flat_map(|c| ['\\', c].into_iter().skip(usize::from(!"\\\";\
                :".contains(c)))).collect();
        let payload: String =
            contents.iter().map(|(t, _)| &**t).chain(numbers.iter().map(|(t, _)| &**t)).collect();
        let text = format!("drop tcp any {ports} -> $HOME_NET any (msg:\"{escaped}\"; {payload} \
            sid:{sid};)");
        let read = read_text(text.as_bytes(), Dialect::Suricata);
        if !set.contains(&true) {
            prop_assert!(read.broken.to_string().contains("no ports are left"));
            return Ok(());
        }
        prop_assert_eq!(read.rules.len(), 1, "{}\n{}", text, read.broken);
        let rule = &read.rules[0];
        let contents = contents.into_iter().map(|(_, content)| PayloadTest::Content(content));
        let expected: Vec<_> = contents.chain(numbers.into_iter().map(|(_, n)| n)).collect();
        prop_assert_eq!(&rule.payload, &expected);
        prop_assert_eq!((&*rule.about.msg, rule.about.sid, rule.action),
            (&*msg, sid, Action::Drop));
        for (port, is_in) in set.into_iter().enumerate() {
            prop_assert_eq!(rule.header.src_ports.contains(port as u16), is_in, "{} \
                {}", ports, port);
        }
    }
}
