//! SAs in TOML.

use super::*;
use crate::cipher::{Auth, Cipher};
use crate::sa::{Direction, DontFragment, Encap, Lifetime, Limits, Mode, Outer, Selector};

/// A table of an SA that reads, and `more` lines of it.
pub(super) fn one_sa(more: &str) -> String {
    sa("a", 1000, "out", &format!("cipher = \"aes-gcm\"\nenc_key = \"{}\"\n{more}", hex(20, 1)))
}

pub(super) fn sa(name: &str, spi: u32, direction: &str, rest: &str) -> String {
    format!(
        "[[sa]]\nname = \"{name}\"\nspi = {spi}\ndirection = \"{direction}\"\n\
         src = \"192.0.2.1\"\ndst = \"192.0.2.2\"\nmode = \"tunnel\"\n{rest}\n"
    )
}

pub(super) fn gcm(number: u8) -> String {
    format!("cipher = \"aes-gcm\"\nenc_key = \"{}\"", hex(20, number))
}

#[test]
fn every_key() {
    let text = format!(
        r#"
[[sa]]
name = "to-b"
direction = "out"
spi = "0xC0FFEE01"
src = "2001:db8::1"
dst = "2001:db8::2"
mode = "tunnel"
cipher = "aes-cbc"
enc_key = "{}"
auth = "hmac-sha1-96"
auth_key = "{}"
esn = true
encap = {{ dst_port = 4501 }}
selectors = [
    {{ src = "10.1.0.0/16", dst = "10.2.0.0/16", protocol = "tcp", dst_ports = "1-1023" }},
    {{ dst = "2001:db8:2::/48", protocol = 58, src_ports = 128 }},
]
lifetime.soft = {{ bytes = 1000, seconds = 9 }}
lifetime.hard = {{ packets = 18_446_744_073_709_551_615 }}
sequence = 4294967296
dscp = 46
ecn = false
df = "set"
hops = 255
mtu = 1500

[[sa]]
name = "from-b"
direction = "in"
spi = 0x100
src = "192.0.2.2"
dst = "192.0.2.1"
mode = "transport"
cipher = "null"
auth = "hmac-sha2-256-128"
auth_key = "{}"
replay_window = 4096
dscp = "copy"
"#,
        hex(32, 0),
        hex(20, 0),
        hex(32, 0)
    );
    let database = good(read_texts(&text, None, ""));
    let [out, own] = &database.sas[..] else { panic!("{database:?}") };
    assert_eq!((&out.name[..], out.direction, out.spi), ("to-b", Direction::Out, 0xc0ff_ee01));
    assert_eq!(
        (out.src, out.dst),
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
    );
    assert_eq!((out.mode, out.cipher, out.auth), (Mode::Tunnel, Cipher::Cbc, Auth::Sha1));
    assert_eq!((out.enc_key.0.len(), out.auth_key.0.len()), (32, 20));
    assert_eq!(out.auth_key.0[..5], [0x5e, 0xc2, 0xe7, 0, 4]);
    assert_eq!(out.encap, Some(Encap { src_port: 4500, dst_port: 4501 }));
    assert_eq!((out.esn, out.sequence, out.replay_window), (true, 1 << 32, 0));
    let soft = Limits { bytes: Some(1000), packets: None, seconds: Some(9) };
    let hard = Limits { packets: Some(u64::MAX), ..Limits::default() };
    assert_eq!(out.lifetime, Lifetime { soft, hard });
    let dont_fragment = DontFragment::Set;
    assert_eq!(
        out.outer,
        Outer { dscp: Some(46), ecn: false, dont_fragment, hops: 255, mtu: 1500 }
    );
    let prefix = |text: &str| text.parse().unwrap();
    let (src, dst) = (prefix("10.1.0.0/16"), prefix("10.2.0.0/16"));
    let tcp = Selector { src, dst, protocol: Some(6), src_ports: 0..=65535, dst_ports: 1..=1023 };
    let (src, dst) = (prefix("::/0"), prefix("2001:db8:2::/48"));
    let echo =
        Selector { src, dst, protocol: Some(58), src_ports: 128..=128, dst_ports: 0..=65535 };
    assert_eq!(out.selectors, [tcp, echo]);
    assert_eq!((own.direction, own.spi, own.mode), (Direction::In, 256, Mode::Transport));
    assert_eq!((own.cipher, own.auth, own.replay_window), (Cipher::Null, Auth::Sha256, 4096));
    assert_eq!((own.outer, own.encap), (Outer::default(), None));
}

