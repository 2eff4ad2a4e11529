//! Remarks and mistakes about files of rules beside other keys and ports.

use warpline_nf::{Resources, Side};

use super::gateway::{built, ports, saved, try_built};

const LAN: (&str, Side) = ("lan", Side::Inside);
const DMZ: (&str, Side) = ("dmz", Side::Inside);
const WAN: (&str, Side) = ("wan", Side::Outside);
const WAN2: (&str, Side) = ("wan2", Side::Outside);

/// With several inside ports packets may leave by these, whatever `-o` asks for.
#[test]
fn rules_that_presume_outside_ports_are_remarked() {
    for (all, condition, is_remarked) in [
        (&[LAN, WAN][..], "-o wan", false),
        (&[LAN, WAN, WAN2], "-o wan+", false),
        (&[LAN, DMZ, WAN], "-o wan", true),
        (&[LAN, DMZ, WAN], "! -o lan", true),
        (&[LAN, DMZ, WAN], "-o +", false),
        (&[LAN, DMZ, WAN], "-i lan", false),
        (&[LAN, DMZ, WAN, WAN2], "-o wan+", true),
    ] {
        let rule = format!(
            "-A POSTROUTING -s 10.1.0.0/16 ! -d 10.1.0.0/16 {condition} -j SNAT --to-source \
             203.0.113.1"
        );
        let mut resources = ports(all);
        built(&saved(&[&rule]), &mut resources);
        let remarks = resources.remarks().to_string();
        let found = remarks.contains("`-o` holds for all packets to addresses that are not inside");
        assert_eq!(found, is_remarked, "{condition}: {remarks}");
    }
}

/// Beside rules a mistake in a list names its item. The rules have the inside addresses.
#[test]
fn mistakes_beside_rules_point_at_the_item() {
    let rules = saved(&[
        "-A PREROUTING -d 203.0.113.1/32 -p tcp --dport 80 -j DNAT --to-destination 10.1.0.5",
        "-A POSTROUTING -s 10.1.0.0/16 -j SNAT --to-source 203.0.113.1",
    ]);
    let keys = "forwards = [\n  \"tcp 203.0.113.1 81 to 10.1.0.5\",\n  \
                \"tcp 203.0.113.1 82 to 192.0.2.7\",\n]";
    let reported = try_built(&rules, keys, &mut Resources::default()).err().unwrap().to_string();
    assert!(reported.contains("chain.toml:4:3: "), "{reported}");
    assert!(reported.contains("192.0.2.7 is not in `inside`"), "{reported}");
    assert!(!reported.contains("write inside"), "{reported}");
}
