//! What `ip xfrm` prints.

use super::*;
use crate::ipsec::cipher::{Auth, Cipher};
use crate::ipsec::sa::{Action, Direction, DontFragment, Encap, Limits, Mode, Selector};

/// As `ip -s xfrm state` prints a pair of SAs, the newer first.
fn pair() -> String {
    format!(
        "src 192.0.2.2 dst 192.0.2.1\n\
         \tproto esp spi 0xc1a2b3c4(3248665540) reqid 1(0x00000001) mode tunnel\n\
         \treplay-window 32 seq 0x00000000 flag af-unspec (0x00100000)\n\
         \tauth-trunc hmac(sha1) {} (160 bits) 96\n\
         \tenc cbc(aes) {} (128 bits)\n\
         \tlastused 2026-03-01 10:00:09\n\
         \tanti-replay context: seq 0x1f, oseq 0x0, bitmap 0xffffffff\n\
         \tlifetime config:\n\
         \t  limit: soft (INF)(bytes), hard (INF)(bytes)\n\
         \t  limit: soft (INF)(packets), hard (INF)(packets)\n\
         \t  expire add: soft 3301(sec), hard 3960(sec)\n\
         \t  expire use: soft 0(sec), hard 0(sec)\n\
         \tlifetime current:\n\
         \t  2604(bytes), 31(packets)\n\
         \t  add 2026-03-01 09:59:58 use 2026-03-01 10:00:01\n\
         \tstats:\n\
         \t  replay-window 0 replay 0 failed 0\n\
         src 192.0.2.1 dst 192.0.2.2\n\
         \tproto esp spi 0x00001000(4096) reqid 1(0x00000001) mode tunnel\n\
         \treplay-window 0 seq 0x00000000 flag noecn nopmtudisc af-unspec esn extra_flag dont-encap-dscp  (0x10110001)\n\
         \taead rfc4106(gcm(aes)) {} (288 bits) 128\n\
         \tencap type espinudp sport 4500 dport 4501 addr 0.0.0.0\n\
         \tanti-replay esn context:\n\
         \t seq-hi 0x0, seq 0x0, oseq-hi 0x2, oseq 0x10\n\
         \t replay_window 64, bitmap-length 2\n\
         \t 00000000 00000000 \n\
         \tlifetime config:\n\
         \t  limit: soft 900000(bytes), hard 1000000(bytes)\n\
         \t  limit: soft (INF)(packets), hard 20(packets)\n\
         \t  expire add: soft 0(sec), hard 0(sec)\n\
         \t  expire use: soft 0(sec), hard 77(sec)\n\
         \tlifetime current:\n\
         \t  1000(bytes), 30(packets)\n\
         \t  add 2026-03-01 09:59:57 use -\n\
         \tstats:\n\
         \t  replay-window 0 replay 0 failed 0\n",
        hex(20, 1),
        hex(16, 2),
        hex(36, 3)
    )
}

/// As `ip xfrm policy` prints what a tunnel takes, with policies of sockets.
const POLICIES: &str = "\
src 10.2.0.0/16 dst 10.1.0.0/16 
\tdir fwd priority 379519 ptype main 
\ttmpl src 192.0.2.2 dst 192.0.2.1
\t\tproto esp reqid 1 mode tunnel
src 10.2.0.0/16 dst 10.1.0.0/16 
\tdir in priority 379519 ptype main 
\ttmpl src 192.0.2.2 dst 192.0.2.1
\t\tproto esp reqid 1 mode tunnel
src 10.1.0.0/16 dst 10.2.0.0/16 
\tdir out priority 379519 ptype main 
\ttmpl src 192.0.2.1 dst 192.0.2.2
\t\tproto esp spi 0x00001000 reqid 1 mode tunnel
src 0.0.0.0/0 dst 0.0.0.0/0 
\tsocket in priority 0 ptype main 
src ::/0 dst ::/0 
\tsocket out priority 0 ptype main 
";

fn selector(src: &str, dst: &str) -> Selector {
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    Selector { src, dst, protocol: None, src_ports: 0..=65535, dst_ports: 0..=65535 }
}