#[test]
fn defaults() {
    let found = good(read_texts(&one_sa("").replace("\"out\"", "\"in\""), None, ""));
    let sa = &found.sas[0];
    assert_eq!((sa.esn, sa.replay_window, sa.sequence, sa.encap), (false, 64, 0, None));
    assert_eq!(
        (sa.outer, sa.lifetime, sa.auth),
        (Outer::default(), Lifetime::default(), Auth::None)
    );
    assert!(sa.selectors.is_empty());
}

#[test]
fn key_lengths() {
    let ciphers =
        [("aes-cbc", &[16, 24, 32][..]), ("aes-ctr", &[20, 28, 36]), ("aes-gcm", &[20, 28, 36])];
    for (cipher, lens) in ciphers {
        for len in 1..=40 {
            let auth = if cipher == "aes-gcm" { "none" } else { "hmac-sha1-96" };
            let auth_key = if cipher == "aes-gcm" { "0x".into() } else { hex(20, 0) };
            let rest = format!(
                "cipher = \"{cipher}\"\nenc_key = \"{}\"\nauth = \"{auth}\"\n\
                 auth_key = \"{auth_key}\"",
                hex(len, 0)
            );
            let found = read_texts(&sa("a", 256, "in", &rest), None, "");
            assert_eq!(found.database.is_some(), lens.contains(&len), "{cipher} {len}");
        }
    }
}

/// ESP in UDP is received at one port.
#[test]
fn inbound_sas_have_the_port_that_is_read() {
    for (direction, port, is_read) in
        [("in", 4500, true), ("in", 14500, false), ("out", 14500, true)]
    {
        let encap = format!("encap = {{ dst_port = {port} }}\n{}", gcm(1));
        let found = read_texts(&sa("a", 256, direction, &encap), None, "");
        assert_eq!(found.mistakes.is_empty(), is_read, "{direction} {port}: {:?}", found.mistakes);
    }
}

