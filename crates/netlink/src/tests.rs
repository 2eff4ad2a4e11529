//! Dumps of a kernel (6.18), as it sent them, and the same with damaged bytes. The expected values
//! are those that `ip link`, `ip addr`, `ip neigh` and `ip route` printed for them.

use super::*;

const LINKS: &[u8] = include_bytes!("dumps/links.bin");
const ADDRESSES: &[u8] = include_bytes!("dumps/addresses.bin");
const NEIGHBOURS: &[u8] = include_bytes!("dumps/neighbours.bin");
const ROUTES: [&[u8]; 2] =
    [include_bytes!("dumps/routes4.bin"), include_bytes!("dumps/routes6.bin")];

fn messages(dump: &[u8]) -> Vec<Message> {
    let mut all = Vec::new();
    read(dump, &mut |message| all.push(message));
    all
}

fn name(index: i32) -> String {
    ["lo", "lanp", "lan", "wanp", "wan"][index as usize - 1].into()
}

#[test]
fn links_have_names_and_addresses() {
    let all = messages(LINKS);
    assert_eq!(all.last(), Some(&Message::Done(false)));
    let lan = Link {
        index: 3,
        name: "lan".into(),
        mac: Some([2, 0, 0, 0, 0, 10]),
        is_loopback: false,
        is_gone: false,
    };
    assert!(all.contains(&Message::Link(lan)), "{all:?}");
    assert_eq!(all.len(), 6);
}

#[test]
fn addresses_are_those_of_this_end() {
    let mut own = Vec::new();
    for message in messages(ADDRESSES) {
        if let Message::Address(address) = message
            && name(address.index) == "lan"
        {
            own.push(address.address.to_string());
        }
    }
    assert_eq!(own, ["10.1.0.1", "2001:db8:1::1", "fe80::ff:fe00:a"]);
}

#[test]
fn neighbours_are_known_stale_or_failed() {
    let mac = |last| [2, 0, 0, 0, 0, last];
    let all = messages(NEIGHBOURS);
    for (address, reach) in [
        ("10.1.0.6", Reach::Failed),
        ("10.1.0.7", Reach::Known(mac(0x77))),
        ("10.1.0.8", Reach::Stale(mac(0x88))),
        ("2001:db8:1::9", Reach::Known(mac(0x99))),
    ] {
        let expected = Neighbour { index: 3, address: address.parse().unwrap(), reach };
        assert!(all.contains(&Message::Neighbour(expected)), "{address}: {all:?}");
    }
}

#[test]
fn messages_of_a_bridge_are_no_links_or_neighbours() {
    const FAMILY: usize = 16;
    for dump in [LINKS, NEIGHBOURS] {
        let mut first = dump.to_vec();
        assert_ne!(messages(&first)[0], Message::Other);
        first[FAMILY] = libc::AF_BRIDGE as u8;
        assert_eq!(messages(&first)[0], Message::Other);
    }
}

#[test]
fn routes_are_lines_of_ip_route() {
    let mut lines = Vec::new();
    for dump in ROUTES {
        for message in messages(dump) {
            if let Message::Route(route) = message
                && route.is_main()
                && route.is_alive()
                && !route.prefix.0.to_string().starts_with("fe80")
            {
                lines.push(route.line(name));
            }
        }
    }
    let expected = [
        "0.0.0.0/0 via 192.0.2.9 dev wan",
        "10.1.0.0/24 dev lan",
        "10.2.0.0/16 via 10.1.0.7 dev lan metric 20",
        "10.3.0.0/16 via inet6 fe80::1 dev wan",
        "10.4.0.0/16 nexthop",
        "10.5.0.0/16 via 10.1.0.7 dev lan tos 0",
        "10.7.0.0/16 via 10.1.0.8 dev lan",
        "blackhole 10.66.0.0/16",
        "unreachable 10.67.0.0/16",
        "prohibit 10.68.0.0/16",
        "192.0.2.0/24 dev wan",
        "2001:db8:1::/64 dev lan metric 256",
        "2001:db8:2::/48 via fe80::7 dev lan metric 1024",
        "2001:db8:3::/48 via 2001:db8:1::9 dev lan metric 5",
    ];
    assert_eq!(lines, expected);
}

/// Cut and damaged dumps give fewer or other messages, never more than there is room for.
#[test]
fn damaged_messages_are_harmless() {
    let seed = std::env::var("WARPLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 0x9e37_79b9);
    println!("replay: WARPLINE_SEED={seed}");
    let mut state = seed | 1;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    let dumps = [LINKS, ADDRESSES, NEIGHBOURS, ROUTES[0], ROUTES[1]];
    for _ in 0..20_000 {
        let mut dump = dumps[random(dumps.len())].to_vec();
        for _ in 0..=random(8) {
            let at = random(dump.len());
            dump[at] = [0, 1, 3, 4, 0x7f, 0x80, 0xff, random(256) as u8][random(8)];
        }
        dump.truncate(dump.len() - random(2) * random(64));
        let all = messages(&dump);
        // A message has at least its header.
        assert!(all.len() <= dump.len() / 16);
        for message in all {
            if let Message::Route(route) = message {
                assert!(route.prefix.1 <= 128 && route.hops.len() <= 256);
                assert!(!route.line(|index| index.to_string()).contains('\n'));
            }
        }
    }
}

#[test]
fn the_tables_of_this_machine_are_read() {
    let mut requests = Requests::open().unwrap();
    let links = requests.links().unwrap();
    assert!(links.iter().any(|link| link.name == "lo"), "{links:?}");
    requests.addresses().unwrap();
    requests.neighbours().unwrap();
    requests.route_lines(1 << 20, str::to_owned).unwrap();
    requests.may_resolve().unwrap();
    for groups in [Groups::Neighbours, Groups::Routes] {
        Changes::open(groups).unwrap().receive(&mut |_| {}).unwrap();
    }
}