#[test]
fn a_tunnel() {
    let database = good(read_texts(&pair(), Some(POLICIES), ""));
    let [own, out] = &database.sas[..] else { panic!("{database:?}") };
    assert_eq!(
        (&own.name[..], own.direction, own.spi),
        ("0xc1a2b3c4@192.0.2.1", Direction::In, 0xc1a2_b3c4)
    );
    assert_eq!((own.cipher, own.auth, own.mode), (Cipher::Cbc, Auth::Sha1, Mode::Tunnel));
    assert_eq!((own.enc_key.0.len(), own.auth_key.0.len()), (16, 20));
    assert_eq!((own.enc_key.0[3], own.auth_key.0[3]), (2, 1));
    assert_eq!((own.replay_window, own.sequence, own.esn), (32, 31, false));
    assert_eq!(own.lifetime.soft, Limits { seconds: Some(3301), ..Limits::default() });
    assert_eq!(own.lifetime.hard, Limits { seconds: Some(3960), ..Limits::default() });
    assert_eq!(own.selectors, [selector("10.2.0.0/16", "10.1.0.0/16")], "in and fwd say it once");
    assert_eq!((out.direction, out.cipher, out.auth), (Direction::Out, Cipher::Gcm, Auth::None));
    assert_eq!((out.sequence, out.esn, out.replay_window), (0x2_0000_0010, true, 0));
    assert_eq!(out.encap, Some(Encap { src_port: 4500, dst_port: 4501 }));
    assert_eq!((out.outer.ecn, out.outer.dscp), (false, Some(0)));
    assert_eq!(out.outer.dont_fragment, DontFragment::Clear);
    let hard = Limits { bytes: Some(999_000), packets: Some(0), seconds: Some(77) };
    assert_eq!((out.lifetime.soft.bytes, out.lifetime.hard), (Some(899_000), hard));
    assert!(out.selectors.is_empty());
    let policies: Vec<_> =
        database.policies.iter().map(|own| (own.selector.clone(), own.action)).collect();
    let wanted = [
        (selector("10.2.0.0/16", "10.1.0.0/16"), Action::Discard),
        (selector("10.1.0.0/16", "10.2.0.0/16"), Action::Protect(1)),
    ];
    assert_eq!(policies, wanted);
}

#[test]
fn the_short_form_and_local() {
    let text = format!(
        "src 2001:db8::1 dst 2001:db8::2\n\
         \tproto esp spi 0x00001000 reqid 7 mode transport\n\
         \treplay-window 128 \n\
         \tauth-trunc hmac(sha256) {} 128\n\
         \tenc rfc3686(ctr(aes)) {}\n\
         \tanti-replay context: seq 0x0, oseq 0x0, bitmap 0x00000000\n\
         \tsel src 2001:db8::1/128 dst 2001:db8::2/128 proto ipv6-icmp type 128 \n\
         src 192.0.2.1 dst 192.0.2.2\n\
         \tproto esp spi 0x00001001 reqid 0 mode tunnel\n\
         \treplay-window 5 \n\
         \tauth hmac(sha1) {}\n\
         \tenc ecb(cipher_null) \n\
         \tsel src 0.0.0.0/0 dst 0.0.0.0/0 \n\
         \tdir in\n",
        hex(32, 1),
        hex(20, 2),
        hex(20, 3)
    );
    let database = good(read_texts(&text, None, "local = \"2001:db8::2\""));
    let [first, second] = &database.sas[..] else { panic!("{database:?}") };
    assert_eq!(
        (first.direction, first.mode, first.cipher),
        (Direction::In, Mode::Transport, Cipher::Ctr)
    );
    assert_eq!((first.auth, first.replay_window), (Auth::Sha256, 128));
    let echo = Selector {
        protocol: Some(58),
        src_ports: 128..=128,
        ..selector("2001:db8::1/128", "2001:db8::2/128")
    };
    assert_eq!(first.selectors, [echo]);
    assert_eq!(
        (second.direction, second.cipher, second.auth),
        (Direction::In, Cipher::Null, Auth::Sha1)
    );
    assert_eq!(second.replay_window, 32);
    assert_eq!(second.selectors, [selector("0.0.0.0/0", "0.0.0.0/0")], "IPv6 is not for it");
}