/// A line added to or changed in a valid table, and its message.
const WRONG: &[(&str, &str)] = &[
    ("name = \"a b\"", "`name` must be 1 to 64 characters without blanks"),
    (
        "name = \"0x5ec2e70405060708090a0b0c0d0e0f\"",
        "`name` must be 1 to 64 characters without blanks",
    ),
    ("name = \"\"", "`name` must be 1 to 64 characters without blanks"),
    ("direction = \"fwd\"", "`direction` must be \"in\" or \"out\", found \"fwd\""),
    ("spi = 255", "`spi` must be a number from 256 to 4294967295, or as \"0x...\""),
    ("spi = \"0x+100\"", "`spi` must be a number from 256 to 4294967295, or as \"0x...\""),
    ("spi = 4294967296", "`spi` must be a number from 256 to 4294967295, or as \"0x...\""),
    ("src = \"192.0.2\"", "`src`: \"192.0.2\": invalid IP address syntax"),
    ("dst = \"ff02::1\"", "`dst` must be the address of one host"),
    ("dst = \"2001:db8::2\"", "`src` and `dst` are of different IP versions"),
    ("mode = \"beet\"", "`mode` must be \"tunnel\" or \"transport\", found \"beet\""),
    (
        "cipher = \"3des\"",
        "`cipher` must be \"aes-cbc\", \"aes-ctr\", \"aes-gcm\" or \"null\", found \"3des\"",
    ),
    (
        "enc_key = \"0x5ec2e7\"",
        "`enc_key`: aes-gcm requires a key of 16, 24 or 32 bytes and 4 of salt",
    ),
    ("enc_key = \"0x5ec2e\"", "`enc_key` must be 0x and an even number of hexadecimal digits"),
    ("enc_key = \"5ec2e7xyzzy\"", "`enc_key` must be 0x and an even number of hexadecimal digits"),
    ("enc_key = [ \"0x5ec2e7\" ]", "`enc_key` must be a string, found a list"),
    ("auth = \"hmac-sha1-96\"", "aes-gcm authenticates by itself: `auth` is \"none\" or absent"),
    ("auth_key = \"0x5ec2e7\"", "`auth_key`: a key requires authentication"),
    ("auth_kee = \"0x5ec2e7\"", "[sa] has no key `auth_kee`"),
    ("esn = 1", "`esn` must be true or false, found a number"),
    ("replay_window = 31", "`replay_window` must be 0, or 32 to 4096"),
    ("replay_window = 4097", "`replay_window` must be a whole number from 0 to 4096, found 4097"),
    ("encap = 4500", "`encap` must be a table"),
    ("encap = { src_port = 0 }", "`src_port` must be a whole number from 1 to 65535, found 0"),
    ("encap = { port = 1 }", "[encap] has no key `port`"),
    ("selectors = [ 5 ]", "`selectors` must be a list of tables"),
    ("selectors = [ {} ]", "[selectors] needs `src`: a prefix; `dst` may take its place"),
    (
        "selectors = [ { src = \"10.0.0.0/8\", dst = \"::/0\" } ]",
        "`src` and `dst` are of different IP versions",
    ),
    (
        "selectors = [ { src = \"10.0.0.1/8\" } ]",
        "`src`: \"10.0.0.1/8\": address has bits set after the prefix length",
    ),
    (
        "selectors = [ { src = \"::/0\", protocol = \"tpc\" } ]",
        "`protocol` must be a name, such as tcp, a number from 0 to 255, or any",
    ),
    (
        "selectors = [ { src = \"::/0\", protocol = 6, src_ports = \"9-1\" } ]",
        "`src_ports` must be a number from 0 to 65535, or two: \"1-1023\"",
    ),
    (
        "selectors = [ { src = \"::/0\", dst_ports = 80 } ]",
        "ports take the protocol tcp, udp or sctp; or icmp or icmpv6, whose type and code they are",
    ),
    (
        "selectors = [ { src = \"::/0\", protocol = \"icmpv6\", src_ports = 256 } ]",
        "types and codes of ICMP go from 0 to 255",
    ),
    ("lifetime = { firm = {} }", "[lifetime] has no key `firm`"),
    (
        "lifetime = { hard = { bytes = 0 } }",
        "`bytes` must be a whole number from 1 to 18446744073709551615, found 0",
    ),
    (
        "sequence = 4294967296",
        "`sequence` must be a whole number from 0 to 4294967295, found 4294967296",
    ),
    ("dscp = 64", "`dscp` must be a whole number from 0 to 63, found 64"),
    ("dscp = \"ef\"", "`dscp` must be \"copy\", found \"ef\""),
    ("df = true", "`df` must be \"copy\", \"set\" or \"clear\", found a boolean"),
    ("hops = 0", "`hops` must be a whole number from 1 to 255, found 0"),
    ("mtu = 575", "`mtu` must be a whole number from 576 to 65535, found 575"),
];

#[test]
fn wrong_values() {
    for (line, reported) in WRONG {
        let key = line.split(' ').next().unwrap();
        let good = one_sa("");
        let mut lines: Vec<&str> =
            good.lines().filter(|own| own.split(' ').next() != Some(key)).collect();
        lines.push(line);
        let found = read_texts(&lines.join("\n"), None, "");
        let place = format!("sas:{}:", lines.len());
        let own = &found.mistakes[..];
        assert!(
            own.len() == 1 && own[0].starts_with(&place) && own[0].ends_with(reported),
            "{line}: {own:?}"
        );
    }
}

#[test]
fn missing_keys() {
    let found = read_texts("[[sa]]\nesn = true\n", None, "");
    let needed = [
        "`name`: the name in counters and messages",
        "`spi`: the number that packets carry",
        "`src`: the address of an end of the SA",
        "`dst`: the address of an end of the SA",
        "`mode`: \"tunnel\" or \"transport\"",
        "`cipher`: \"aes-cbc\", \"aes-ctr\", \"aes-gcm\" or \"null\"",
    ];
    let reported: Vec<String> =
        needed.iter().map(|own| format!("sas:1:1 [sa] needs {own}")).collect();
    assert_eq!(found.mistakes, reported);
}

