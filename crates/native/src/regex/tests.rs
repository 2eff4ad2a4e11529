//! Expressions with the matches in Perl's manual; expressions that explode; threads.

use super::*;

fn find(pattern: &str, letters: &str, subject: &[u8], start: usize) -> RegexResult {
    let regex =
        Regex::new(pattern.as_bytes(), flags(letters), Limits::default()).expect("an expression");
    regex.find_at(&mut Match::new().expect("memory"), subject, start)
}

fn flags(letters: &str) -> Flags {
    let has = |letter| letters.contains(letter);
    Flags {
        caseless: has('i'),
        dotall: has('s'),
        multiline: has('m'),
        extended: has('x'),
        anchored: has('A'),
        dollar_endonly: has('E'),
        ungreedy: has('G'),
    }
}

#[test]
fn finds_what_perl_finds() {
    let cases: &[(&str, &str, &[u8], usize, RegexResult)] = &[
        ("b+", "", b"abbc", 0, RegexResult::Match(1..3)),
        ("b+", "", b"abbc", 2, RegexResult::Match(2..3)),
        ("b+", "", b"abbc", 3, RegexResult::None),
        ("b+", "", b"abbc", 4, RegexResult::None),
        ("b+", "", b"abbc", 5, RegexResult::None),
        ("", "", b"", 0, RegexResult::Match(0..0)),
        ("ABC", "i", b"xabc", 0, RegexResult::Match(1..4)),
        ("a.b", "", b"a\nb", 0, RegexResult::None),
        ("a.b", "s", b"a\nb", 0, RegexResult::Match(0..3)),
        ("^b", "", b"a\nb", 0, RegexResult::None),
        ("^b", "m", b"a\nb", 0, RegexResult::Match(2..3)),
        ("^b", "", b"ab", 1, RegexResult::None),
        ("a b # c", "x", b"ab", 0, RegexResult::Match(0..2)),
        ("b", "A", b"ab", 0, RegexResult::None),
        ("b", "A", b"ab", 1, RegexResult::Match(1..2)),
        ("a$", "", b"a\n", 0, RegexResult::Match(0..1)),
        ("a$", "E", b"a\n", 0, RegexResult::None),
        ("a+", "G", b"aaa", 0, RegexResult::Match(0..1)),
        ("a+?", "G", b"aaa", 0, RegexResult::Match(0..3)),
        ("(?<=a)b", "", b"ab", 1, RegexResult::Match(1..2)),
        (r"(a)(b)\1", "", b"xaba", 0, RegexResult::Match(1..4)),
        (r"\xff\x00", "", b"\xff\xff\0", 0, RegexResult::Match(1..3)),
        (r"(?:\x90){3}", "", b"\x90\x90\x90", 0, RegexResult::Match(0..3)),
        (r"ab\Kc", "", b"abc", 0, RegexResult::Match(2..3)),
    ];
    for (pattern, letters, subject, start, expected) in cases {
        let found = find(pattern, letters, subject, *start);
        assert_eq!(&found, expected, "/{pattern}/{letters} over {subject:?} from {start}");
    }
}

#[test]
fn gives_up_on_expressions_that_explode() {
    let subject = [b"a".repeat(64), b"!".to_vec()].concat();
    for pattern in ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){20}[bc]", "(a*?)*?[bc]"] {
        assert_eq!(find(pattern, "", &subject, 0), RegexResult::Limit, "{pattern}");
    }
    let deep = [b"(".repeat(40_000), b")".repeat(40_000)].concat();
    assert!(matches!(find(r"^(\((?1)*\))$", "", &deep, 0), RegexResult::Limit));
}

#[test]
fn says_what_is_wrong() {
    // Where exactly an error is placed differs between versions.
    for (pattern, offsets) in [
        ("a(b", 3..=3),
        ("a[b", 3..=3),
        ("*", 0..=1),
        ("(?P<a", 5..=5),
        (r"\1", 1..=2),
        ("a{2,1}", 5..=6),
    ] {
        let regex = Regex::new(pattern.as_bytes(), Flags::default(), Limits::default());
        let error = regex.expect_err(pattern);
        assert!(offsets.contains(&error.offset), "{pattern}: {error}");
        assert!(!error.message.is_empty());
    }
    assert!(Regex::new(b"(*UTF)a", Flags::default(), Limits::default()).is_err());
}

#[test]
fn is_shared_by_threads() {
    let regex = Regex::new(b"(\\d+)x", Flags::default(), Limits::default()).expect("an expression");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let regex = &regex;
            scope.spawn(move || {
                let mut memory = Match::new().expect("memory");
                let subject = format!("{}12x", "y".repeat(number));
                for _ in 0..1000 {
                    assert_eq!(
                        regex.find_at(&mut memory, subject.as_bytes(), 0),
                        RegexResult::Match(number..number + 3)
                    );
                }
            });
        }
    });
}

#[test]
fn runs_as_machine_code_where_it_can() {
    let regex = Regex::new(b"a+b", Flags::default(), Limits::default()).expect("an expression");
    assert_eq!(
        regex.is_jit(),
        cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))
    );
}
