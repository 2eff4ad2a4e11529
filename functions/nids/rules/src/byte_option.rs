//! Options about numbers in the payload: `byte_test`, `byte_jump`, `byte_extract`, `byte_math`,
//! `isdataat`, `bsize` (manual, "Payload Keywords").

use super::draft::{Draft, Setting};
use super::piece::{Piece, Read, Refusal};
use super::{
    ANY_BASE, Compare, Dialect, Encoding, JumpFrom, MathOperator, Need, Number, PayloadTest, Value,
};

const OFFSET_MAX: i64 = u16::MAX as i64;
/// Bytes of a number as text: an octal one of 64 bits with one zero before it.
const TEXT_BYTES_MAX: i64 = 23;

/// Reads the option, if it is one of these.
pub(super) fn option(setting: &Setting<'_>, draft: &mut Draft) -> Option<Read<()>> {
    let test = match &*setting.key {
        "byte_test" => byte_test(setting, draft),
        "byte_jump" => byte_jump(setting, draft),
        "byte_extract" => byte_extract(setting, draft),
        "byte_math" => byte_math(setting, draft),
        "isdataat" => is_data_at(setting, draft),
        "bsize" => setting
            .value()
            .and_then(|value| value.span("bsize", draft.dialect).map(PayloadTest::Bsize)),
        _ => return None,
    };
    Some(test.map(|test| add(test, draft)))
}

/// Adds a test. A relative `isdataat:!1` directly after a content means the same as `endswith`: the
/// content is at the end. This also holds after a negated content.
fn add(test: PayloadTest, draft: &mut Draft) {
    const NONE_BEHIND: PayloadTest =
        PayloadTest::IsDataAt { at: Value::Number(1), is_relative: true, is_negated: true };
    match draft.payload.last_mut() {
        Some(PayloadTest::Content(content)) if test == NONE_BEHIND => content.ends = true,
        _ => draft.payload.push(test),
    }
}

/// The form of a number, from its words.
#[derive(Default)]
struct Form {
    is_relative: bool,
    endian: Option<Encoding>,
    is_text: bool,
    base: Option<u8>,
    mask: u32,
}

impl Form {
    /// Takes one of the words that all four options have; whether it was one.
    fn word(&mut self, piece: Piece<'_>) -> Read<bool> {
        let (word, value) = piece.word();
        match &*word.text.to_ascii_lowercase() {
            "relative" => self.is_relative = true,
            "big" => self.endian = Some(Encoding::Big),
            "little" => self.endian = Some(Encoding::Little),
            "string" => self.is_text = true,
            "dec" => self.base = Some(10),
            "hex" => self.base = Some(16),
            "oct" => self.base = Some(8),
            "bitmask" => {
                let mask = value.any_base().and_then(|mask| u32::try_from(mask).ok());
                self.mask = mask.filter(|mask| *mask > 0).ok_or_else(|| no_mask(value))?;
                return Ok(true);
            }
            // The byte order is up to the DCE/RPC parser.
            "dce" => return Err(Refusal::Held(Need::Protocol("dcerpc".into()))),
            _ => return Ok(false),
        }
        if value.is_empty() { Ok(true) } else { Err(value.broken("unexpected after this word")) }
    }

    /// The encoding, with `default` as the base of text.
    fn encoding(&self, setting: &Setting<'_>, default: Option<u8>) -> Read<Encoding> {
        if !self.is_text {
            return match self.base {
                Some(_) => Err(setting.name.expected("a base without `string`", "string, dec")),
                None => Ok(self.endian.unwrap_or(Encoding::Big)),
            };
        }
        let unknown = || setting.name.expected("`string` without a base", "dec, hex, oct");
        self.base.or(default).map(Encoding::Text).ok_or_else(unknown)
    }
}

fn no_mask(value: Piece<'_>) -> Refusal {
    value.expected("this is not a mask", "a number above 0 of at most 32 bits, as 0xff00")
}

