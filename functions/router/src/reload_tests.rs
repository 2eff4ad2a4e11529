//! A router whose tables are changed while packets flow.

use super::tests::{Folder, ROUTES, dropped, router, v4, v6};
use super::*;
use warpline_packet::ScratchWord;
use warpline_testkit::finder::Finder;
use warpline_verify::{Input, build as build_function};

#[test]
fn new_routes_hold_from_the_next_batch() {
    let (folder, mut harness) = router("reload", "routes = \"routes\"");
    let sent = [
        Input::at(0, &v4([10, 1, 0, 1], 64)),
        Input::at(0, &v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 64)),
    ];
    let hops = |out: Vec<warpline_verify::Outcome>| -> Vec<u16> {
        out.iter().map(|outcome| outcome.next_hop).collect()
    };
    let before = hops(harness.process(&sent));
    assert!(before.iter().all(|&hop| hop > 0));
    std::fs::write(folder.0.join("routes"), "10.1.0.0/17 192.0.2.9\nblackhole ::/0\n").unwrap();
    assert_eq!(hops(harness.process(&sent)), before, "a file alone changes nothing");
    harness.reload(build_function(&DEFINITION, "routes = \"routes\"", &folder.0).0).unwrap();
    assert_eq!(hops(harness.process(&sent)), [1, 0]);
    assert_eq!(dropped(&mut harness, &v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 64)), "blackhole");
    assert_eq!(dropped(&mut harness, &v4([10, 1, 200, 1], 64)), "no-route");
}

#[test]
fn settings_of_the_state_stay() {
    let neighbours = "192.0.2.1 02:00:00:00:00:11\n";
    let folder = Folder::new("succeeds", &[("routes", ROUTES), ("neighbours", neighbours)]);
    let routes = "routes = \"routes\"\n";
    let ethernet = "neighbours = \"neighbours\"\nmac = \"02:00:00:00:00:01\"\n";
    let other_mac = "neighbours = \"neighbours\"\nmac = \"02:00:00:00:00:02\"\n";
    let icmp = "icmp = \"on\"\nicmp_src_v4 = \"192.0.2.254\"\n";
    let slow = "icmp = \"on\"\nicmp_src_v4 = \"192.0.2.254\"\nicmp_rate_pps = 1\n";
    for (old, new, agrees) in [
        ("", "", true),
        ("", icmp, false),
        (icmp, "", false),
        (icmp, icmp, true),
        (icmp, slow, false),
        ("", ethernet, false),
        (ethernet, "", false),
        (ethernet, other_mac, true),
    ] {
        let mut harness = folder.harness(&format!("{routes}{old}"));
        let new_table = format!("{routes}{new}");
        let reported = harness.reload(build_function(&DEFINITION, &new_table, &folder.0).0);
        assert_eq!(reported.is_ok(), agrees, "{old:?} then {new:?}: {reported:?}");
    }
    let other = Finder::new(ScratchWord::new(0).unwrap(), 1);
    assert!(folder.harness(routes).reload(Box::new(other)).is_err());
}
