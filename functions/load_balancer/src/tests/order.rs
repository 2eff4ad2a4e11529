//! The order of lines in the file of services decides nothing.

use proptest::prelude::*;

use super::*;

const SERVICES: [(&str, &[&str]); 3] = [
    (
        "vip 192.0.2.10 tcp 80,443",
        &[
            "backend 10.0.0.1",
            "backend 10.0.0.2 weight 3",
            "backend 10.0.0.2 port 8080 weight 2",
            "backend 10.0.0.3 port 8080",
            "backend 10.0.0.4 drain",
            "backend 10.0.0.5 weight 100",
            "backend 10.0.0.6 down",
        ],
    ),
    ("vip 192.0.2.10 udp 53", &["backend 10.0.0.1", "backend 10.0.0.2", "backend 10.0.0.3"]),
    ("vip 2001:db8::10 tcp 80", &["backend fd00::1", "backend fd00::2", "backend fd00::a"]),
];

const KEYS: &str = "addresses = [\"10.0.0.0/24\", \"192.0.2.0/24\", \"2001:db8::/64\", \
                    \"fd00::/64\"]\ntable_size = 251";

/// The services, and the backends of each, in a random order.
fn file() -> impl Strategy<Value = String> {
    let service = |(vip, backends): (&'static str, &'static [&'static str])| {
        let lines = Just(backends.to_vec()).prop_shuffle();
        lines.prop_map(move |lines| format!("{vip}\n{}\n", lines.join("\n")))
    };
    let services: Vec<_> = SERVICES.into_iter().map(service).collect();
    services.prop_shuffle().prop_map(|services| services.concat())
}

/// New connections of many clients to every service.
fn clients(ports: core::ops::Range<u16>) -> Vec<Datagram> {
    let of_port = |port: u16| {
        [
            tcp(("198.51.100.7", port), ("192.0.2.10", 80), SYN),
            tcp(("198.51.100.8", port), ("192.0.2.10", 443), SYN),
            udp(("198.51.100.9", port), ("192.0.2.10", 53)),
            tcp(("2001:db8:f::7", port), ("2001:db8::10", 80), SYN),
        ]
    };
    ports.flat_map(of_port).collect()
}

fn destinations(harness: &mut Harness, sent: &[Datagram]) -> Vec<(IpAddr, u16)> {
    let out = sent.iter().map(|datagram| send(harness, 1000, datagram));
    out.map(|out| (reason(&out), destination(&out.bytes)))
        .map(|(why, to)| {
            assert_eq!(why, "");
            to
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn balancers_agree_whatever_the_order_of_lines(one in file(), other in file()) {
        let sent = clients(5000..5060);
        let (mut first, mut second) = (balancer(KEYS, &one), balancer(KEYS, &other));
        let expected = destinations(&mut first, &sent);
        prop_assert_eq!(&destinations(&mut second, &sent), &expected);
        // Each takes over the other's file: old connections stay, new ones agree.
        first.reload(function(KEYS, &other)).unwrap();
        prop_assert_eq!(destinations(&mut first, &sent), expected);
        prop_assert_eq!(first.counter("moved"), 0);
        let new = clients(6000..6060);
        prop_assert_eq!(destinations(&mut first, &new), destinations(&mut second, &new));
    }
}

/// Without a port of its own, and with the VIP's, a backend is the same target twice.
#[test]
fn a_target_named_twice_keeps_its_connections_in_either_order() {
    let file = |lines: [&str; 2]| format!("vip 192.0.2.10 tcp 80\n{}\n{}\n", lines[0], lines[1]);
    let before = file(["backend 10.0.0.1", "backend 10.0.0.1 port 80"]);
    let lines = ["backend 10.0.0.1", "backend 10.0.0.1 port 80"];
    for down in 0..2 {
        for first in 0..2 {
            let mut after = lines.map(str::to_owned);
            after[down] += " down";
            let after = file([&after[first], &after[1 - first]]);
            let mut harness = balancer(KEYS, &before);
            let sent: Vec<Datagram> = (5000..5040)
                .map(|port| tcp(("198.51.100.7", port), ("192.0.2.10", 80), SYN))
                .collect();
            destinations(&mut harness, &sent);
            harness.reload(function(KEYS, &after)).unwrap();
            destinations(&mut harness, &sent);
            assert_eq!(harness.counter("moved"), 0, "{after}");
        }
    }
}