/// How many bytes a number has. With none it is 0, or as text as long as its digits go on.
fn byte_count(
    setting: &Setting<'_>,
    piece: Piece<'_>,
    encoding: Encoding,
    draft: &Draft,
) -> Read<Value> {
    let max = if matches!(encoding, Encoding::Text(_)) { TEXT_BYTES_MAX } else { 8 };
    let bytes = draft.number_or_name(piece, 0, max)?;
    if bytes == Value::Number(0) && setting.key == "byte_extract" {
        return Err(Refusal::Held(Need::value(&setting.key, "of 0 bytes")));
    }
    Ok(bytes)
}

fn unknown(setting: &Setting<'_>, word: Piece<'_>, words: &str) -> Refusal {
    word.expected(format!("`{}` has no `{}`", setting.key, word.text), words)
}

/// `N` required pieces, and those after them.
fn fields<'a, const N: usize>(
    setting: &Setting<'a>,
    form: &str,
) -> Read<([Piece<'a>; N], Vec<Piece<'a>>)> {
    let value = setting.value()?;
    let mut pieces: Vec<_> = value.list().collect();
    let rest = pieces.split_off(pieces.len().min(N));
    let fields = pieces.try_into();
    Ok((fields.map_err(|_| value.expected("something is missing here", form))?, rest))
}

/// The base of text where a rule names none: Suricata looks at the text.
fn default_base(draft: &Draft) -> Option<u8> {
    Some(if draft.dialect == Dialect::Snort { 10 } else { ANY_BASE })
}

fn byte_test(setting: &Setting<'_>, draft: &Draft) -> Read<PayloadTest> {
    let form = "bytes, operator, value, offset, then relative, big, little, string, dec, hex, oct, \
                bitmask";
    let ([bytes, operator, value, offset], words) = fields(setting, form)?;
    let mut number = Form::default();
    for word in words {
        if !number.word(word)? {
            return Err(unknown(setting, word, form));
        }
    }
    let (is_negated, compare) = compare(operator)?;
    let encoding = number.encoding(setting, default_base(draft))?;
    Ok(PayloadTest::ByteTest {
        compare,
        is_negated,
        value: compared_with(value, draft)?,
        number: Number {
            bytes: byte_count(setting, bytes, encoding, draft)?,
            offset: draft.number_or_name(offset, i64::from(i32::MIN), i64::from(i32::MAX))?,
            is_relative: number.is_relative,
            encoding,
            mask: number.mask,
        },
    })
}

/// A number of 64 bits without sign, kept as one with sign.
fn compared_with(value: Piece<'_>, draft: &Draft) -> Read<Value> {
    if value.text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return draft.found(value);
    }
    let number = match value.strip("-") {
        Some(digits) => digits.any_base().map(|n| n.wrapping_neg()),
        None => value.any_base(),
    };
    let no_number = || value.expected("this is not a number", "a number of at most 64 bits");
    number.map(|n| Value::Number(n as i64)).ok_or_else(no_number)
}

fn compare(operator: Piece<'_>) -> Read<(bool, Compare)> {
    let (is_negated, rest) = match operator.strip("!") {
        Some(rest) => (true, rest),
        None => (false, operator),
    };
    let compare = match rest.text {
        "<" => Compare::Less,
        "<=" => Compare::LessEqual,
        "=" => Compare::Equal,
        "" if is_negated => Compare::Equal,
        ">=" => Compare::GreaterEqual,
        ">" => Compare::Greater,
        "&" => Compare::And,
        "^" => Compare::Xor,
        other => {
            let help = "< <= = >= > & ^, perhaps with ! before it";
            return Err(operator.expected(format!("`{other}` is not a comparison"), help));
        }
    };
    Ok((is_negated, compare))
}

