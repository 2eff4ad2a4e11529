//! Output of `ip xfrm state`.

use super::ip_policy::POLICIES;
use super::*;
use crate::cipher::{Auth, Cipher};
use crate::sa::{Action, Direction, DontFragment, Encap, Limits, Mode, Selector};

/// As `ip -s xfrm state` prints a pair of SAs, the newer first.
pub(super) fn pair() -> String {
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
         \treplay-window 0 seq 0x00000000 flag noecn nopmtudisc af-unspec esn extra_flag \
         dont-encap-dscp  (0x10110001)\n\
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

/// A change of the line with this start in [`pair`], and its message; with `-` first if `skip`
/// ignores it.
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
        "-1:1 `src 192.0.2.2 dst 0.0.0.0`: not supported: ends that are not single hosts",
    ),
    ("src 192.0.2.2", "src a dst b", "1:5 `a`: not an IPv4 or IPv6 address"),
    (
        "\tproto esp spi 0xc1",
        "\tproto ah spi 0x00000100 reqid 1 mode tunnel",
        "-2:8 `ah`: not supported: IPsec protocols other than esp",
    ),
    (
        "\tproto esp spi 0xc1",
        "\tproto esp spi 0x00000100 reqid 1 mode beet",
        "-2:40 `beet`: not supported: modes other than tunnel and transport",
    ),
    (
        "\tproto esp spi 0xc1",
        "\tproto esp spi 0x000000ff reqid 1 mode tunnel",
        "-2:2 `proto esp spi 0x000000ff reqid 1 mode tu`: not supported: SPIs go from 256; what \
         has none is not set up yet",
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
        "-4:13 `hmac(sha256)`: not supported: other than hmac(sha1) of 96 bits and hmac(sha256) of \
         128",
    ),
    (
        "\tauth-trunc",
        "\tauth-trunc hmac(sha1) 0x5ec2e7 (24 bits) 96",
        "4:24 `********`: hmac-sha1-96 requires a key of 20 bytes",
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
        "4:24 `******`: must be 0x and an even number of hexadecimal digits",
    ),
    (
        "\tenc",
        "\tenc cbc(des3_ede) 0x5ec2e7",
        "-5:6 `cbc(des3_ede)`: not supported: other than cbc(aes), rfc3686(ctr(aes)) and \
         ecb(cipher_null)",
    ),
    (
        "\tenc",
        "\tenc cbc(aes) 0x5ec2e7",
        "5:15 `********`: aes-cbc requires a key of 16, 24 or 32 bytes",
    ),
    ("\tenc", "\tlastused -", "1:1 `src`: the SA has no `enc` or `aead` line with a key"),
    ("\tlastused", "\tmark 0x1/0xffffffff ", "-6:2 `mark`: not supported: marks"),
    ("\tlastused", "\toutput-mark 0x1/0xffffffff ", "-6:2 `output-mark`: not supported: marks"),
    ("\tlastused", "\tif_id 0x2a", "-6:2 `if_id`: not supported: xfrm interfaces"),
    (
        "\tlastused",
        "\tcrypto offload parameters: dev eth0 dir in mode crypto",
        "-6:2 `crypto`: not supported: offload to a network card",
    ),
    ("\tlastused", "\ttfcpad 5", "-6:2 `tfcpad`: not supported: unknown word in an SA"),
    (
        "\tlastused",
        "\tencap type espintcp sport 1 dport 2 addr 0.0.0.0",
        "-6:13 `espintcp`: not supported: encapsulation other than espinudp",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/8 dst 10.0.0.0/8 dev eth0",
        "-6:36 `dev`: not supported: selectors beyond addresses, protocol and ports",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/8 dst 10.0.0.0/8 proto gre key 5",
        "-6:46 `key`: not supported: selectors beyond addresses, protocol and ports",
    ),
    (
        "\tlastused",
        "\tsel src 10.0.0.0/33 dst 10.0.0.0/8",
        "6:10 `10.0.0.0/33`: not an address with the length of its prefix",
    ),
    (
        "\tlastused",
        "\taead rfc4106(gcm(aes)) 0x5ec2e7 64",
        "-6:7 `rfc4106(gcm(aes))`: not supported: other than rfc4106(gcm(aes)) of 128 bits",
    ),
    (
        "\tanti-replay context",
        "\tanti-replay context: seq 1, oseq 0x100000000, bitmap 0",
        "7:35 `************`: not a number, or one out of range",
    ),
    (
        "\t  limit: soft (INF)(bytes)",
        "\t  limit: soft x(bytes), hard 0(bytes)",
        "9:16 `x(bytes),`: not a number, or one out of range",
    ),
];

/// [`pair`] with another line in place of the first that begins so.
pub(super) fn with(line: &str, new: &str) -> String {
    let all = pair();
    let at = all.find(&format!("\n{line}")).map_or(0, |at| at + 1);
    let end = at + all[at..].find('\n').unwrap();
    format!("{}{new}{}", &all[..at], &all[end..])
}

#[test]
fn mistakes_and_unsupported_options() {
    for (line, new, reported) in WRONG {
        let text = with(line, new);
        let skipped = reported.strip_prefix('-');
        let reported = format!("sas:{}", skipped.unwrap_or(reported));
        let found = read_texts(&text, None, "local = \"192.0.2.1\"");
        assert_eq!(found.mistakes, [reported.as_str()], "{}", found.shown);
        let found = read_texts(&text, None, "local = \"192.0.2.1\"\nunsupported = \"skip\"");
        if skipped.is_some() {
            assert_eq!(found.notices, [reported]);
            assert_eq!(found.database.unwrap().sas.len(), 1, "the other is there");
        } else {
            assert!(found.database.is_none());
        }
    }
}