/// A change of the line that begins so in [`pair`], and what is told: `-` in front of what `skip` leaves out.
const WRONG: &[(&str, &str, &str)] = &[
    ("src 192.0.2.2", "src 192.0.2.2 dst", "1:1 `src 192.0.2.2 dst`: the line ends early"),
    (
        "src 192.0.2.2",
        "src 192.0.2.2 dst ::1",
        "1:1 `src 192.0.2.2 dst ::1`: its ends are of different IP versions",
    ),
    (
        "src 192.0.2.2",
        "src 192.0.2.2 dst 0.0.0.0",
        "-1:1 `src 192.0.2.2 dst 0.0.0.0`: not supported: both ends are single hosts",
    ),
    ("src 192.0.2.2", "src a dst b", "1:5 `a`: not an IPv4 or IPv6 address"),
    (
        "\tproto esp spi 0xc1",
        "\tproto ah spi 0x00000100 reqid 1 mode tunnel",
        "-2:8 `ah`: not supported: of the IPsec protocols there is esp",
    ),
    (
        "\tproto esp spi 0xc1",
        "\tproto esp spi 0x00000100 reqid 1 mode beet",
        "-2:40 `beet`: not supported: of the modes there are tunnel and transport",
    ),
    (
        "\tproto esp spi 0xc1",
        "\tproto esp spi 0x000000ff reqid 1 mode tunnel",
        "-2:2 `proto esp spi 0x000000ff reqid 1 mode tu`: not supported: SPIs go from 256; what has none is not set up yet",
    ),
    (
        "\tproto esp spi 0xc1",
        "\tproto esp spi 0x1c1a2b3c4 reqid 1 mode tunnel",
        "2:16 `***********`: not a number, or one out of range",
    ),
    ("\tproto esp spi 0xc1", "\tlastused 2026", "1:1 `src`: the SA has no `proto` line"),
    (
        "\treplay-window 32",
        "\treplay-window 4097",
        "-3:16 `4097`: not supported: replay windows of up to 4096 packets",
    ),
    (
        "\treplay-window 32",
        "\treplay-window 32 flag wildrecv",
        "-3:24 `wildrecv`: not supported: no such flag",
    ),
    (
        "\treplay-window 32",
        "\treplay-window 32 flag align4 80",
        "-3:24 `align4`: not supported: no such flag",
    ),
    (
        "\tauth-trunc",
        "\tauth-trunc hmac(sha256) 0x5ec2e7 (24 bits) 96",
        "-4:13 `hmac(sha256)`: not supported: there are hmac(sha1) of 96 bits and hmac(sha256) of 128",
    ),
    (
        "\tauth-trunc",
        "\tauth-trunc hmac(sha1) 0x5ec2e7 (24 bits) 96",
        "4:24 `********`: hmac-sha1-96 takes a key of 20 bytes",
    ),
    (
        "\tauth-trunc",
        "\tauth-trunc hmac(sha1) <<Keys hidden>> 96",
        "4:24 `******`: the keys are hidden: print them without `nokeys`",
    ),
    ("\tauth-trunc", "\tauth-trunc 0x5ec2e7", "4:2 `auth-trunc ********`: the line ends early"),
    (
        "\tauth-trunc",
        "\tauth-trunc hmac(sha1) 5ec2e7 96",
        "4:24 `******`: takes 0x and an even number of hexadecimal digits",
    ),
    (
        "\tenc",
        "\tenc cbc(des3_ede) 0x5ec2e7",
        "-5:6 `cbc(des3_ede)`: not supported: there are cbc(aes), rfc3686(ctr(aes)) and ecb(cipher_null)",
    ),
    (
        "\tenc",
        "\tenc cbc(aes) 0x5ec2e7",
        "5:15 `********`: aes-cbc takes a key of 16, 24 or 32 bytes",
    ),
    ("\tenc", "\tlastused -", "1:1 `src`: the SA has no `enc` or `aead` line with a key"),
    (
        "\tlastused",
        "\tmark 0x1/0xffffffff ",
        "-6:2 `mark`: not supported: packets have no marks here",
    ),
    (
        "\tlastused",
        "\toutput-mark 0x1/0xffffffff ",
        "-6:2 `output-mark`: not supported: packets have no marks here",
    ),
    (
        "\tlastused",
        "\tif_id 0x2a",
        "-6:2 `if_id`: not supported: packets have no xfrm interface here",
    ),
    (
        "\tlastused",
        "\tcrypto offload parameters: dev eth0 dir in mode crypto",
        "-6:2 `crypto`: not supported: what a network card does",
    ),
    ("\tlastused", "\ttfcpad 5", "-6:2 `tfcpad`: not supported: nothing that an SA has here"),
    (
        "\tlastused",
        "\tencap type espintcp sport 1 dport 2 addr 0.0.0.0",
        "-6:13 `espintcp`: not supported: there is espinudp",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/8 dst 10.0.0.0/8 dev eth0",
        "-6:37 `dev`: not supported: selectors are addresses, protocol and ports",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/8 dst 10.0.0.0/8 proto gre key 5",
        "-6:47 `key`: not supported: selectors are addresses, protocol and ports",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/33 dst 10.0.0.0/8",
        "6:10 `10.0.0.0/33`: not an address with the length of its prefix",
    ),
    (
        "\tlastused",
        "\taead rfc4106(gcm(aes)) 0x5ec2e7 64",
        "-6:7 `rfc4106(gcm(aes))`: not supported: there is rfc4106(gcm(aes)) of 128 bits",
    ),
    (
        "\tanti-replay context",
        "\tanti-replay context: seq 1, oseq 0x100000000, bitmap 0",
        "7:35 `0x100000000,`: not a number, or one out of range",
    ),
    (
        "\t  limit: soft (INF)(bytes)",
        "\t  limit: soft x(bytes), hard 0(bytes)",
        "9:16 `x(bytes),`: not a number, or one out of range",
    ),
];