fn byte_jump(setting: &Setting<'_>, draft: &Draft) -> Read<PayloadTest> {
    let form = "bytes, offset, then relative, multiplier, big, little, string, dec, hex, oct, \
                align, from_beginning, from_end, post_offset, bitmask";
    let ([bytes, offset], words) = fields(setting, form)?;
    let mut number = Form::default();
    let (mut multiplier, mut is_aligned) = (1, false);
    let (mut from, mut post_offset) = (JumpFrom::Here, Value::Number(0));
    for word in words {
        let (name, value) = word.word();
        let start = match &*name.text.to_ascii_lowercase() {
            "multiplier" => {
                multiplier = self::multiplier(value)?;
                continue;
            }
            "post_offset" => {
                post_offset = draft.number_or_name(value, -OFFSET_MAX, OFFSET_MAX)?;
                continue;
            }
            "align" => {
                is_aligned = true;
                continue;
            }
            "from_beginning" => JumpFrom::Start,
            "from_end" => JumpFrom::End,
            _ if number.word(word)? => continue,
            _ => return Err(unknown(setting, word, form)),
        };
        if from != JumpFrom::Here && from != start {
            return Err(word.broken("from the beginning and from the end"));
        }
        from = start;
    }
    let encoding = number.encoding(setting, default_base(draft))?;
    let number = Number {
        bytes: byte_count(setting, bytes, encoding, draft)?,
        offset: draft.number_or_name(offset, -OFFSET_MAX, OFFSET_MAX)?,
        is_relative: number.is_relative,
        encoding,
        mask: number.mask,
    };
    Ok(PayloadTest::ByteJump { number, multiplier, is_aligned, from, post_offset })
}

fn multiplier(value: Piece<'_>) -> Read<u32> {
    Ok(value.signed(1, OFFSET_MAX)? as u32)
}

fn byte_extract(setting: &Setting<'_>, draft: &mut Draft) -> Read<PayloadTest> {
    let form =
        "bytes, offset, name, then relative, multiplier, big, little, string, dec, hex, oct, align";
    let ([bytes, offset, name], words) = fields(setting, form)?;
    let mut number = Form::default();
    let (mut multiplier, mut align) = (1, 0);
    for word in words {
        let (key, value) = word.word();
        match key.text {
            "multiplier" => multiplier = self::multiplier(value)?,
            "align" => {
                align = match value.text {
                    "2" => 2,
                    "4" => 4,
                    _ => {
                        return Err(value.expected("numbers aren't rounded so", "align 2, align 4"));
                    }
                }
            }
            "slice" => return Err(Refusal::Held(Need::value("byte_extract", "slice"))),
            "bitmask" if draft.dialect == Dialect::Suricata => {
                return Err(unknown(setting, word, form));
            }
            _ if number.word(word)? => {}
            _ => return Err(unknown(setting, word, form)),
        }
    }
    if number.is_text && number.endian.is_some() {
        return Err(setting.name.broken("`string` with an order of bytes"));
    }
    let encoding = number.encoding(setting, Some(10))?;
    let number = Number {
        bytes: byte_count(setting, bytes, encoding, draft)?,
        offset: draft.number_or_name(offset, -OFFSET_MAX, OFFSET_MAX)?,
        is_relative: number.is_relative,
        encoding,
        mask: number.mask,
    };
    let slot = draft.slot(name, false)?;
    Ok(PayloadTest::ByteExtract { number, multiplier, align, slot })
}