#[test]
fn no_key_is_quoted() {
    let secret = hex(20, 1);
    let texts = [
        // Not TOML.
        format!("[[sa]]\nenc_key = {secret}{secret}\n"),
        format!("[[sa]]\nenc_key = \"{secret}\nspi = 5"),
        format!("{secret}\n"),
        format!("sa = [{{ enc_key = \"{secret}\", spi = }}]"),
        // TOML with a mistake beside the key.
        format!("sa = [{{ enc_key = \"{secret}\", spi = 5 }}]"),
        format!("[[sa]]\nspi = 5 # {secret}\n"),
        format!("[[sa]]\nsrc = \"{secret}\"\nname = \"{secret} \"\n"),
        format!("[[sa]]\nkey = '''\n{secret}'''\n[sa.enc_key]\nx = \"0x5ec2e7\"\n"),
        "x = \"5ec2e7\"".to_owned(),
    ];
    for text in texts {
        let found = read_texts(&text, None, "");
        assert!(
            found.database.is_none() && found.mistakes[0].starts_with("sas:"),
            "{}",
            found.shown
        );
    }
    let found = read_texts("[[sa]]\nspi = = 5\n", None, "");
    assert!(
        found.mistakes[0].starts_with("sas:2:7 neither TOML nor output of `ip xfrm`: "),
        "{}",
        found.shown
    );
}

#[test]
fn duplicate_keys() {
    let text = [
        sa("a", 256, "in", &gcm(1)),
        sa("a", 256, "in", &gcm(2)),
        sa("c", 256, "out", &gcm(1)),
        sa("d", 257, "out", &gcm(1)),
        sa("e", 258, "out", &gcm(3)),
        sa("f", 259, "in", &gcm(3)),
        sa("g", 260, "in", &gcm(3)),
    ];
    let found = read_texts(&text.concat(), None, "");
    assert_eq!(
        found.mistakes,
        [
            "sas:10:1 another SA is called a",
            "sas:10:1 SA a has the same SPI at 192.0.2.2",
            // c is the other end of a, as it may be where both are tried in one process.
            "sas:28:1 SA d has the key and salt of SA a: nonces would repeat",
            "sas:46:1 SA f has the key and salt of SA e: nonces would repeat",
            "sas:55:1 SA g has the key and salt of SA e: nonces would repeat",
        ]
    );
}

#[test]
fn directions() {
    let text = one_sa("").replace("direction = \"out\"\n", "");
    for (local, direction) in [("192.0.2.2", Direction::In), ("192.0.2.1/32", Direction::Out)] {
        let found = good(read_texts(&text, None, &format!("local = [\"{local}\"]")));
        assert_eq!(found.sas[0].direction, direction);
    }
    let policy = "[[policy]]\ndst = \"10.0.0.0/8\"\naction = \"protect\"\nsa = \"a\"\n";
    assert_eq!(good(read_texts(&text, Some(policy), "")).sas[0].direction, Direction::Out);
    for more in ["", "local = \"192.0.2.0/24\"", "local = \"10.0.0.0/8\""] {
        let reported = "sas:1:1 whether SA a is for packets that come in or go out is not \
                        reported: `local` lists addresses of this gateway, a TOML file may say \
                        `direction`";
        assert_eq!(read_texts(&text, None, more).mistakes, [reported]);
    }
}

#[test]
fn without_authentication() {
    let rest = format!("cipher = \"aes-cbc\"\nenc_key = \"{}\"\nauth = \"none\"", hex(16, 0));
    let text = sa("a", 256, "in", &rest);
    let reported = "sas:1:1 SA a has no authentication, which requires insecure = true";
    assert_eq!(read_texts(&text, None, "").mistakes, [reported]);
    good(read_texts(&text, None, "insecure = true"));
}