/// [`pair`] with another line in place of the first that begins so.
fn with(line: &str, new: &str) -> String {
    let all = pair();
    let at = all.find(&format!("\n{line}")).map_or(0, |at| at + 1);
    let end = at + all[at..].find('\n').unwrap();
    format!("{}{new}{}", &all[..at], &all[end..])
}

#[test]
fn what_is_wrong_or_not_supported() {
    for (line, new, told) in WRONG {
        let text = with(line, new);
        let skipped = told.strip_prefix('-');
        let told = format!("sas:{}", skipped.unwrap_or(told));
        let found = read_texts(&text, None, "local = \"192.0.2.1\"");
        assert_eq!(found.mistakes, [told.as_str()], "{}", found.shown);
        let found = read_texts(&text, None, "local = \"192.0.2.1\"\nunsupported = \"skip\"");
        if skipped.is_some() {
            assert_eq!(found.notices, [told]);
            assert_eq!(found.database.unwrap().sas.len(), 1, "the other is there");
        } else {
            assert!(found.database.is_none());
        }
    }
}

/// Priorities, and among equals the oldest first, which is printed last. Seen in a kernel 6 with two policies `dir out`
/// that match one packet: the first that was added decides.
#[test]
fn the_order_of_policies() {
    let line = |net: u8, dir: &str, priority: u32| {
        format!(
            "src 0.0.0.0/0 dst 10.{net}.0.0/16 uid 0\n\tdir {dir} index {net} priority {priority} ptype main share any flag  (0x00000000)\n"
        )
    };
    let text = [
        line(1, "out action block", 5),
        line(2, "out action allow", 7),
        line(3, "out action block", 5),
        line(4, "out action allow", 3),
        line(5, "fwd action allow", 1),
        line(1, "in action allow", 1),
        line(6, "fwd action block", 9),
    ];
    let database = good(read_texts(
        &pair(),
        Some(&text.concat()),
        "local = \"192.0.2.1\"\nunsupported = \"skip\"",
    ));
    let found: Vec<String> = database
        .policies
        .iter()
        .map(|own| format!("{} {:?}", own.selector.dst, own.action))
        .collect();
    let wanted = [
        "10.5.0.0/16 Bypass",
        "10.6.0.0/16 Discard",
        "10.4.0.0/16 Bypass",
        "10.3.0.0/16 Discard",
        "10.1.0.0/16 Discard",
        "10.2.0.0/16 Bypass",
        // It may come in, and may not leave.
        "10.1.0.0/16 Bypass",
    ];
    assert_eq!(found, wanted);
}

