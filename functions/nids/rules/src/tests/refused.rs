//! Invalid rules, with their column, and unsupported rules.

use super::*;
use warpline_config::LISTED_MAX;

const HEADER: &str = "alert tcp any any -> any any (";

/// The column, in the options, and the message.
fn refused(options: &str, dialect: Dialect) -> (usize, String) {
    let set = read_text(format!("{HEADER}{options} sid:1;)").as_bytes(), dialect);
    let reported = set.broken.iter().next();
    let reported = reported.unwrap_or_else(|| panic!("{options} is read: {set}"));
    assert_eq!((&*reported.file, reported.line, set.count()), ("a.rules", 1, 1));
    (reported.column.saturating_sub(HEADER.len()), reported.message.clone())
}

#[test]
fn options_are_refused_where_they_are_wrong() {
    for (options, column, message) in [
        (r#"content:"";"#, 10, "the content is empty"),
        (r#"content:"a|0|";"#, 12, "half a byte"),
        (r#"content:"a|0g|";"#, 13, "`g` is not a digit"),
        (r#"content:"ä|0d";"#, 11, "`|` without its end"),
        (r#"content:"a\.b";"#, 11, "`\\` before the wrong character"),
        (r#"content:"a"b";"#, 11, "`\"` in the content"),
        ("content:abc;", 9, "`\"` is missing"),
        (r#"content:"abc;"#, 12, "`\"` is missing"),
        ("nocase;", 1, "`nocase` needs a `content` before it"),
        (r#"content:"a"; nocase; nocase;"#, 22, "`nocase` is repeated"),
        (r#"content:"a"; nocase:1;"#, 21, "`nocase` takes no value"),
        (r#"content:"abc"; depth:2;"#, 22, "2 is less than the content's 3 bytes"),
        (r#"content:"abc"; within:2;"#, 23, "2 is less than the content's 3 bytes"),
        (r#"content:"abc"; depth:5; depth:5;"#, 25, "`depth` is repeated"),
        (r#"content:"abc"; offset:65536;"#, 23, "`65536` is not a number in range"),
        (r#"content:"abc"; offset:-1;"#, 23, "`-1` is not a number in range"),
        (r#"content:"abc"; distance:1048577;"#, 25, "`1048577` is not a number in range"),
        (r#"content:"abc"; offset:1; distance:1;"#, 26, "`distance` with offset"),
        (r#"content:"abc"; within:5; depth:5;"#, 26, "`depth` with distance"),
        (
            r#"content:"abc"; startswith; offset:1;"#,
            28,
            "`offset` with distance, within or startswith",
        ),
        (r#"content:"abc"; depth:3; startswith;"#, 25, "`startswith` with"),
        (r#"content:"abc"; distance:size;"#, 25, "nothing before this is called `size`"),
        (r#"content:!"abc"; offset:1; fast_pattern;"#, 27, "`fast_pattern` of a content"),
        (r#"content:"abc"; offset:1; fast_pattern:only;"#, 26, "`fast_pattern` of a content"),
        (r#"content:"abc"; fast_pattern:only; offset:1;"#, 35, "`offset` with fast_pattern:only"),
        (r#"content:!"abc"; fast_pattern:only;"#, 17, "`fast_pattern:only` of a negated"),
        (r#"content:"abc"; fast_pattern:1,3;"#, 29, "the content has 3 bytes"),
        (
            r#"content:"a"; fast_pattern; content:"b"; fast_pattern;"#,
            41,
            "`fast_pattern` is repeated",
        ),
        (r#"content:"a"; fast_pattern:only; content:"b"; distance:0;"#, 46, "`distance` after"),
        (r#"dsize:<4; content:"abc"; offset:1;"#, 7, "no payload of 3 bytes holds the 4"),
        ("dsize:1; dsize:2;", 10, "`dsize` is repeated"),
        ("dsize:5<>6;", 7, "nothing is in this range"),
        ("dsize;", 1, "`dsize` needs a value"),
        ("ttl:256;", 5, "`256` is not a number in range"),
        ("tos:x100;", 5, "this is not a tos"),
        ("ipopts:zz;", 8, "`zz` is not an IP option"),
        ("flags:SG;", 8, "`G` is not a flag"),
        ("flags:SS;", 8, "`S` is repeated"),
        ("flags:+S*;", 9, "a second modifier"),
        ("fragbits:+;", 10, "no flag"),
        ("itype:8;", 1, "`itype` is for ICMP alone"),
        ("ip_proto:6;", 1, "`ip_proto` is for rules of ip alone"),
        ("flow:to_server,to_client;", 16, "`to_client` conflicts with an earlier word"),
        ("flow:established,stateless;", 18, "`stateless` conflicts with an earlier word"),
        ("flow:upwards;", 6, "flows can't be `upwards`"),
        ("flow:only_stream; dsize:1;", 19, "this is about packets"),
        ("flowbits:jump,a;", 10, "flowbits can't `jump`"),
        ("flowbits:set,a b;", 14, "this is not a name"),
        ("flowbits:set;", 13, "this is not a name"),
        ("flowbits:set,a|b;", 14, "only one bit can be changed"),
        ("flowbits:isset,a; flowbits:isnotset,a;", 28, "the same bit is set and not set"),
        ("flowint:a,%,1;", 11, "`%` is not a comparison"),
        ("flowint:a,>,4294967295;", 13, "no number is like this"),
        ("xbits:set,a;", 7, "`track` is missing"),
        ("xbits:set,a,track ip_all;", 19, "`ip_all` can't be tracked"),
        ("xbits:set,a,track ip_src,expire 0;", 33, "no time"),
        ("stream_size:up,>,1;", 13, "`up` is not a side"),
        ("byte_test:9,>,1,0;", 11, "`9` is not a number in range"),
        ("byte_test:4,>,1;", 11, "something is missing here"),
        ("byte_test:4,~,1,0;", 13, "`~` is not a comparison"),
        ("byte_test:4,>,1,0,sideways;", 19, "`byte_test` has no `sideways`"),
        ("byte_test:4,>,1,0,dec;", 1, "a base without `string`"),
        ("byte_test:4,>,1,0,bitmask 0;", 27, "this is not a mask"),
        ("byte_jump:4,0,from_end,from_beginning;", 24, "from the beginning and from the end"),
        ("byte_jump:4,0,multiplier 0;", 26, "`0` is not a number in range"),
        ("byte_extract:4,0,9x;", 18, "this is not a name"),
        ("byte_extract:4,0,x,align 3;", 26, "numbers aren't rounded so"),
        ("byte_math:bytes 4,offset 0,oper %,rvalue 1,result x;", 33, "`%` is not an operator"),
        (
            "byte_math:bytes 5,offset 0,oper <<,rvalue 1,result x;",
            17,
            "`5` is not a number in range",
        ),
        ("byte_math:bytes 4,bytes 4,offset 0,oper +,rvalue 1,result x;", 19, "`bytes` is repeated"),
        ("isdataat:70000;", 10, "`70000` is not a number in range"),
        ("isdataat:1,absolute;", 12, "`isdataat` has no `absolute`"),
        (r#"pcre:"abc";"#, 7, "this is not an expression"),
        (r#"pcre:"/abc/iq";"#, 13, "`q` is not a flag"),
        ("threshold:type limit,track by_src,count 1;", 11, "`seconds` is missing"),
        ("threshold:type some,track by_src,count 1,seconds 1;", 16, "`some` is not a type"),
        ("threshold:type limit,track by_moon,count 1,seconds 1;", 28, "`by_moon` can't be tracked"),
        ("threshold:type limit,track by_src,count 0,seconds 1;", 41, "`count` is 1 or more"),
        (
            "threshold:type backoff,track by_src,count 1,multiplier 2;",
            30,
            "type backoff is for flows",
        ),
        ("detection_filter:track by_src,count 1,seconds 0;", 47, "`seconds` is 1 or more"),
        (
            "detection_filter:track by_src,count 1,seconds 1,unique_on port;",
            59,
            "`port` is not a port",
        ),
        ("msg:nothing;", 5, "`\"` is missing"),
        ("sid:5;", 8, "`sid` is repeated"),
        ("rev:x;", 5, "`x` is not a number in range"),
        ("priority:0;", 10, "`0` is not a priority"),
        ("target:all;", 8, "`all` is not a target"),
        ("reference:url;", 11, "this is not a reference"),
        (":5;", 1, "the name of the option is missing"),
        (r#"content:"x"; depht:5;"#, 14, "`depht` is not a keyword"),
        (r#"contnt:"x"; nocase;"#, 1, "`contnt` is not a keyword"),
        (r#"http.urii; content:"x";"#, 1, "`http.urii` is not a keyword"),
        (r#"http.uri; content:"x"; Foobar; depht:5;"#, 24, "`Foobar` is not a keyword"),
        ("requires:version 8;", 18, "no comparison of versions"),
    ] {
        let (at, reported) = refused(options, Dialect::Suricata);
        assert!(reported.starts_with(message), "{options}: {reported}");
        assert_eq!(at, column, "{options}: {reported}");
    }
}

#[test]
fn misspelt_keywords_are_mistakes_with_suggestions() {
    let set = read_text(
        b"alert tcp any any -> any any (msg:\"a\"; content:\"x\"; depht:5; sid:4;)\n\
          alert tcp any any -> any any (foobar; sid:5;)\n\
          alert tcp any any -> any any (dns.query; content:\"x\"; sid:6;)\n",
        Dialect::Suricata,
    );
    let reported: Vec<_> =
        set.broken.iter().map(|reported| (reported.line, reported.help.as_deref())).collect();
    assert_eq!(reported, [(1, Some("did you mean \"depth\"?")), (2, None)]);
    assert_eq!((set.broken.count(), set.held.count()), (2, 1));
    assert_eq!(set.to_string(), "0 of 3 rules active; 1 need dns.*; 2 broken");
}

/// As many mistakes are listed of each file, and each of these has its suggestion.
#[test]
fn misspelt_keywords_of_each_file_have_suggestions() {
    let rule = "alert tcp any any -> any any (content:\"x\"; depht:5; sid:1;)\n";
    let many = rule.repeat(LISTED_MAX + 1);
    let file =
        |name: &str, text| RuleFile { name: name.into(), bytes: text, dialect: Dialect::Suricata };
    let files = [file("a.rules", many.as_bytes()), file("b.rules", rule.as_bytes())];
    let set = read(&files, &variables(), &Configs::default());
    let helps = set.broken.iter().map(|reported| reported.help.as_deref());
    assert_eq!(helps.collect::<Vec<_>>(), [Some("did you mean \"depth\"?"); LISTED_MAX + 1]);
}

/// Whether a rule is for another version is not known before its options end.
#[test]
fn rules_for_other_versions_are_refused_without_an_end() {
    let many = "metadata:a b; ".repeat(1024);
    for (options, message) in [
        ("requires:version < 8; sid:1", "`;` is missing"),
        (&format!("requires:version < 8; {many}"), "more than 1024 options"),
    ] {
        let rule = format!("alert ip any any -> any any (content:\"x\"; {options})");
        let set = read_text(rule.as_bytes(), Dialect::Suricata);
        let reported = set.broken.iter().next().unwrap_or_else(|| panic!("{rule} is read: {set}"));
        assert!(reported.message.starts_with(message), "{rule}: {reported}");
    }
}

#[test]
fn headers_are_refused_where_they_are_wrong() {
    for (rule, column, message) in [
        ("allert tcp any any -> any any (sid:1;)", 1, "`allert` is not an action"),
        ("log tcp any any -> any any (sid:1;)", 1, "`log` is not an action"),
        ("alert htp any any -> any any (sid:1;)", 7, "`htp` is not a protocol"),
        ("alert tcp any any <- any any (sid:1;)", 19, "`<-` is not a direction"),
        ("alert tcp !any any -> any any (sid:1;)", 11, "no addresses are left"),
        ("alert tcp [1.1.1.1,!1.0.0.0/8] any -> any any (sid:1;)", 11, "no addresses are left"),
        ("alert tcp [10.0.0.1,$EXTERNAL_NET] any -> any any (sid:1;)", 11, "no addresses are left"),
        ("alert tcp 1.1.1.256 any -> any any (sid:1;)", 11, "`1.1.1.256` is not an address"),
        ("alert tcp 1.1.1.1/33 any -> any any (sid:1;)", 19, "`33` is not a prefix length"),
        ("alert tcp [1.1.1.9-1.1.1.1] any -> any any (sid:1;)", 12, "the first address"),
        ("alert tcp [1.1.1.1,] any -> any any (sid:1;)", 20, "addresses are missing here"),
        ("alert tcp [1.1.1.1 any -> any any (sid:1;)", 11, "`]` is missing"),
        ("alert tcp 1.1.1.1] any -> any any (sid:1;)", 18, "`]` without its `[`"),
        ("alert tcp any [1,!0:1] -> any any (sid:1;)", 15, "no ports are left"),
        ("alert tcp any 70000 -> any any (sid:1;)", 15, "`70000` is not a port"),
        ("alert tcp any 9:8 -> any any (sid:1;)", 15, "the first port"),
        ("alert tcp any : -> any any (sid:1;)", 15, "`:` is not a port"),
        ("alert tcp $WHAT any -> any any (sid:1;)", 11, "`$WHAT` is not defined"),
        (
            "alert tcp $LOOP any -> any any (sid:1;)",
            11,
            "in `$LOOP`: in `$POOL`: `$LOOP` names itself: $LOOP -> $POOL -> $LOOP",
        ),
        ("alert tcp $EMPTY any -> any any (sid:1;)", 11, "in `$EMPTY`: no addresses are left"),
        ("alert tcp $BAD any -> any any (sid:1;)", 11, "in `$BAD`: `10.0.0.300` is not an address"),
        ("alert tcp any any -> any any", 29, "the options are missing"),
        ("alert tcp any any", 18, "`` is not a direction"),
        ("alert tcp any any -> any any (msg:\"x\";)", 1, "`sid` is missing"),
        (
            "alert icmp any any -> any any (detection_filter:track by_src,count 1,seconds 1,\
             unique_on dst_port; sid:1;)",
            1,
            "`unique_on` needs a protocol with ports",
        ),
        ("alert tcp any any -> any any (sid:0;)", 35, "`sid` is 1 or more"),
        ("alert tcp any any -> any any (sid:1)", 31, "`;` is missing"),
        ("alert tcp any any -> any any (sd:1; x)", 31, "`sd` is not a keyword"),
        ("alert tcp any any -> any any (sid:1;)#x", 37, "text after the end"),
    ] {
        let set = read_text(rule.as_bytes(), Dialect::Suricata);
        let reported = set.broken.iter().next().unwrap_or_else(|| panic!("{rule} is read: {set}"));
        assert!(reported.message.starts_with(message), "{rule}: {reported}");
        assert_eq!(reported.column, column, "{rule}: {reported}");
    }
}

#[test]
fn unsupported_rules_are_skipped_by_name() {
    let suricata = [
        (r#"content:"x"; http_uri;"#, "http.uri", "http.*"),
        (r#"uricontent:"x"; nocase; depth:5;"#, "http.uri", "http.*"),
        (r#"http.uri; content:"x"; bsize:3;"#, "http.uri", "http.*"),
        (r#"file_data; content:"x";"#, "file.data", "file.*"),
        (r#"pcre:"/x/U";"#, "http.uri", "http.*"),
        (r#"pcre:"/(x)/, flow:name";"#, "pcre captures", "pcre"),
        ("byte_test:4,>,1,0,dce;", "dcerpc", "dcerpc.*"),
        ("byte_extract:0,0,a;", "byte_extract of 0 bytes", "byte_extract"),
        ("flowint:a,==,b;", "flowint with the number of another", "flowint"),
        ("xbits:set,a,track tx;", "xbits track tx", "xbits"),
        ("ttl:&0xc0=0x80;", "ttl &", "ttl"),
        ("flow.age:>3600;", "flow.age", "flow.age"),
    ];
    let snort = [
        ("flowbits:setx,a,group;", "flowbits groups", "flowbits"),
        (r#"content:"a"; offset:-3;"#, "offset negative", "offset"),
        ("metadata:engine shared, soid 3|1;", "metadata engine shared", "metadata"),
        ("byte_extract:1,0,a; isdataat:a,relative;", "isdataat of a name, relative", "isdataat"),
    ];
    let cases = suricata.map(|c| (Dialect::Suricata, c)).into_iter();
    for (dialect, (options, need, family)) in cases.chain(snort.map(|c| (Dialect::Snort, c))) {
        let set = read_text(format!("{HEADER}{options} sid:1;)").as_bytes(), dialect);
        let held: Vec<_> = set.held.by_need().into_iter().map(|(n, s)| (n.name(), s)).collect();
        assert_eq!(held, [(need, vec![1])], "{options}: {}", set.broken);
        assert_eq!(set.held.by_family(), [(family.to_owned(), 1)]);
        assert!(set.rules.is_empty());
    }
    for (header, dialect, need) in [
        ("alert http any any -> any any", Dialect::Suricata, "http"),
        ("alert http:request_started any any -> any any", Dialect::Suricata, "hook"),
        ("config ip any any -> any any", Dialect::Suricata, "action config"),
        ("drop:packet ip any any -> any any", Dialect::Suricata, "action drop:packet"),
        ("alert ip any any => any any", Dialect::Suricata, "direction =>"),
        ("log ip any any -> any any", Dialect::Snort, "action log"),
    ] {
        let set = read_text(format!("{header} (sid:1;)").as_bytes(), dialect);
        assert!(
            set.held.by_need().iter().any(|(n, _)| n.name() == need),
            "{header} {}",
            set.broken
        );
    }
}
