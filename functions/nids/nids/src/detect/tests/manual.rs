//! Rule text beside the same rule typed, a payload and whether it matches: the manual's examples
//! for each option of "Payload Keywords", and edge cases between them.

use super::build::*;
use super::{holds, holds_in};
use warpline_nids_rules::{MathOperator, PayloadTest};

type Case = (&'static str, Vec<PayloadTest>, &'static [u8], bool);

fn check(cases: &[Case]) {
    for (text, tests, payload, expected) in cases {
        let payload_text = payload.escape_ascii();
        assert_eq!(holds(tests, payload), *expected, "{text} on {payload_text}");
    }
}

#[test]
fn contents() {
    check(&[
        (r#"content:"abc";"#, vec![c("abc", "")], b"xxabcxx", true),
        (r#"content:"abc";"#, vec![c("abc", "")], b"xxabxxc", false),
        (r#"content:"abc";"#, vec![c("abc", "")], b"xxABC", false),
        (r#"content:"abc"; nocase;"#, vec![c("abc", "nocase")], b"xxaBCxx", true),
        (r#"content:"abc"; nocase;"#, vec![c("abc", "nocase")], b"xxaBxxC", false),
        (r#"content:!"abc";"#, vec![c("!abc", "")], b"xxab", true),
        (r#"content:!"abc";"#, vec![c("!abc", "")], b"xxabc", false),
        (r#"content:!"abc";"#, vec![c("!abc", "")], b"", false),
        (r#"content:"abc"; depth:3;"#, vec![c("abc", "depth 3")], b"abcd", true),
        (r#"content:"abc"; depth:3;"#, vec![c("abc", "depth 3")], b"xabc", false),
        (
            r#"content:"def"; offset:3; depth:3;"#,
            vec![c("def", "offset 3; depth 3")],
            b"abcdef",
            true,
        ),
        (
            r#"content:"def"; offset:3; depth:3;"#,
            vec![c("def", "offset 3; depth 3")],
            b"abcxdef",
            false,
        ),
        (r#"content:"def"; offset:3;"#, vec![c("def", "offset 3")], b"abcxxdef", true),
        (r#"content:"def"; offset:3;"#, vec![c("def", "offset 3")], b"abdef", false),
        (r#"content:"GET "; startswith;"#, vec![c("GET ", "startswith")], b"GET /", true),
        (r#"content:"GET "; startswith;"#, vec![c("GET ", "startswith")], b" GET /", false),
        (r#"content:!"GET "; startswith;"#, vec![c("!GET ", "startswith")], b" GET /", true),
        (r#"content:".php"; endswith;"#, vec![c(".php", "endswith")], b"/a.php", true),
        (r#"content:".php"; endswith;"#, vec![c(".php", "endswith")], b".php.php", true),
        (r#"content:".php"; endswith;"#, vec![c(".php", "endswith")], b"/a.phpx", false),
        (r#"content:!"ab"; endswith;"#, vec![c("!ab", "endswith")], b"abcab", false),
        (r#"content:!"ab"; endswith;"#, vec![c("!ab", "endswith")], b"abc", true),
        (r#"content:"ab"; depth:4; endswith;"#, vec![c("ab", "depth 4; endswith")], b"xxab", true),
        (
            r#"content:"ab"; depth:4; endswith;"#,
            vec![c("ab", "depth 4; endswith")],
            b"xabxxab",
            false,
        ),
    ]);
}

#[test]
fn relative_contents() {
    let three = |d| vec![c("abc", ""), c("def", d)];
    check(&[
        (r#"content:"abc"; content:"def"; distance:0;"#, three("distance 0"), b"abcdef", true),
        (r#"content:"abc"; content:"def"; distance:0;"#, three("distance 0"), b"defabc", false),
        (r#"content:"abc"; content:"def"; distance:0;"#, three("distance 0"), b"defabcxdef", true),
        (r#"content:"abc"; content:"def"; distance:1;"#, three("distance 1"), b"abcdef", false),
        (r#"content:"abc"; content:"def"; distance:1;"#, three("distance 1"), b"abcxxdef", true),
        (r#"content:"abc"; content:"def"; within:3;"#, three("within 3"), b"abcdef", true),
        (r#"content:"abc"; content:"def"; within:3;"#, three("within 3"), b"abcxdef", false),
        (r#"... distance:1; within:3;"#, three("distance 1; within 3"), b"abcxdef", true),
        (r#"... distance:1; within:3;"#, three("distance 1; within 3"), b"abcxxdef", false),
        (r#"... distance:-6;"#, three("distance -6"), b"defabc", true),
        (r#"... distance:-5;"#, three("distance -5"), b"defabc", false),
        (r#"... distance:-9;"#, three("distance -9"), b"defabc", true),
        (
            r#"content:"abc"; content:!"def"; within:3;"#,
            vec![c("abc", ""), c("!def", "within 3")],
            b"abcdef",
            false,
        ),
        (
            r#"content:"abc"; content:!"def"; within:3;"#,
            vec![c("abc", ""), c("!def", "within 3")],
            b"abcdef_abc",
            true,
        ),
        (
            r#"content:"abc"; content:!"def"; distance:1;"#,
            vec![c("abc", ""), c("!def", "distance 1")],
            b"abcdef",
            true,
        ),
        (
            r#"content:"Firefox/3."; content:!"Firefox/3.6.13"; distance:-10;"#,
            vec![c("Firefox/3.", ""), c("!Firefox/3.6.13", "distance -10")],
            b"x Firefox/3.6.13",
            false,
        ),
        (
            r#"content:"Firefox/3."; content:!"Firefox/3.6.13"; distance:-10;"#,
            vec![c("Firefox/3.", ""), c("!Firefox/3.6.13", "distance -10")],
            b"x Firefox/3.6.12",
            true,
        ),
        (r#"... distance:-6; within:3;"#, three("distance -6; within 3"), b"defabcdef", true),
        (r#"... distance:-6; within:3;"#, three("distance -6; within 3"), b"def_abc", false),
        // An end before the start bounds nothing.
        (r#"... distance:-10; within:5;"#, three("distance -10; within 5"), b"abcxdef", true),
        (r#"... distance:-10; within:7;"#, three("distance -10; within 7"), b"abcxdef", false),
        // A later place of the first, and of the one before that, is tried.
        (
            r#"content:"a"; content:"b"; within:1;"#,
            vec![c("a", ""), c("b", "within 1")],
            b"aaxab",
            true,
        ),
        (
            r#"content:"a"; content:"b"; distance:0; content:"c"; within:1;"#,
            vec![c("a", ""), c("b", "distance 0"), c("c", "within 1")],
            b"abxbxbc",
            true,
        ),
        (
            r#"content:"a"; content:"b"; within:2; content:"c"; within:1;"#,
            vec![c("a", ""), c("b", "within 2"), c("c", "within 1")],
            b"abxxaxbc",
            true,
        ),
        // A content that is not relative is searched from the start.
        (
            r#"content:"a"; content:"b"; content:"c"; within:1;"#,
            vec![c("a", ""), c("b", ""), c("c", "within 1")],
            b"bcxa",
            true,
        ),
    ]);
}

#[test]
fn expressions() {
    check(&[
        (
            r#"pcre:"/NICK .*USA.*[0-9]{3,}/i";"#,
            vec![p("/NICK .*USA.*[0-9]{3,}/i")],
            b"nick usa123",
            true,
        ),
        (
            r#"pcre:"/NICK .*USA.*[0-9]{3,}/i";"#,
            vec![p("/NICK .*USA.*[0-9]{3,}/i")],
            b"nick usa12",
            false,
        ),
        (r#"pcre:!"/ab/";"#, vec![p("!/ab/")], b"aab", false),
        (r#"pcre:!"/ab/";"#, vec![p("!/ab/")], b"ba", true),
        (r#"content:"a"; pcre:"/^b/R";"#, vec![c("a", ""), p("/^b/R")], b"axab", true),
        (r#"content:"a"; pcre:"/^b/R";"#, vec![c("a", ""), p("/^b/R")], b"bxa", false),
        (r#"content:"a"; pcre:!"/^b/R";"#, vec![c("a", ""), p("!/^b/R")], b"ab", false),
        (
            r#"pcre:"/a+/"; content:"b"; within:1;"#,
            vec![p("/a+/"), c("b", "within 1")],
            b"aacab",
            true,
        ),
        (
            r#"pcre:"/a+?/"; content:"b"; within:1;"#,
            vec![p("/a+?/"), c("b", "within 1")],
            b"aab",
            true,
        ),
        // The next match may end earlier than the first.
        (
            r#"pcre:"/ab.*c|b/"; isdataat:3,relative;"#,
            vec![p("/ab.*c|b/"), at("3,relative")],
            b"abxxc",
            true,
        ),
        // An anchored expression has one place only.
        (
            r#"pcre:"/ab/A"; content:"c"; within:1;"#,
            vec![p("/ab/A"), c("c", "within 1")],
            b"abxabc",
            false,
        ),
        (r#"pcre:"/b(?<=ab)/R";"#, vec![c("a", ""), p("/b(?<=ab)/R")], b"ab", false),
        (r#"pcre:"/a$/";"#, vec![p("/a$/")], b"a\n", true),
        (r#"pcre:"/a$/E";"#, vec![p("/a$/E")], b"a\n", false),
    ]);
}

#[test]
fn data_behind() {
    let after_c = |text| vec![c("c", ""), at(text)];
    check(&[
        ("isdataat:31;", vec![at("31")], &[0; 32], true),
        ("isdataat:32;", vec![at("32")], &[0; 32], false),
        ("isdataat:31,relative;", vec![at("31,relative")], &[0; 32], true),
        ("isdataat:32,relative;", vec![at("32,relative")], &[0; 32], true),
        ("isdataat:33,relative;", vec![at("33,relative")], &[0; 32], false),
        ("isdataat:7;", vec![at("7")], b"abcdefgh", true),
        ("isdataat:8;", vec![at("8")], b"abcdefgh", false),
        ("isdataat:!8;", vec![at("!8")], b"abcdefgh", true),
        (r#"content:"c"; isdataat:4,relative;"#, after_c("4,relative"), b"abcdefgh", true),
        (r#"content:"c"; isdataat:5,relative;"#, after_c("5,relative"), b"abcdefgh", true),
        (r#"content:"c"; isdataat:6,relative;"#, after_c("6,relative"), b"abcdefgh", false),
        (r#"content:"c"; isdataat:!1,relative;"#, after_c("!1,relative"), b"abcc", true),
        (r#"content:"c"; isdataat:!1,relative;"#, after_c("!1,relative"), b"abccx", false),
        ("bsize:3;", vec![PayloadTest::Bsize(span(3, 3))], b"abc", true),
        ("bsize:<3;", vec![PayloadTest::Bsize(span(0, 2))], b"abc", false),
    ]);
}

#[test]
fn numbers() {
    const BYTES: &[u8] = b"\x00\x01\x00\x02\x05";
    let four = || c("\x00\x01\x00\x02", "");
    let relative = "relative";
    check(&[
        ("byte_test:2,=,0x01,0;", vec![four(), test(number("2", "0", ""), "=", "1")], BYTES, true),
        ("byte_test:2,!=,0x06,0;", vec![four(), test(number("2", "0", ""), "!", "6")], BYTES, true),
        (
            "byte_test:2,!=,0x01,0;",
            vec![four(), test(number("2", "0", ""), "!", "1")],
            BYTES,
            false,
        ),
        (
            "byte_test:2,<=,0x01,0,little;",
            vec![test(number("2", "0", "little"), "<=", "1")],
            BYTES,
            false,
        ),
        (
            "byte_test:1,&,0x01,0,relative;",
            vec![four(), test(number("1", "0", relative), "&", "1")],
            BYTES,
            true,
        ),
        (
            "byte_test:1,!&,0x01,0,relative;",
            vec![four(), test(number("1", "0", relative), "!&", "1")],
            BYTES,
            false,
        ),
        (
            "byte_test:1,^,5,0,relative;",
            vec![four(), test(number("1", "0", relative), "^", "5")],
            BYTES,
            false,
        ),
        (
            "byte_test:1,=,5,1,relative;",
            vec![four(), test(number("1", "1", relative), "=", "5")],
            BYTES,
            false,
        ),
        (
            "byte_test:1,=,2,-1,relative;",
            vec![four(), test(number("1", "-1", relative), "=", "2")],
            BYTES,
            true,
        ),
        (
            "byte_test:1,=,0,-5,relative;",
            vec![four(), test(number("1", "-5", relative), "=", "0")],
            BYTES,
            false,
        ),
        ("byte_test:1,>=,0,5;", vec![test(number("1", "5", ""), ">=", "0")], BYTES, false),
        (
            "byte_test:1,=,5,0,bitmask 0xf0;",
            vec![test(number("1", "0", "mask 0xf0"), "=", "5")],
            b"\x5a",
            true,
        ),
        (
            "byte_test:4,=,1337,1,relative,string,dec;",
            vec![c("foobar", ""), test(number("4", "1", "relative; dec"), "=", "1337")],
            b"foobar:1337",
            true,
        ),
        (
            "byte_test:4,=,12,0,string,dec;",
            vec![test(number("4", "0", "dec"), "=", "12")],
            b" 12x",
            true,
        ),
        (
            "byte_test:4,=,26,0,string,hex;",
            vec![test(number("4", "0", "hex"), "=", "26")],
            b"0x1A",
            true,
        ),
        (
            "byte_test:2,>,0,0,string,dec;",
            vec![test(number("2", "0", "dec"), ">", "0")],
            b"x1",
            false,
        ),
        ("byte_test:8,=,...;", vec![test(number("8", "0", ""), "=", "-1")], &[0xff; 8], true),
    ]);
}

#[test]
fn jumps() {
    use warpline_nids_rules::JumpFrom::{End, Start};
    let then = |jump, modifiers| vec![jump, c("x", modifiers)];
    let one = || number("1", "0", "");
    check(&[
        (
            r#"byte_jump:1,0; content:"x"; within:1;"#,
            then(jump(one()), "within 1"),
            b"\x02abx",
            true,
        ),
        (
            r#"byte_jump:1,0; content:"x"; within:1;"#,
            then(jump(one()), "within 1"),
            b"\x01abx",
            false,
        ),
        ("byte_jump:1,0;", vec![jump(one())], b"\x02ab", true),
        ("byte_jump:1,0;", vec![jump(one())], b"\x03ab", false),
        (
            "byte_jump:1,0,from_beginning;",
            then(jump_from(one(), Start, "0"), "within 1"),
            b"\x02ax",
            true,
        ),
        (
            "byte_jump:1,0,from_end,post_offset -3;",
            then(jump_from(one(), End, "-3"), "within 1"),
            b"\x01abxy",
            true,
        ),
        ("byte_jump:1,0,from_end;", vec![jump_from(one(), End, "0")], b"\x01", false),
        (
            "byte_jump:1,0,post_offset -9;",
            then(jump_from(one(), Start, "-9"), "distance 0"),
            b"\x03xa",
            true,
        ),
        (
            "byte_jump:1,0,post_offset -9;",
            then(jump_from(one(), Start, "-9"), "distance 2"),
            b"\x03xa",
            false,
        ),
        (
            "byte_jump:0,0,from_end,post_offset -1;",
            then(jump_from(number("0", "0", ""), End, "-1"), "within 1"),
            b"aax",
            true,
        ),
        // The end of a number as text is the end of its digits.
        (
            "byte_jump:3,0,string,dec;",
            then(jump(number("3", "0", "dec")), "within 1"),
            b"1 _xx",
            false,
        ),
        (
            "byte_jump:3,0,string,dec;",
            then(jump(number("3", "0", "dec")), "within 1"),
            b"1 x__",
            true,
        ),
        (
            r#"byte_jump:1,0,multiplier 2,align; content:"x"; within:1;"#,
            then(
                PayloadTest::ByteJump {
                    number: one(),
                    multiplier: 2,
                    is_aligned: true,
                    from: warpline_nids_rules::JumpFrom::Here,
                    post_offset: value("0"),
                },
                "within 1",
            ),
            b"\x01abcdx",
            true,
        ),
    ]);
}

#[test]
fn variables() {
    let x = || extract(number("1", "0", ""), 0);
    let sum = |with| math(number("1", "1", ""), MathOperator::Add, with, 1);
    check(&[
        (
            r#"byte_extract:1,0,x; content:"a"; offset:x;"#,
            vec![x(), c("a", "offset x0")],
            b"\x03aba",
            true,
        ),
        (
            r#"byte_extract:1,0,x; content:"a"; offset:x;"#,
            vec![x(), c("a", "offset x0")],
            b"\x04aba",
            false,
        ),
        (
            r#"... content:"a"; offset:1; depth:x;"#,
            vec![x(), c("a", "offset 1; depth x0")],
            b"\x02ba",
            true,
        ),
        (
            r#"... content:"a"; offset:1; depth:x;"#,
            vec![x(), c("a", "offset 1; depth x0")],
            b"\x02bba",
            false,
        ),
        (r#"... content:"a"; distance:x;"#, vec![x(), c("a", "distance x0")], b"\x01aba", true),
        (
            r#"... content:"a"; distance:x; within:x;"#,
            vec![x(), c("a", "distance x0; within x0")],
            b"\x01ba",
            true,
        ),
        (
            r#"... content:"a"; distance:x; within:x;"#,
            vec![x(), c("a", "distance x0; within x0")],
            b"\x01aba",
            false,
        ),
        (
            "... byte_test:1,=,x,1;",
            vec![x(), test(number("1", "1", ""), "=", "x0")],
            b"\x05\x05",
            true,
        ),
        (
            "... byte_test:1,=,3,x;",
            vec![x(), test(number("1", "x0", ""), "=", "3")],
            b"\x02\x05\x03",
            true,
        ),
        (
            "... byte_test:x,=,0x0102,1;",
            vec![x(), test(number("x0", "1", ""), "=", "258")],
            b"\x02\x01\x02",
            true,
        ),
        (
            "... byte_test:x,>=,0,0;",
            vec![x(), test(number("x0", "0", ""), ">=", "0")],
            b"\x0900000000",
            false,
        ),
        ("... isdataat:x;", vec![x(), at("x0")], b"\x02ab", true),
        ("... isdataat:!x,relative;", vec![x(), at("!x0,relative")], b"\x02a", true),
        (
            "byte_math ... +; byte_test =,y;",
            vec![x(), sum("x0"), test(number("1", "2", ""), "=", "x1")],
            b"\x02\x03\x05",
            true,
        ),
        (
            "byte_math ... /0;",
            vec![math(number("1", "0", ""), MathOperator::Div, "0", 0)],
            b"\x01",
            false,
        ),
        // An extraction of a later place of a content is tried too, though what uses it does not
        // count from there.
        (
            r#"content:"a"; byte_extract:1,0,x,relative; byte_test:1,=,x,0;"#,
            vec![
                c("a", ""),
                extract(number("1", "0", "relative"), 0),
                test(number("1", "0", ""), "=", "x0"),
            ],
            b"\x02a\x01a\x02",
            true,
        ),
        // A value extracted at a place where later tests failed is discarded.
        (
            r#"byte_extract:1,0,x; content:"a"; byte_extract:1,x,x,relative; byte_test:1,=,x,1;"#,
            vec![
                x(),
                c("a", ""),
                extract(number("1", "x0", "relative"), 0),
                test(number("1", "1", ""), "=", "x0"),
            ],
            b"\x00\x07a\x05a\x07",
            true,
        ),
    ]);
}

/// Of a stream, what counts from the start counts from its beginning, which may have left the
/// window.
#[test]
fn windows_of_streams() {
    let cases: Vec<(Vec<PayloadTest>, &[u8], u64, bool)> = vec![
        (vec![c("abc", "")], b"xabc", 1000, true),
        (vec![c("abc", "startswith")], b"abc", 1000, false),
        (vec![c("abc", "depth 10")], b"abc", 7, true),
        (vec![c("abc", "depth 10")], b"abc", 8, false),
        (vec![c("abc", "offset 10")], b"xabc", 9, true),
        (vec![c("abc", "offset 10")], b"abc", 9, false),
        (vec![c("!abc", "startswith")], b"xyz", 3, false),
        (vec![c("!abc", "")], b"xyz", 3, true),
        (vec![c("!abc", "")], b"abc", 3, false),
        (vec![c("a", ""), c("b", "within 1")], b"xab", 1000, true),
        (vec![c("b", "endswith")], b"xab", 1000, true),
        (vec![test(number("1", "5", ""), "=", "97")], b"ba", 4, true),
        (vec![test(number("1", "3", ""), "=", "97")], b"aa", 4, false),
        (vec![at("5")], b"ab", 4, true),
        (vec![at("6")], b"ab", 4, false),
        (vec![PayloadTest::Bsize(span(6, 6))], b"ab", 4, true),
        (vec![c("a", ""), p("/^b/R")], b"ab", 1000, true),
        (
            vec![
                jump_from(number("1", "4", ""), warpline_nids_rules::JumpFrom::Start, "0"),
                c("b", "distance 0"),
            ],
            b"\x01b",
            4,
            true,
        ),
    ];
    for (tests, bytes, start, expected) in cases {
        assert_eq!(holds_in(&tests, bytes, start), expected, "{tests:?} on {bytes:?} from {start}");
    }
}