/// A change of the `dir out` policy, and what is told; skipped, it drops.
const POLICY_WRONG: &[(&str, &str, &str)] = &[
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 uid 1000",
        "-9:37 `1000`: not supported: policies of users",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 proto gre sport 5 ",
        "-9:1 `src 10.1.0.0/16 dst 10.2.0.0/16 proto gr`: not supported: ports take the protocol tcp, udp or sctp; or icmp or icmpv6, whose type and code they are",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 proto mobility-header type 5 ",
        "9:39 `mobility-header`: not a protocol that is known",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 2001:db8::/32",
        "9:1 `src 10.1.0.0/16 dst 2001:db8::/32`: source and destination are of different IP versions",
    ),
    (
        "\tdir out",
        "\tdir out action 7 priority 1",
        "-10:17 `7`: not supported: actions are allow and block",
    ),
    (
        "\tdir out",
        "\tdir out priority 1 ptype sub",
        "-10:27 `sub`: not supported: there are policies of the type main",
    ),
    ("\tdir out", "\tdir across priority 1", "10:6 `across`: directions are in, out and fwd"),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.2\n\tmark 0x1/0xff ",
        "-12:2 `mark`: not supported: packets have no marks here",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\tif_id 0x1\n\ttmpl src 192.0.2.1 dst 192.0.2.2",
        "-11:2 `if_id`: not supported: packets have no xfrm interface here",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.2\n\t\tproto comp reqid 1 mode tunnel\n\ttmpl src 0.0.0.0 dst 0.0.0.0",
        "-12:9 `comp`: not supported: of the IPsec protocols there is esp|-13:2 `tmpl`: not supported: more than one template",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.3",
        "-9:1 no SA fits the policy's template: what it matches is dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp spi 0x00001000 reqid 1 mode tunnel\n\t\tlevel use ",
        "-13:9 `use`: not supported: an SA that isn't there can't be done without",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp spi 0x00001001 reqid 1 mode tunnel",
        "-9:1 no SA fits the policy's template: what it matches is dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp reqid 2 mode tunnel",
        "-9:1 no SA fits the policy's template: what it matches is dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp reqid 1 mode transport",
        "-9:1 no SA fits the policy's template: what it matches is dropped",
    ),
    ("\t\tproto esp spi", "", "9:1 `src`: the policy has half a template"),
];

#[test]
fn policies_that_are_wrong_or_not_supported() {
    for (line, new, told) in POLICY_WRONG {
        let changed =
            |own: &str| if own.starts_with(line) { (*new).to_owned() } else { own.to_owned() };
        let text = POLICIES.lines().map(changed).collect::<Vec<_>>().join("\n");
        let skips = told.starts_with('-');
        let told: Vec<String> = told
            .split('|')
            .map(|told| format!("policies:{}", told.trim_start_matches('-')))
            .collect();
        let more = "local = \"192.0.2.1\"\n";
        assert_eq!(read_texts(&pair(), Some(&text), more).mistakes, told);
        let found = read_texts(&pair(), Some(&text), &format!("{more}unsupported = \"skip\""));
        if skips {
            assert_eq!(found.notices, told);
            let actions: Vec<Action> =
                found.database.unwrap().policies.iter().map(|own| own.action).collect();
            assert_eq!(actions, [Action::Discard, Action::Discard], "{told:?}");
        } else {
            assert!(found.database.is_none(), "{told:?}");
        }
    }
}

