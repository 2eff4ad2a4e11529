//! Options and their meaning.

use core::net::Ipv4Addr;
use std::sync::Arc;

use super::*;

fn suricata(text: &str) -> Rule {
    options(text, Dialect::Suricata)
}

fn span<T>(min: T, max: T) -> Span<T> {
    Span { min, max, is_negated: false }
}

fn not<T: Copy>(number: T) -> Span<T> {
    Span { min: number, max: number, is_negated: true }
}

fn flags(how: BitsHow, bits: u8, ignored: u8) -> PacketTest {
    PacketTest::TcpFlags { bits: Bits { how, bits }, ignored }
}

#[test]
fn packets() {
    use PacketTest::*;
    for (text, test) in [
        ("dsize:10;", Dsize(span(10, 10))),
        ("dsize:<10;", Dsize(span(0, 9))),
        ("dsize:>=10;", Dsize(span(10, u16::MAX))),
        ("dsize:8<>20;", Dsize(span(9, 19))),
        ("dsize:!9;", Dsize(not(9))),
        ("ttl:10;", Ttl(span(10, 10))),
        ("TTL : <5 ;", Ttl(span(0, 4))),
        ("ipopts: ts;", IpOption(Some(68))),
        ("ipopts:any;", IpOption(None)),
        ("sameip;", SameIp),
        ("ip_proto:1;", IpProto(vec![span(1, 1)])),
        ("ip_proto:ICMP;", IpProto(vec![span(1, 1)])),
        ("ip_proto:!6; ip_proto:!17; ip_proto:<50;", IpProto(vec![not(6), not(17), span(0, 49)])),
        ("id:1;", Id(span(1, 1))),
        ("fragbits:M;", FragBits(Bits { how: BitsHow::Exactly, bits: 1 })),
        ("fragbits:+RD;", FragBits(Bits { how: BitsHow::AllAndMore, bits: 6 })),
        ("fragbits:!D;", FragBits(Bits { how: BitsHow::NotAll, bits: 2 })),
        ("fragoffset:>0;", FragOffset(span(1, u16::MAX))),
        ("tos:8;", Tos(span(8, 8))),
        ("tos:!8;", Tos(not(8))),
        ("tos:x88;", Tos(span(0x88, 0x88))),
        ("seq:0;", Seq(span(0, 0))),
        ("ack:1;", Ack(span(1, 1))),
        ("window:!55808;", Window(not(55808))),
        ("tcp.mss:<536;", Mss(span(0, 535))),
        ("tcp.flags:FPU,CE;", flags(BitsHow::Exactly, 0x29, 0xc0)),
        ("flags:S,12;", flags(BitsHow::Exactly, 0x02, 0xc0)),
        ("flags:0;", flags(BitsHow::Exactly, 0, 0)),
        ("flags:AP+;", flags(BitsHow::All, 0x18, 0)),
        ("flags:*SF;", flags(BitsHow::Any, 0x03, 0)),
        ("flags:!R;", flags(BitsHow::NotAll, 0x04, 0)),
        ("itype:>10;", IcmpType(span(11, u8::MAX))),
        ("icode:0;", IcmpCode(span(0, 0))),
        ("icmp_id:0;", IcmpId(span(0, 0))),
        ("icmp_seq:0x10;", IcmpSeq(span(16, 16))),
    ] {
        assert_eq!(suricata(text).packet, [test], "{text}");
    }
    let snort = options("dsize:300<>400; ttl:3-5; fragbits:M+;", Dialect::Snort).packet;
    let bits = FragBits(Bits { how: BitsHow::All, bits: 1 });
    assert_eq!(snort, [Dsize(span(300, 400)), Ttl(span(3, 5)), bits]);
}