fn byte_math(setting: &Setting<'_>, draft: &mut Draft) -> Read<PayloadTest> {
    let form = "bytes N, offset N, oper O, rvalue N, result NAME, then relative, endian big, \
                string dec, bitmask 0xff";
    let whole = setting.value()?;
    let mut number = Form::default();
    let [mut bytes, mut offset, mut operator, mut right, mut result] = [None; 5];
    for word in whole.list() {
        let (key, value) = word.word();
        let field = match key.text {
            "bytes" => &mut bytes,
            "offset" => &mut offset,
            "oper" => &mut operator,
            "rvalue" => &mut right,
            "result" => &mut result,
            "endian"
                if number.endian.is_none() && ["big", "little", "dce"].contains(&value.text) =>
            {
                number.word(value)?;
                continue;
            }
            "string" if !number.is_text && ["dec", "hex", "oct"].contains(&value.text) => {
                number.word(value)?;
                number.is_text = true;
                continue;
            }
            "bitmask" => {
                number.mask = hexadecimal(value)?;
                continue;
            }
            "relative" | "dce" if number.word(word)? => continue,
            _ => return Err(unknown(setting, word, form)),
        };
        if field.replace(value).is_some() {
            return Err(word.broken(format!("`{}` is repeated", key.text)));
        }
    }
    let missing = |name: &str| whole.expected(format!("`{name}` is missing"), form);
    let operator = math_operator(operator.ok_or_else(|| missing("oper"))?)?;
    let encoding = number.encoding(setting, None)?;
    let is_shift = matches!(operator, MathOperator::ShiftLeft | MathOperator::ShiftRight);
    let bytes_max = match encoding {
        _ if is_shift => 4,
        Encoding::Text(_) => 10,
        _ => 8,
    };
    let number = Number {
        bytes: draft.number_or_name(bytes.ok_or_else(|| missing("bytes"))?, 1, bytes_max)?,
        offset: offset
            .ok_or_else(|| missing("offset"))?
            .signed(-OFFSET_MAX, OFFSET_MAX)
            .map(Value::Number)?,
        is_relative: number.is_relative,
        encoding,
        mask: number.mask,
    };
    let right = right.ok_or_else(|| missing("rvalue"))?;
    let value = draft.number_or_name(right, 0, i64::from(u32::MAX))?;
    let slot = draft.slot(result.ok_or_else(|| missing("result"))?, true)?;
    Ok(PayloadTest::ByteMath { number, operator, value, slot })
}

/// The mask of `byte_math`, which is in hexadecimal with or without `0x`.
fn hexadecimal(value: Piece<'_>) -> Read<u32> {
    let digits = value.text.trim_start_matches("0x").trim_start_matches("0X");
    let mask = u32::from_str_radix(digits, 16).ok().filter(|mask| *mask > 0);
    mask.filter(|_| !digits.starts_with('+')).ok_or_else(|| no_mask(value))
}

fn math_operator(piece: Piece<'_>) -> Read<MathOperator> {
    Ok(match piece.text {
        "+" => MathOperator::Add,
        "-" => MathOperator::Sub,
        "*" => MathOperator::Mul,
        "/" => MathOperator::Div,
        "<<" => MathOperator::ShiftLeft,
        ">>" => MathOperator::ShiftRight,
        other => {
            return Err(piece.expected(format!("`{other}` is not an operator"), "+ - * / << >>"));
        }
    })
}

/// Snort's relative `isdataat` requires one byte more than Suricata's. Rules store Suricata's
/// count.
fn is_data_at(setting: &Setting<'_>, draft: &Draft) -> Read<PayloadTest> {
    let value = setting.value()?;
    let (is_negated, value) = match value.strip("!") {
        Some(value) => (true, value),
        None => (false, value),
    };
    let mut pieces = value.list();
    let at = pieces.next().unwrap_or(value);
    let mut is_relative = false;
    for word in pieces {
        match word.text {
            "relative" => is_relative = true,
            "rawbytes" => {}
            _ => return Err(unknown(setting, word, "relative, rawbytes")),
        }
    }
    let at = match draft.number_or_name(at, 0, OFFSET_MAX)? {
        Value::Number(at) if is_relative && draft.dialect == Dialect::Snort => {
            Value::Number(at + 1)
        }
        Value::Slot(_) if is_relative && draft.dialect == Dialect::Snort => {
            return Err(Refusal::Held(Need::value("isdataat", "of a name, relative")));
        }
        at => at,
    };
    Ok(PayloadTest::IsDataAt { at, is_relative, is_negated })
}
