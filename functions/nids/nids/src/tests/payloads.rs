//! Options on payloads, with the examples of the manual's chapters "Payload Keywords" and "Fast
//! Pattern". Each case runs in a UDP datagram, a TCP segment, and a TCP stream cut at every place,
//! over both versions of IP and in both directions.

use super::frames::{Frame, Talk};
use super::run::run;

/// Options of a rule, a payload, and whether they match.
type Case = (&'static str, &'static [u8], bool);

/// Cases whose result does not change when more data follows in the stream.
const GROWING: &[Case] = &[
    (r#"content:"abc";"#, b"xxabcxx", true),
    (r#"content:"abc";"#, b"xxabxcx", false),
    (r#"content:"abc"; nocase;"#, b"xxAbCxx", true),
    (r#"content:"a|20|b|0d 0a|";"#, b"..a b\r\n", true),
    (r#"content:"a\;b\"c\\d\:";"#, br#"a;b"c\d:"#, true),
    (r#"content:"|41|bc"; content:"xyz";"#, b"xyz Abc", true),
    (r#"content:"def"; offset:3;"#, b"abcdef", true),
    (r#"content:"def"; offset:4;"#, b"abcdef", false),
    (r#"content:"def"; offset:3; depth:3;"#, b"abcdefghi", true),
    (r#"content:"def"; offset:2; depth:3;"#, b"abcdefghi", false),
    (r#"content:"abc"; depth:3;"#, b"abcdef", true),
    (r#"content:"abc"; depth:3;"#, b"xabcdef", false),
    (r#"content:"GET|20|"; startswith;"#, b"GET /a", true),
    (r#"content:"GET|20|"; startswith;"#, b"xGET /a", false),
    (r#"content:"abc"; content:"klm"; distance:0;"#, b"abcdefghijklm", true),
    (r#"content:"abc"; content:"klm"; distance:7;"#, b"abcdefghijklm", true),
    (r#"content:"abc"; content:"klm"; distance:8;"#, b"abcdefghijklm", false),
    (r#"content:"abc"; content:"klm"; distance:0; within:10;"#, b"abcdefghijklm", true),
    (r#"content:"abc"; content:"klm"; distance:0; within:9;"#, b"abcdefghijklm", false),
    (r#"content:"def"; content:"abc"; distance:-6; within:3;"#, b"abcdef", true),
    (r#"content:"a"; content:"b"; distance:0; content:"c"; within:1;"#, b"a b b bc", true),
    (r#"content:"a"; content:"b"; within:1; content:"c"; within:1;"#, b"ab abxabc", true),
    (r#"content:"uri"; fast_pattern; content:"abcdefg";"#, b"abcdefg uri", true),
    (r#"content:"uri"; fast_pattern:only; content:"abc";"#, b"abc uri", true),
    (r#"content:"uri"; fast_pattern:only; content:"abc";"#, b"abc irx", false),
    (r#"content:"aaaaaaaaabc"; fast_pattern:8,3;"#, b"aaaaaaaaabc", true),
    (r#"content:"aaaaaaaaabc"; depth:11; fast_pattern:8,3;"#, b"aaaaaaaaabc", true),
    (r#"content:"aaaaaaaaabc"; depth:11; fast_pattern:8,3;"#, b".aaaaaaaaabc", false),
    (r#"content:"aaaaaaaaabc"; fast_pattern:8,3;"#, b"aaaaaaaabc", false),
    (r#"content:"abc"; rawbytes;"#, b"abc", true),
    (r#"content:"abc"; isdataat:3,relative;"#, b"abcxyz", true),
    (r#"content:"abc"; isdataat:5,relative;"#, b"abcxyz", false),
    (r#"isdataat:5;"#, b"abcdef", true),
    (r#"isdataat:6;"#, b"abcdef", false),
    (r#"pcre:"/ab+c/";"#, b"xxabbbc", true),
    (r#"pcre:"/AB+C/i";"#, b"xxabbbc", true),
    (r#"pcre:"/a.c/";"#, b"a\nc", false),
    (r#"pcre:"/a.c/s";"#, b"a\nc", true),
    (r#"pcre:"/^bcd/";"#, b"a\nbcd", false),
    (r#"pcre:"/^bcd/m";"#, b"a\nbcd", true),
    (r#"pcre:"/bcd/A";"#, b"abcd", false),
    (r#"pcre:"/a b/x";"#, b"ab", true),
    (r#"content:"abc"; pcre:"/^\d+,/R";"#, b"12, abc345,", true),
    (r#"content:"abc"; pcre:"/^\d+,/R";"#, b"345, abc,", false),
    (r#"content:"abc"; pcre:"/\d/R"; content:"z"; within:1;"#, b"abc1 2z", true),
    (r#"content:"|00 01|"; byte_test:2,>,1000,2,relative;"#, b"\x00\x01..\x03\xe9", true),
    (r#"content:"|00 01|"; byte_test:2,>,1001,2,relative;"#, b"\x00\x01..\x03\xe9", false),
    (r#"byte_test:2,=,0x0100,0,little;"#, b"\x00\x01", true),
    (r#"content:"."; byte_test:4,=,1337,0,relative,string,dec;"#, b".1337x", true),
    (r#"byte_test:4,=,1337,0,string,hex;"#, b"1337", false),
    (r#"byte_test:1,&,0x80,0;"#, b"\xc0", true),
    (r#"byte_test:1,!&,0x80,0;"#, b"\x40", true),
    (r#"byte_test:2,=,0x0a,0,bitmask 0x0ff0;"#, b"\x00\xa0", true),
    (
        r#"content:"Alice"; byte_jump:1,0,relative; content:"Bob"; within:3;"#,
        b"Alice\x02..Bob",
        true,
    ),
    (
        r#"content:"Alice"; byte_jump:1,0,relative; content:"Bob"; within:3;"#,
        b"Alice\x03..Bob",
        false,
    ),
    (r#"byte_jump:1,0,multiplier 2; content:"Bob"; within:3;"#, b"\x02....Bob", true),
    (r#"byte_jump:1,0,align; content:"Bob"; distance:0; within:3;"#, b"\x03....Bob", true),
    (r#"byte_jump:1,4,from_beginning,post_offset 1; content:"Bob"; within:3;"#, b"..Bob", false),
    (r#"byte_jump:1,0,from_beginning,post_offset 1; content:"Bob"; within:3;"#, b"\x01.Bob", true),
    (r#"byte_extract:1,0,n; content:"ab"; offset:n;"#, b"\x04xxxab", true),
    (r#"byte_extract:1,0,n; content:"ab"; offset:n;"#, b"\x05xxxab", false),
    (r#"byte_extract:1,0,n; content:"ab"; distance:n; within:2;"#, b"\x02..ab", true),
    (r#"byte_extract:1,0,n; byte_test:1,=,n,1;"#, b"\x05\x05", true),
    (r#"byte_extract:1,0,n; byte_test:1,=,n,1;"#, b"\x05\x06", false),
    (r#"byte_extract:1,0,n; byte_jump:1,n; content:"z"; within:1;"#, b"\x02..\x00z", false),
    (r#"byte_extract:1,0,n; content:"x"; isdataat:n,relative;"#, b"\x03x...", true),
    (r#"byte_extract:1,0,n,multiplier 2; content:"ab"; offset:n;"#, b"\x02..ab", false),
    (
        r#"byte_math:bytes 1, offset 0, oper +, rvalue 2, result r; content:"ab"; offset:r;"#,
        b"\x01..ab",
        true,
    ),
    (
        r#"byte_math:bytes 1, offset 0, oper *, rvalue 2, result r; content:"ab"; offset:r;"#,
        b"\x02..ab",
        false,
    ),
    (
        "byte_extract:1,0,n; byte_math:bytes 1, offset 1, oper -, rvalue n, result r; \
         byte_test:1,=,r,2;",
        b"\x01\x05\x04",
        true,
    ),
    (
        "byte_math:bytes 1, offset 0, oper -, rvalue 3, result r; byte_jump:1,1,post_offset r; \
         content:\"|01|\"; within:1;",
        b"\x01\x01",
        true,
    ),
];

/// Cases that depend on the end of the payload, or on bytes missing from it.
const WHOLE: &[Case] = &[
    (r#"content:"abc"; content:!"def";"#, b"abcxef", true),
    (r#"content:"abc"; content:!"def";"#, b"abc def", false),
    (r#"content:"abc"; content:!"def"; within:3;"#, b"abcdef abc", true),
    (r#"content:"abc"; content:!"def"; within:3;"#, b"abcdef", false),
    (r#"content:!"GET"; depth:3;"#, b"POST", true),
    (r#"content:!"GET"; depth:3;"#, b"GET /", false),
    (r#"content:".php"; endswith;"#, b"/a.php", true),
    (r#"content:".php"; endswith;"#, b"/a.phpx", false),
    (r#"content:"abc"; startswith; endswith;"#, b"abc", true),
    (r#"content:"abc"; startswith; endswith;"#, b"abcabc", false),
    (r#"content:"abc"; isdataat:!1,relative;"#, b"xabc", true),
    (r#"content:"abc"; isdataat:!1,relative;"#, b"xabcd", false),
    (r#"isdataat:!6;"#, b"abcdef", true),
    (r#"bsize:6;"#, b"abcdef", true),
    (r#"bsize:>6;"#, b"abcdef", false),
    (r#"bsize:2<>8;"#, b"abcdef", true),
    (r#"dsize:6;"#, b"abcdef", true),
    (r#"dsize:!6;"#, b"abcdef", false),
    (r#"dsize:>5; content:"c";"#, b"abcdef", true),
    (r#"dsize:4<>8;"#, b"abcdef", true),
    (r#"dsize:6<>8;"#, b"abcdef", false),
    (r#"pcre:!"/x/";"#, b"abc", true),
    (r#"pcre:!"/b/";"#, b"abc", false),
    (r#"pcre:"/abc$/";"#, b"abc\n", true),
    (r#"pcre:"/abc$/E";"#, b"abc\n", false),
    (r#"byte_jump:1,0,from_end,post_offset -6; content:"c"; within:1;"#, b"\x02abcdef", true),
    (r#"byte_jump:1,0,from_end,post_offset -6; content:"c"; within:1;"#, b"\x02abcde", false),
];

/// A rule of each case, for its own port.
fn rules(protocol: &str, cases: &[Case]) -> String {
    let rule = |(at, case): (usize, &Case)| {
        let (sid, port) = (at + 1, 1000 + at);
        format!("alert {protocol} any any <> any {port} ({} sid:{sid};)\n", case.0)
    };
    cases.iter().enumerate().map(rule).collect()
}

/// A frame of nothing for each case, on its port.
fn likes(cases: &[Case], is_v6: bool) -> impl Iterator<Item = (Frame, &Case)> {
    cases.iter().enumerate().map(move |(at, case)| {
        let like = Frame::udp(b"").ports([40_000, 1000 + at as u16]);
        (if is_v6 { like.v6() } else { like }, case)
    })
}

/// Each rule must match exactly the cases that expect it, given one run of frames for each.
fn check(protocol: &str, cases: &[Case], frames: &[Frame], what: &str) {
    let found = run(&rules(protocol, cases), "", frames).sids();
    let mut wrong = Vec::new();
    for (at, (options, payload, expected)) in cases.iter().enumerate() {
        if found.contains(&(at as u32 + 1)) != *expected {
            wrong.push(format!("{options} on {}: not {expected}", payload.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
}

#[test]
fn match_datagrams() {
    for cases in [GROWING, WHOLE] {
        for is_v6 in [false, true] {
            let of = |(like, case): (Frame, &Case)| Frame { payload: case.1.to_vec(), ..like };
            let frames: Vec<Frame> = likes(cases, is_v6).map(of).collect();
            check("udp", cases, &frames, "UDP");
            check("ip", cases, &frames, "IP");
        }
    }
}

/// The conversations of all cases; one end sends the payload in pieces that `cut` gives.
fn talks(cases: &[Case], is_v6: bool, end: usize, cut: impl Fn(usize) -> Vec<usize>) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (like, (_, payload, _)) in likes(cases, is_v6) {
        let mut talk = Talk::new(&like);
        let mut from = 0;
        for to in cut(payload.len()).into_iter().chain([payload.len()]) {
            let to = to.clamp(from, payload.len());
            if to > from {
                talk.send(end, super::frames::ACK, &payload[from..to]);
            }
            from = to;
        }
        frames.append(&mut talk.frames);
    }
    frames
}

#[test]
fn match_segments() {
    for cases in [GROWING, WHOLE] {
        for (is_v6, end) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let frames = talks(cases, is_v6, end, |_| Vec::new());
            check("tcp", cases, &frames, "a segment");
            check("tcp-pkt", cases, &frames, "a segment alone");
        }
    }
}

#[test]
fn match_streams_cut_anywhere() {
    let longest = GROWING.iter().map(|case| case.1.len()).max().unwrap();
    for at in 0..longest {
        let frames = talks(GROWING, at % 2 == 1, at / 2 % 2, |_| vec![at]);
        check("tcp-stream", GROWING, &frames, "two segments");
    }
    for end in [0, 1] {
        let frames = talks(GROWING, false, end, |len| (1..len).collect());
        check("tcp-stream", GROWING, &frames, "single bytes");
    }
}

/// After a content, `isdataat:!1,relative` requires that nothing follows. After a negated content,
/// it requires that the content is not at the end.
#[test]
fn contents_at_the_end() {
    for (option, payload, expected) in [
        ("content:\"ab\"; isdataat:!1,relative;", &b"xxab"[..], true),
        ("content:\"ab\"; isdataat:!1,relative;", b"abxx", false),
        ("content:\"ab\"; isdataat:!1,relative;", b"abab", true),
        ("content:!\"ab\"; isdataat:!1,relative;", b"xxab", false),
        ("content:!\"ab\"; isdataat:!1,relative;", b"abxx", true),
        ("content:\"x\"; content:!\"ab\"; isdataat:!1,relative;", b"xabx", true),
        ("content:\"x\"; content:!\"ab\"; isdataat:!1,relative;", b"xxab", false),
        ("byte_test:0,=,17,2,string;", b"xx17,18", true),
        ("byte_test:0,=,16,0,string;", b"0x10", true),
        ("byte_test:3,=,9,0,string;", b"0119", true),
        ("byte_jump:1,0,string; content:\"ab\"; within:2;", b"3xxxab", true),
        ("content:\"ab\"; tag:session,10,packets;", b"ab", true),
        ("content:\"ab\"; tag:host,600,seconds,src;", b"ab", true),
    ] {
        let rule = format!("alert udp any any -> any any ({option} sid:1;)\n");
        let reported = run(&rule, "", &[Frame::udp(payload)]).alerts;
        assert_eq!(!reported.is_empty(), expected, "{option} {}", payload.escape_ascii());
    }
}

/// Literals with one place: at more offsets than are looked at apart, of one byte, in either case,
/// at several places, and elsewhere as well in another rule.
#[test]
fn contents_with_a_place_are_found_there() {
    let spread = (0..12).map(|at| (format!("{}x", char::from(b'b' + at)), Some(usize::from(at))));
    let others = [("z", Some(0)), ("#y", Some(1)), ("#y", Some(4)), ("qq", Some(2)), ("qq", None)];
    let others = others.map(|(text, place)| (text.to_owned(), place));
    let contents: Vec<(String, Option<usize>)> = spread.chain(others).collect();
    let rule = |protocol: &str, sid: usize, (text, place): &(String, Option<usize>)| {
        let place = place.map_or(String::new(), |at| format!("offset:{at}; depth:{};", text.len()));
        format!(
            "alert {protocol} any any -> any any (dsize:<99; content:\"{text}\"; nocase; {place} \
             sid:{sid};)\n"
        )
    };
    let rules = |protocol: &str| -> String {
        (1..).zip(&contents).map(|(sid, own)| rule(protocol, sid, own)).collect()
    };
    let stands = |payload: &str, (text, place): &(String, Option<usize>)| match place {
        Some(at) => payload.get(*at..).is_some_and(|rest| rest.starts_with(text.as_str())),
        None => payload.contains(text.as_str()),
    };
    let texts = contents.iter().map(|(text, _)| text.as_str()).chain(["", ".", "zqqqq", "z#y.#y"]);
    let payloads: Vec<String> = texts
        .flat_map(|text| {
            (0..14).map(move |at| format!("{}{text}{}", ".".repeat(at), "-".repeat(at % 3)))
        })
        .filter(|payload| !payload.is_empty())
        .collect();
    let upper = |payload: &String| payload.to_ascii_uppercase().into_bytes();
    let datagrams: Vec<Frame> = payloads.iter().map(|own| Frame::udp(&upper(own))).collect();
    let mut talk = Talk::new(&Frame::udp(b""));
    for payload in &payloads {
        talk.client(&upper(payload));
    }
    let first = talk.frames.len() - payloads.len();
    for (protocol, frames, first) in [("udp", &datagrams, 0), ("tcp", &talk.frames, first)] {
        let mut found = run(&rules(protocol), "", frames).alerts;
        found.sort_unstable();
        let expected: Vec<(usize, u32)> = (first..)
            .zip(&payloads)
            .flat_map(|(place, payload)| {
                let held = (1..).zip(&contents).filter(|(_, own)| stands(payload, own));
                held.map(move |(sid, _)| (place, sid))
            })
            .collect();
        assert_eq!(found, expected, "{protocol}");
    }
}