#[test]
fn a_policy_of_an_sa_that_is_left_out_drops() {
    let text = with("\taead", "\tmark 0x1/0x1");
    let found = read_texts(&text, Some(POLICIES), "unsupported = \"skip\"");
    assert_eq!(
        found.notices,
        [
            "sas:21:2 `mark`: not supported: packets have no marks here",
            "policies:9:1 no SA fits the policy's template: what it matches is dropped",
        ]
    );
    assert_eq!(found.database.unwrap().policies[1].action, Action::Discard);
    let policy = "[[policy]]\ndst = \"10.2.0.0/16\"\naction = \"protect\"\nsa = [\"0x00001000@192.0.2.2\"]\n";
    let found = read_texts(&text, Some(policy), "local = \"192.0.2.1\"\nunsupported = \"skip\"");
    let told =
        "policies:1:1 its SA was left out (0x00001000@192.0.2.2): what it matches is dropped";
    assert_eq!(found.notices[1], told);
    assert_eq!(found.database.unwrap().policies[0].action, Action::Discard);
}

#[test]
fn the_newest_sa_is_taken() {
    let out = |spi: u32, key: u8, added: &str| {
        let dates = if added.is_empty() {
            String::new()
        } else {
            format!("\tlifetime current:\n\t  0(bytes), 0(packets)\n\t  add {added} use -\n")
        };
        format!(
            "src 192.0.2.1 dst 192.0.2.2\n\tproto esp spi {spi:#010x} reqid 1 mode tunnel\n\
             \taead rfc4106(gcm(aes)) {} 128\n{dates}",
            hex(20, key)
        )
    };
    let policy = POLICIES.replace("spi 0x00001000 ", "");
    let policy = &policy[policy.find("src 10.1").unwrap()..];
    let cases = [
        (["", "", ""], 0),
        (["2026-03-01 10:00:00", "2026-03-01 10:00:01", "2026-03-01 09:00:00"], 1),
        (["2026-03-01 10:00:00", "2026-03-01 09:00:00", "2026-03-01 10:00:00"], 0),
    ];
    for (added, newest) in cases {
        let text: String = (0..3).map(|at| out(4096 + at, at as u8, added[at as usize])).collect();
        let database = good(read_texts(&text, Some(policy), ""));
        assert_eq!(database.policies[0].action, Action::Protect(newest), "{added:?}");
    }
}

#[test]
fn transport_mode_has_templates_without_addresses() {
    let text = pair().replace("mode tunnel", "mode transport");
    let policies = "\
src 192.0.2.1/32 dst 192.0.2.2/32 uid 0
\tdir out action allow index 1 priority 367231 ptype main share any flag  (0x00000000)
\tlifetime config:
\t  limit: soft (INF)(bytes), hard (INF)(bytes)
\t  limit: soft (INF)(packets), hard (INF)(packets)
\t  expire add: soft 0(sec), hard 0(sec)
\t  expire use: soft 0(sec), hard 0(sec)
\tlifetime current:
\t  0(bytes), 0(packets)
\t  add 2026-03-01 09:59:58 use -
\ttmpl src 0.0.0.0 dst 0.0.0.0
\t\tproto esp spi 0x00000000(0) reqid 1(0x00000001) mode transport
\t\tlevel required share any 
\t\tenc-mask ffffffff auth-mask ffffffff comp-mask ffffffff
";
    let database = good(read_texts(&text, Some(policies), "local = \"192.0.2.1\""));
    assert_eq!(database.policies[0].action, Action::Protect(1));
    let other = policies.replace("192.0.2.2/32", "192.0.2.3/32");
    let told = "policies:1:1 no SA fits the policy's template: what it matches is dropped";
    assert_eq!(read_texts(&text, Some(&other), "local = \"192.0.2.1\"").mistakes, [told]);
}

#[test]
fn a_tunnel_that_no_policy_lets_in_is_refused() {
    let policies = &POLICIES[POLICIES.find("src 10.1").unwrap()..];
    let told = "sas:1:1 no policy lets in what SA 0xc1a2b3c4@192.0.2.1 carries";
    assert_eq!(read_texts(&pair(), Some(policies), "local = \"192.0.2.1\"").mistakes, [told]);
}
