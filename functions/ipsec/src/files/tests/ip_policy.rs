//! Output of `ip xfrm policy`.

use std::sync::Arc;

use warpline_packet::{Headers, LinkType, Seed};

use super::ip_state::{pair, with};
use super::*;
use crate::sa::{Action, Carriers};
use crate::spd::Decision;
use crate::tables::Tables;
use crate::tests::gateway::udp;
use crate::traffic::Traffic;

/// As `ip xfrm policy` prints what a tunnel takes, with policies of sockets.
pub(super) const POLICIES: &str = "\
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

/// Priorities, and among equals the oldest first, which is printed last. Seen in a kernel 6 with
/// two policies `dir out` that match one packet: the first that was added decides.
#[test]
fn the_order_of_policies() {
    let line = |net: u8, dir: &str, priority: u32| {
        format!(
            "src 0.0.0.0/0 dst 10.{net}.0.0/16 uid 0\n\tdir {dir} index {net} priority {priority} \
             ptype main share any flag  (0x00000000)\n"
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

/// A change of the `dir out` policy, and its message; if skipped, it drops.
const POLICY_WRONG: &[(&str, &str, &str)] = &[
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 uid 1000",
        "-9:37 `1000`: not supported: policies of users",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 proto gre sport 5 ",
        "-9:1 `src 10.1.0.0/16 dst 10.2.0.0/16 proto gr`: not supported: ports take the protocol \
         tcp, udp or sctp; or icmp or icmpv6, whose type and code they are",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 10.2.0.0/16 proto mobility-header type 5 ",
        "9:39 `mobility-header`: not a protocol that is known",
    ),
    (
        "src 10.1.0.0/16",
        "src 10.1.0.0/16 dst 2001:db8::/32",
        "9:1 `src 10.1.0.0/16 dst 2001:db8::/32`: source and destination are of different IP \
         versions",
    ),
    (
        "\tdir out",
        "\tdir out action 7 priority 1",
        "-10:17 `7`: not supported: actions other than allow and block",
    ),
    (
        "\tdir out",
        "\tdir out priority 1 ptype sub",
        "-10:27 `sub`: not supported: policies of a type other than main",
    ),
    ("\tdir out", "\tdir across priority 1", "10:6 `across`: directions are in, out and fwd"),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.2\n\tmark 0x1/0xff ",
        "-12:2 `mark`: not supported: marks",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\tif_id 0x1\n\ttmpl src 192.0.2.1 dst 192.0.2.2",
        "-11:2 `if_id`: not supported: xfrm interfaces",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.2\n\t\tproto comp reqid 1 mode tunnel\n\
         \ttmpl src 0.0.0.0 dst 0.0.0.0",
        "-12:9 `comp`: not supported: IPsec protocols other than esp|-13:2 `tmpl`: not supported: \
         more than one template",
    ),
    (
        "\ttmpl src 192.0.2.1 dst",
        "\ttmpl src 192.0.2.1 dst 192.0.2.3",
        "-9:1 no SA fits the policy's template: packets that it matches are dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp spi 0x00001000 reqid 1 mode tunnel\n\t\tlevel use ",
        "-13:9 `use`: not supported: optional templates",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp spi 0x00001001 reqid 1 mode tunnel",
        "-9:1 no SA fits the policy's template: packets that it matches are dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp reqid 2 mode tunnel",
        "-9:1 no SA fits the policy's template: packets that it matches are dropped",
    ),
    (
        "\t\tproto esp spi",
        "\t\tproto esp reqid 1 mode transport",
        "-9:1 no SA fits the policy's template: packets that it matches are dropped",
    ),
    ("\t\tproto esp spi", "", "9:1 `src`: the policy has half a template"),
];

#[test]
fn policies_that_are_wrong_or_not_supported() {
    for (line, new, reported) in POLICY_WRONG {
        let changed =
            |own: &str| if own.starts_with(line) { (*new).to_owned() } else { own.to_owned() };
        let text = POLICIES.lines().map(changed).collect::<Vec<_>>().join("\n");
        let skips = reported.starts_with('-');
        let reported: Vec<String> = reported
            .split('|')
            .map(|reported| format!("policies:{}", reported.trim_start_matches('-')))
            .collect();
        let more = "local = \"192.0.2.1\"\n";
        assert_eq!(read_texts(&pair(), Some(&text), more).mistakes, reported);
        let found = read_texts(&pair(), Some(&text), &format!("{more}unsupported = \"skip\""));
        if skips {
            assert_eq!(found.notices, reported);
            let actions: Vec<Action> =
                found.database.unwrap().policies.iter().map(|own| own.action).collect();
            assert_eq!(actions, [Action::Discard, Action::Discard], "{reported:?}");
        } else {
            assert!(found.database.is_none(), "{reported:?}");
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
            "sas:21:2 `mark`: not supported: marks",
            "policies:9:1 no SA fits the policy's template: packets that it matches are dropped",
        ]
    );
    assert_eq!(found.database.unwrap().policies[1].action, Action::Discard);
    let policy = "[[policy]]\ndst = \"10.2.0.0/16\"\naction = \"protect\"\n\
                  sa = [\"0x00001000@192.0.2.2\"]\n";
    let found = read_texts(&text, Some(policy), "local = \"192.0.2.1\"\nunsupported = \"skip\"");
    let reported = "policies:1:1 its SA was skipped (0x00001000@192.0.2.2): packets that it \
                    matches are dropped";
    assert_eq!(found.notices[1], reported);
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
    let reported =
        "policies:1:1 no SA fits the policy's template: packets that it matches are dropped";
    assert_eq!(read_texts(&text, Some(&other), "local = \"192.0.2.1\"").mistakes, [reported]);
}

#[test]
fn a_tunnel_that_no_policy_lets_in_is_refused() {
    let policies = &POLICIES[POLICIES.find("src 10.1").unwrap()..];
    let reported = "sas:1:1 no policy lets in what SA 0xc1a2b3c4@192.0.2.1 carries";
    assert_eq!(read_texts(&pair(), Some(policies), "local = \"192.0.2.1\"").mistakes, [reported]);
}

/// RFC 4301, 5.2: a packet in the clear from the peer's network is dropped. Of packets that an SA
/// opened, the first inbound policy decides which SA may carry them.
#[test]
fn inbound_policies_decide_which_sa_may_carry_a_packet() {
    let of_peer = |src: &str, peer: &str, priority: u32| {
        format!(
            "src {src} dst 10.1.0.0/16 \n\tdir in priority {priority} ptype main \n\
             \ttmpl src {peer} dst 192.0.2.1\n\t\tproto esp reqid 1 mode tunnel\n"
        )
    };
    let blocks = |priority: u32| {
        format!("src 0.0.0.0/0 dst 0.0.0.0/0 \n\tdir in action block priority {priority} \n")
    };
    let other = pair()
        .replace("192.0.2.2", "192.0.2.3")
        .replace("c1a2b3c4(3248665540)", "c1a2b3c5(3248665541)");
    let other = other.split("src 192.0.2.1").next().unwrap().to_owned();
    let packet = udp("10.2.1.5", "10.1.0.1", [1, 2], 40);
    let headers = Headers::parse(&packet, LinkType::RAW, packet.len());
    let traffic = Traffic::of(&packet, &headers).unwrap();
    // Whether the SA of 192.0.2.2 and that of 192.0.2.3 may carry it, and the outbound decision.
    let judge = |more: String| {
        let text = format!("{more}{POLICIES}");
        let database = good(read_texts(&format!("{other}{}", pair()), Some(&text), ""));
        let row = |src: &str| {
            let is_it = |sa: &crate::sa::Sa| sa.src.to_string() == src;
            database.sas.iter().position(is_it).unwrap() as u16
        };
        let rows = ["192.0.2.2", "192.0.2.3"].map(row);
        let tables = Tables::build(database, Seed::new(1)).unwrap();
        let decide = |was_opened| tables.decide_outbound(&packet, &headers, was_opened).unwrap();
        assert_eq!(decide(false), Decision::Is(Action::Discard));
        (rows.map(|row| tables.carries(row, &traffic)), decide(true))
    };
    let wide = of_peer("10.2.0.0/15", "192.0.2.3", 400_000);
    assert_eq!(judge(wide.clone()), ([true, false], Decision::None));
    let narrow = of_peer("10.2.1.0/24", "192.0.2.3", 1_000);
    assert_eq!(judge(narrow), ([false, true], Decision::None));
    assert_eq!(judge(format!("{wide}{}", blocks(1_000_000))), ([true, false], Decision::None));
    assert_eq!(judge(format!("{wide}{}", blocks(1))), ([false, false], Decision::None));
}

/// Many policies may admit all SAs, so their lists must not multiply.
#[test]
fn inbound_policies_for_the_same_sas_share_a_list() {
    let any = |net: u8| {
        format!(
            "src 10.{net}.0.0/16 dst 10.1.0.0/16 \n\tdir in priority 1 ptype main \n\
             \ttmpl src 0.0.0.0 dst 0.0.0.0\n\t\tproto esp reqid 0 mode tunnel\n"
        )
    };
    let sa = pair().split("src 192.0.2.1").next().unwrap().to_owned();
    let sas: String = (0..100)
        .map(|at| sa.replace("0xc1a2b3c4(3248665540)", &format!("{:#x}({})", 4096 + at, 4096 + at)))
        .collect();
    let policies: String = (2..=9).map(any).collect();
    let database = good(read_texts(&sas, Some(&policies), "local = \"192.0.2.1\""));
    let lists = database.inbound.iter().map(|own| match &own.carriers {
        Carriers::These(list) => list,
        Carriers::Any => panic!("{own:?}"),
    });
    let lists: Vec<_> = lists.collect();
    assert_eq!((lists.len(), &lists[0][..]), (8, &(0..100).collect::<Vec<_>>()[..]));
    assert!(lists.iter().all(|list| Arc::ptr_eq(list, lists[0])));
}
