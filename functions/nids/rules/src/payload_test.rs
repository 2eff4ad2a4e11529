//! A rule's tests of payloads: contents, expressions and numbers.

use std::sync::Arc;

use super::Span;

/// A number in a rule, or what `byte_extract` or `byte_math` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// As written.
    Number(i64),
    /// The number last written to this slot.
    Slot(u8),
}

/// A condition on the payload. "The last match" is the match of the previous test.
#[derive(Clone, Debug, PartialEq)]
pub enum PayloadTest {
    /// `content`.
    Content(Content),
    /// `pcre`.
    Pcre(Pcre),
    /// `byte_test`.
    ByteTest {
        /// The number.
        number: Number,
        /// How it is compared.
        compare: Compare,
        /// The other way round.
        is_negated: bool,
        /// The other operand: 64 bits, compared without sign.
        value: Value,
    },
    /// `byte_jump`.
    ByteJump {
        /// The number.
        number: Number,
        /// It is multiplied by this first.
        multiplier: u32,
        /// `align`: rounded up to a multiple of 4.
        is_aligned: bool,
        /// `from_beginning`, `from_end`, or from the end of the number.
        from: JumpFrom,
        /// Added in the end.
        post_offset: Value,
    },
    /// `byte_extract`.
    ByteExtract {
        /// The number.
        number: Number,
        /// It is multiplied by this first.
        multiplier: u32,
        /// `align 2`, `align 4`: rounded up; 0 for not.
        align: u8,
        /// Where it is kept.
        slot: u8,
    },
    /// `byte_math`.
    ByteMath {
        /// The number on the left.
        number: Number,
        /// The operation.
        operator: MathOperator,
        /// The number on the right.
        value: Value,
        /// The slot for the result.
        slot: u8,
    },
    /// `isdataat`.
    IsDataAt {
        /// There is a byte at this place, counted from the start or from the end of the last match.
        at: Value,
        /// The place counts from the end of the last match.
        is_relative: bool,
        /// There are none.
        is_negated: bool,
    },
    /// `bsize`: the length of the buffer in bytes.
    Bsize(Span<u64>),
}

/// `content`.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The bytes, escapes undone; never empty.
    pub bytes: Arc<[u8]>,
    /// Letters of ASCII match whichever case they are in.
    pub is_nocase: bool,
    /// It must not be there.
    pub is_negated: bool,
    /// `offset`: it starts no earlier, from the start.
    pub offset: Option<Value>,
    /// `depth`: it ends no later than this many bytes after `offset`.
    pub depth: Option<Value>,
    /// `distance`: it starts at least this far from the end of the last match.
    pub distance: Option<Value>,
    /// `within`: it ends no later than this many bytes after the last match and `distance`.
    pub within: Option<Value>,
    /// `startswith`.
    pub starts: bool,
    /// `endswith`.
    pub ends: bool,
    /// `fast_pattern`.
    pub fast_pattern: Option<FastPattern>,
}

impl Content {
    /// Whether the search starts from the end of the last match.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }
}

/// `fast_pattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPattern {
    /// All of it.
    Whole,
    /// `only`: it is not looked for again.
    Only,
    /// `offset,length`: this part of it.
    Part(u16, u16),
}

/// `pcre`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pcre {
    /// The expression between the slashes.
    pub pattern: Arc<[u8]>,
    /// It must not match.
    pub is_negated: bool,
    /// `i`, `s`, `m`, `x`: as in Perl.
    pub is_caseless: bool,
    /// See [`Pcre::is_caseless`].
    pub is_dot_all: bool,
    /// See [`Pcre::is_caseless`].
    pub is_multi_line: bool,
    /// See [`Pcre::is_caseless`].
    pub is_extended: bool,
    /// `A`: at the start only.
    pub is_anchored: bool,
    /// `E`: `$` matches at the very end only.
    pub is_dollar_end: bool,
    /// `G`: quantifiers are lazy unless followed by `?`.
    pub is_ungreedy: bool,
    /// `R`: from the end of the last match.
    pub is_relative: bool,
}

/// A number in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// Its bytes: up to 8 in binary, up to 23 as text. With 0 of them it is 0, or as text as long
    /// as its digits go on.
    pub bytes: Value,
    /// Where it starts, counted from the start or from the end of the last match.
    pub offset: Value,
    /// The offset counts from the end of the last match.
    pub is_relative: bool,
    /// Its encoding.
    pub encoding: Encoding,
    /// `bitmask`: these bits of it, moved right by the zeros below the mask; all where it is 0.
    pub mask: u32,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes, the most significant first.
    Big,
    /// Bytes, the least significant first.
    Little,
    /// Text in this base: 8, 10, 16 or [`ANY_BASE`].
    Text(u8),
}

/// The base given by the text itself, as in C: 16 after `0x`, 8 after another `0`, otherwise 10.
pub const ANY_BASE: u8 = 0;

/// How `byte_test` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterEqual,
    /// `>`
    Greater,
    /// `&`: they have a bit in common.
    And,
    /// `^`: as Suricata has it, they are not the same in every bit.
    Xor,
}

/// Where `byte_jump` counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpFrom {
    /// The end of the number.
    Here,
    /// The start of the buffer.
    Start,
    /// The end of the buffer.
    End,
}

/// The operation of `byte_math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathOperator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}