fn content(bytes: &[u8]) -> Content {
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

#[test]
fn contents() {
    let number = |n| Some(Value::Number(n));
    let plain = content;
    for (text, expected) in [
        (r#"content:"http|3A|//";"#, plain(b"http://")),
        (r#"content:"a|0D|bc";"#, plain(b"a\rbc")),
        (r#"content:"|61 0D 62 63|";"#, plain(b"a\rbc")),
        (r#"content:"a|0D|b|63|";"#, plain(b"a\rbc")),
        (r#"content:"|610d,62|";"#, plain(b"a\rb")),
        (r#"content:"\;\\\"\:";"#, plain(b";\\\":")),
        (r#"content : "ä" ;"#, plain("ä".as_bytes())),
        (
            r#"content:!"Firefox/3.6.13"; distance:-10;"#,
            Content { is_negated: true, distance: number(-10), ..plain(b"Firefox/3.6.13") },
        ),
        (r#"content:"abc"; nocase; rawbytes;"#, Content { is_nocase: true, ..plain(b"abc") }),
        (
            r#"content:"def"; offset:3; depth:3;"#,
            Content { offset: number(3), depth: number(3), ..plain(b"def") },
        ),
        (r#"content:"GET|20|"; startswith;"#, Content { starts: true, ..plain(b"GET ") }),
        (r#"content:".php"; endswith;"#, Content { ends: true, ..plain(b".php") }),
        (
            r#"content:"abc"; distance:0; within:0x10;"#,
            Content { distance: number(0), within: number(16), ..plain(b"abc") },
        ),
        (
            r#"content:"abc"; fast_pattern;"#,
            Content { fast_pattern: Some(FastPattern::Whole), ..plain(b"abc") },
        ),
        (
            r#"content:"abc"; fast_pattern:only;"#,
            Content { fast_pattern: Some(FastPattern::Only), ..plain(b"abc") },
        ),
        (
            r#"content:"abcdef"; fast_pattern:1, 4;"#,
            Content { fast_pattern: Some(FastPattern::Part(1, 4)), ..plain(b"abcdef") },
        ),
    ] {
        assert_eq!(suricata(text).payload, [PayloadTest::Content(expected)], "{text}");
    }
    let raw =
        b"alert udp any any -> any any (content:\"\xe4\"; pcre:\"/\xe4/\"; msg:\"\xe4\"; sid:1;)";
    let raw = &read_text(raw, Dialect::Suricata).rules[0];
    assert_eq!(raw.payload[0], PayloadTest::Content(content(b"\xe4")));
    assert!(matches!(&raw.payload[1], PayloadTest::Pcre(p) if *p.pattern == *b"\xe4"));
    assert_eq!(&*raw.about.msg, "\u{fffd}");
    let snort = options(r#"content:"\.\|";"#, Dialect::Snort).payload;
    assert_eq!(snort, [PayloadTest::Content(content(b".|"))]);
}

#[test]
fn expressions() {
    let plain = Pcre {
        pattern: Arc::from(&b"NICK .*USA.*[0-9]{3,}"[..]),
        is_negated: false,
        is_caseless: true,
        is_dot_all: false,
        is_multi_line: false,
        is_extended: false,
        is_anchored: false,
        is_dollar_end: false,
        is_ungreedy: false,
        is_relative: false,
    };
    let with = |pattern: &str| Pcre {
        pattern: pattern.as_bytes().into(),
        is_caseless: false,
        ..plain.clone()
    };
    for (text, expected) in [
        (r#"pcre:"/NICK .*USA.*[0-9]{3,}/i";"#, plain.clone()),
        (r#"pcre:!"/[0-9]{6}/";"#, Pcre { is_negated: true, ..with("[0-9]{6}") }),
        (r#"pcre:/a\/b\;\x2f/RBO;"#, Pcre { is_relative: true, ..with(r"a\/b\;\x2f") }),
        (
            r#"pcre:"/^x/smxAEGi";"#,
            Pcre {
                is_caseless: true,
                is_dot_all: true,
                is_multi_line: true,
                is_extended: true,
                is_anchored: true,
                is_dollar_end: true,
                is_ungreedy: true,
                ..with("^x")
            },
        ),
    ] {
        assert_eq!(suricata(text).payload, [PayloadTest::Pcre(expected)], "{text}");
    }
}

fn number(bytes: i64, offset: i64, is_relative: bool, encoding: Encoding, mask: u32) -> Number {
    let (bytes, offset) = (Value::Number(bytes), Value::Number(offset));
    Number { bytes, offset, is_relative, encoding, mask }
}

#[test]
fn numbers_in_the_payload() {
    use Encoding::{Big, Little, Text};
    use PayloadTest::*;
    let test = |number, compare, is_negated, value| ByteTest {
        number,
        compare,
        is_negated,
        value: Value::Number(value),
    };
    let jump = |number, multiplier, is_aligned, from, post| ByteJump {
        number,
        multiplier,
        is_aligned,
        from,
        post_offset: Value::Number(post),
    };
    let at =
        |at, is_relative, is_negated| IsDataAt { at: Value::Number(at), is_relative, is_negated };
    for (text, expected) in [
        ("byte_test:2,=,0x01,0;", test(number(2, 0, false, Big, 0), Compare::Equal, false, 1)),
        ("byte_test:2,!=,0x06,0;", test(number(2, 0, false, Big, 0), Compare::Equal, true, 6)),
        ("byte_test:2,!,6,0;", test(number(2, 0, false, Big, 0), Compare::Equal, true, 6)),
        (
            "byte_test:2,>,1000,1,relative;",
            test(number(2, 1, true, Big, 0), Compare::Greater, false, 1000),
        ),
        (
            "byte_test:2, &, 0x01, -12, relative, little, bitmask 0xF0;",
            test(number(2, -12, true, Little, 0xf0), Compare::And, false, 1),
        ),
        (
            "byte_test:4,!^,1337,1,relative,string,dec;",
            test(number(4, 1, true, Text(10), 0), Compare::Xor, true, 1337),
        ),
        (
            "byte_test:8,>=,0xffffffffffffffff,0;",
            test(number(8, 0, false, Big, 0), Compare::GreaterEqual, false, -1),
        ),
        (
            "byte_test:0,>,5,0,relative,string;",
            test(number(0, 0, true, Text(ANY_BASE), 0), Compare::Greater, false, 5),
        ),
        (
            "byte_jump:10,0,string;",
            jump(number(10, 0, false, Text(ANY_BASE), 0), 1, false, JumpFrom::Here, 0),
        ),
        ("byte_jump:2,0;", jump(number(2, 0, false, Big, 0), 1, false, JumpFrom::Here, 0)),
        (
            "byte_jump:4,1,relative,multiplier 2,little,align,from_beginning,post_offset -3;",
            jump(number(4, 1, true, Little, 0), 2, true, JumpFrom::Start, -3),
        ),
        (
            "byte_jump:0,0,from_end,post_offset -6;",
            jump(number(0, 0, false, Big, 0), 1, false, JumpFrom::End, -6),
        ),
        (
            "byte_extract:2,0,size,little,multiplier 4,align 2;",
            ByteExtract {
                number: number(2, 0, false, Little, 0),
                multiplier: 4,
                align: 2,
                slot: 0,
            },
        ),
        (
            "byte_extract:3,-1,n,relative,string,hex;",
            ByteExtract {
                number: number(3, -1, true, Text(16), 0),
                multiplier: 1,
                align: 0,
                slot: 0,
            },
        ),
        (
            "byte_math:bytes 4, offset 0, oper +, rvalue 248, result var, relative;",
            ByteMath {
                number: number(4, 0, true, Big, 0),
                operator: MathOperator::Add,
                value: Value::Number(248),
                slot: 0,
            },
        ),
        (
            "byte_math:bytes 4,offset -2,oper >>,rvalue 3,result x,endian little,bitmask ff00;",
            ByteMath {
                number: number(4, -2, false, Little, 0xff00),
                operator: MathOperator::ShiftRight,
                value: Value::Number(3),
                slot: 0,
            },
        ),
        ("isdataat:512;", at(512, false, false)),
        ("isdataat:50, relative;", at(50, true, false)),
        ("isdataat:!1,relative,rawbytes;", at(1, true, true)),
        ("bsize:8<>20;", Bsize(span(9, 19))),
    ] {
        assert_eq!(suricata(text).payload, [expected], "{text}");
    }
    let snort = options("isdataat:!0,relative; isdataat:7;", Dialect::Snort).payload;
    assert_eq!(snort, [at(1, true, true), at(7, false, false)]);
}

#[test]
fn found_buffers_are_named() {
    let text = "byte_extract:1,0,a; byte_math:bytes 1, offset 1, oper *, rvalue a, result b; \
                byte_test:2,=,b,13; content:\"x\"; distance:a; within:b; content:\"y\"; offset:b; \
                depth:a; isdataat:b,relative; byte_test:a,=,1,b; byte_jump:2,a,post_offset b;";
    let rule = suricata(text);
    assert_eq!(rule.slots, 2);
    let named = |test: &PayloadTest| match test {
        PayloadTest::ByteMath { value, slot, .. } => vec![*value, Value::Slot(*slot)],
        PayloadTest::ByteTest { number, value, .. } => vec![number.bytes, number.offset, *value],
        PayloadTest::Content(c) => {
            [c.offset, c.depth, c.distance, c.within].into_iter().flatten().collect()
        }
        PayloadTest::IsDataAt { at, .. } => vec![*at],
        PayloadTest::ByteJump { number, post_offset, .. } => vec![number.offset, *post_offset],
        _ => vec![],
    };
    let (a, b, n) = (Value::Slot(0), Value::Slot(1), Value::Number);
    let found: Vec<_> = rule.payload.iter().map(named).collect();
    let expected = [
        vec![],
        vec![a, b],
        vec![n(2), n(13), b],
        vec![a, b],
        vec![b, a],
        vec![b],
        vec![a, b, n(1)],
        vec![a, b],
    ];
    assert_eq!(found, expected);
}

#[test]
fn flows() {
    let rule = suricata("flow:to_server, Established, only_stream; flow:no_frag;");
    let expected = FlowTests {
        to_server: Some(true),
        established: Some(true),
        stream: Some(true),
        fragments: Some(false),
        ..FlowTests::default()
    };
    assert_eq!(rule.flow, expected);
    let rule = suricata("flow:from_server,stateless;");
    assert_eq!((rule.flow.to_server, rule.flow.is_stateless), (Some(false), true));
    let bit = |text: &str| Name(draft::hash(draft::NameKind::FlowBit, text));
    let int = Name(draft::hash(draft::NameKind::FlowInt, "loginfail"));
    let compared = |min, max, is_negated| FlowTest::Int {
        name: int,
        span: Some(Span { min, max, is_negated }),
        is_set: true,
    };
    let host = Name(draft::hash(draft::NameKind::HostBit, "badssh"));
    let (track, is_set) = (XTrack::Source, true);
    for (text, test) in [
        (
            "flowbits:isset,user1|user2;",
            FlowTest::Bits { names: vec![bit("user1"), bit("user2")], is_set: true },
        ),
        ("flowbits: isnotset, a;", FlowTest::Bits { names: vec![bit("a")], is_set: false }),
        ("flowint:loginfail, notset;", FlowTest::Int { name: int, span: None, is_set: false }),
        ("flowint:loginfail, >, 5;", compared(6, u32::MAX, false)),
        ("flowint: loginfail,!=,2;", compared(2, 2, true)),
        ("flowint:loginfail,==,2;", compared(2, 2, false)),
        ("xbits:isset, badssh, track ip_src;", FlowTest::XBits { name: host, track, is_set }),
        (
            "stream_size:both, >, 5000;",
            FlowTest::StreamSize { side: StreamSides::Both, bytes: span(5001, u32::MAX) },
        ),
        (
            "stream_size:client,=,1;",
            FlowTest::StreamSize { side: StreamSides::Client, bytes: span(1, 1) },
        ),
    ] {
        assert_eq!(suricata(text).flow.tests, [test], "{text}");
    }
    let (change, expire_s) = (Change::Set, 3600);
    for (text, effect) in [
        ("flowbits:set,a;", Effect::Bit(bit("a"), Change::Set)),
        ("flowbits:unset, a ;", Effect::Bit(bit("a"), Change::Unset)),
        ("flowint:loginfail, =, 1;", Effect::Int(int, IntChange::Set(1))),
        ("flowint:loginfail,+,1;", Effect::Int(int, IntChange::Add(1))),
        ("flowint:loginfail,-,2;", Effect::Int(int, IntChange::Sub(2))),
        (
            "xbits:set, badssh, track ip_src, expire 3600;",
            Effect::XBit { name: host, track, change, expire_s },
        ),
    ] {
        assert_eq!(suricata(text).effects, [effect], "{text}");
    }
    let snort = options("flowbits:set,a&b; flowbits:isset,a&b;", Dialect::Snort);
    assert_eq!((snort.effects.len(), snort.flow.tests.len()), (2, 2));
}

#[test]
fn rates() {
    let rate = |track, count, seconds| Rate { track, count, seconds };
    for (text, how, rate) in [
        (
            "threshold: type threshold, track by_src, count 10, seconds 60;",
            ThresholdHow::Threshold,
            rate(Track::Source, 10, 60),
        ),
        (
            "threshold: type limit, track by_dst, seconds 180, count 1;",
            ThresholdHow::Limit,
            rate(Track::Destination, 1, 180),
        ),
        (
            "threshold:type both,track by_both,count 5,seconds 360;",
            ThresholdHow::Both,
            rate(Track::Both, 5, 360),
        ),
        (
            "threshold:type backoff, track by_flow, count 1, multiplier 10;",
            ThresholdHow::Backoff { multiplier: 10 },
            rate(Track::Flow, 1, 0),
        ),
    ] {
        assert_eq!(suricata(text).threshold, Some(Threshold { how, rate }), "{text}");
    }
    let rule = suricata("detection_filter:track by_rule,count 15,seconds 2;");
    let filter = DetectionFilter { rate: rate(Track::Rule, 15, 2), unique_on: None };
    assert_eq!(rule.detection_filter, Some(filter));
    for (port, end) in [("src_port", PortEnd::Source), ("dst_port", PortEnd::Destination)] {
        let options = format!("track by_rule,count 15,seconds 2, unique_on {port}");
        let text = format!("alert udp any any -> any any (detection_filter:{options}; sid:1;)");
        let filter = DetectionFilter { unique_on: Some(end), ..filter };
        assert_eq!(super::rule(&text, Dialect::Suricata).detection_filter, Some(filter));
    }
}

/// Suricata 7.0.10 reads them so.
#[test]
fn groups_in_groups_exclude_from_the_whole() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        (
            "[10.0.0.1,[10.0.0.0/30,!10.0.0.1]]",
            &[("10.0.0.0", "10.0.0.0"), ("10.0.0.2", "10.0.0.3")],
        ),
        ("[8.8.8.8,[!10.0.0.1,!10.0.0.2]]", &[("8.8.8.8", "8.8.8.8")]),
        (
            "[10.0.0.0/29,![10.0.0.0/30,!10.0.0.2]]",
            &[("10.0.0.2", "10.0.0.2"), ("10.0.0.4", "10.0.0.7")],
        ),
        ("[8.8.8.8,$EXTERNAL_NET]", &[("8.8.8.8", "8.8.8.8")]),
    ];
    for (addresses, expected) in cases {
        let text = format!("alert ip {addresses} any -> any any (sid:1;)");
        let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap();
        let expected: Vec<_> = expected.iter().map(|&(min, max)| (ip(min), ip(max))).collect();
        assert_eq!(rule(&text, Dialect::Suricata).header.src.v4, expected, "{addresses}");
    }
    let ports = rule("alert udp any [53,[!80]] -> any any (sid:1;)", Dialect::Suricata);
    assert_eq!(ports.header.src_ports.0, [(53, 53)]);
}

#[test]
fn headers() {
    let set = |text: &str| rule(text, Dialect::Suricata).header;
    let header = set(
        "alert tcp-pkt [10.0.0.0/24, !10.0.0.5] [80,81,!81] <> ![1.1.1.1, 1.1.1.2] 1024: (sid:1;)",
    );
    let ip = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    assert_eq!(header.protocol, Protocol::TcpPacket);
    let expected = [(ip("10.0.0.0"), ip("10.0.0.4")), (ip("10.0.0.6"), ip("10.0.0.255"))];
    assert_eq!(header.src.v4, expected);
    assert_eq!(header.src_ports.0, [(80, 80)]);
    assert_eq!(
        header.dst.v4,
        [(ip("0.0.0.0"), ip("1.1.1.0")), (ip("1.1.1.3"), ip("255.255.255.255"))]
    );
    assert!(header.dst.v6.is_empty() && header.is_bidirectional);
    assert_eq!(header.dst_ports.0, [(1024, u16::MAX)]);
    let header = set("alert udp [$HOME_NET,!10.1.1.1 - 10.1.1.9] $HTTP_PORTS -> [$EXTERNAL_NET, \
         ![::1,8.0.0.0/5]] !:1023(sid:1;)");
    let expected = [
        ("10.0.0.0", "10.1.1.0"),
        ("10.1.1.10", "10.255.255.255"),
        ("192.168.0.0", "192.168.255.255"),
    ];
    assert_eq!(header.src.v4, expected.map(|(a, b)| (ip(a), ip(b))));
    assert_eq!(header.src_ports.0, [(80, 80), (8000, 8080)]);
    assert_eq!(header.dst.v4[1].0, ip("16.0.0.0"));
    assert_eq!(header.dst.v6.len(), 2);
    assert_eq!(header.dst_ports.0, [(1024, u16::MAX)]);
    assert!(header.src.excludes && header.dst.excludes);
    let header = set("alert ip fe80::/10 any -> 2001::1-2001::4 any (sid:1;)");
    assert_eq!(header.src.v6[0].1.to_string(), "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    assert!(header.src.v4.is_empty() && header.src_ports.is_any());
    assert!(!header.src.excludes && !header.dst.excludes);
    let two = b"drop udp $HOME_NET any -> any any (sid:1;)\nreject udp any any -> \
                [10.0.0.0/8,192.168.0.0/16] any (sid:2;)";
    let two = read_text(two, Dialect::Suricata).rules;
    assert!(Arc::ptr_eq(&two[0].header.src, &two[1].header.dst));
    assert!(Arc::ptr_eq(&two[0].header.dst, &two[1].header.src));
    assert_eq!([two[0].action, two[1].action], [Action::Drop, Action::Reject(Rejected::Source)]);
    let silent = rule("sdrop tcp any any -> any any (sid:1;)", Dialect::Snort);
    assert_eq!((silent.action, silent.about.is_silent), (Action::Drop, true));
}

#[test]
fn names_and_reports() {
    let text = r#"msg:"a\; \"b\" c\:d"; rev:3; gid:7; priority:2; reference:cve,CVE-2014-1234;
                  reference:url,"www.x"; metadata:key value, tag two words , alone; target:dest_ip;
                  noalert; prefilter; pkt_data;"#;
    let about = suricata(&text.replace('\n', " ")).about;
    assert_eq!((&*about.msg, about.rev, about.gid, about.sid), ("a; \"b\" c:d", 3, 7, 1));
    assert_eq!(
        (about.priority, about.target, about.is_silent),
        (2, Some(Target::Destination), true)
    );
    let pairs = |pairs: &[(Arc<str>, Arc<str>)]| {
        pairs.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>()
    };
    assert_eq!(pairs(&about.references), ["cve=CVE-2014-1234", "url=www.x"]);
    assert_eq!(pairs(&about.metadata), ["key=value", "tag=two words"]);
    let mut configs = Configs::default();
    let classes = "config classification: low,Low,3\nconfig classification: high,High,1";
    configs.read_classification(
        &warpline_config::SourceText::new("c", classes),
        &mut warpline_config::Diagnostics::default(),
    );
    let text = b"alert ip any any -> any any (classtype:low; classtype:high; sid:1;)\n\
                 alert ip any any -> any any (priority:4; classtype:high; sid:2;)\n\
                 alert ip any any -> any any (classtype:none; sid:3;)\n\
                 alert ip any any -> any any (classtype:none; sid:4;)";
    let file = RuleFile { name: "a".into(), bytes: text, dialect: Dialect::Suricata };
    let set = read(&[file], &variables(), &configs);
    let classes: Vec<_> = set.rules.iter().map(|r| (&*r.about.class, r.about.priority)).collect();
    assert_eq!(classes, [("High", 1), ("High", 4), ("", 3), ("", 3)]);
    assert_eq!(set.notices.count(), 1);
}
