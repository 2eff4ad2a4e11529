//! Mistakes in the table and the file, and the messages about them.

use super::*;

fn reported(table: &str, services: &str) -> Vec<String> {
    let Err(mistakes) = try_function(table, services) else { return Vec::new() };
    let line =
        |d: &warpline_nf::Diagnostic| format!("{}:{}:{} {}", d.file, d.line, d.column, d.message);
    mistakes.iter().map(line).collect()
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let plain = cases::PLAIN;
    let mac = plain.replace(".1\n", ".1 mac 2:0:0:0:0:1\n").replace(".2\n", ".2 mac 2:0:0:0:0:2\n");
    let cases: &[(&str, &str, &[&str])] = &[
        ("", plain, &[]),
        ("mode = \"mac\"\nmac = \"2:0:0:0:0:9\"", &mac, &[]),
        (
            "mode = \"mac\"",
            &mac,
            &["chain.toml:1:1 [load_balancer] needs `mac`: the source of frames to backends"],
        ),
        (
            "table_size = 65536",
            plain,
            &["chain.toml:2:14 65536 is not a prime; the next one is 65537"],
        ),
        (
            "table_size = 2",
            plain,
            &["chain.toml:2:14 `table_size` must be a whole number from 3 to 5000011, found 2"],
        ),
        ("mac = \"2:0:0:0:0:9\"", plain, &["chain.toml:2:7 `mac` requires mode = \"mac\""]),
        (
            "tunnel_src_v4 = \"1.2.3\"\nmode = \"ipip\"",
            plain,
            &["chain.toml:2:17 `tunnel_src_v4`: \"1.2.3\": invalid IPv4 address syntax"],
        ),
        (
            "mode = \"nat\"",
            plain,
            &["chain.toml:2:8 `mode` must be \"dnat\", \"ipip\" or \"mac\", found \"nat\""],
        ),
        (
            "addresses = \"10.0.0.0/31\"",
            plain,
            &[
                "services:1:1 192.0.2.10 is not in `addresses`",
                "services:3:2 10.0.0.2 is not in `addresses`",
            ],
        ),
        ("", "# nothing\n", &["services:0:0 no `vip` line"]),
        (
            "",
            "vip 1.2.3.4 tcp 1\nbackend 1.2.3.5\nvip 1.2.3.5 udp 1\n",
            &["services:2:1 1.2.3.5 is a VIP and can't be a backend"],
        ),
        (
            "table_size = 3",
            "vip ::9 tcp 1\nbackend ::1\nbackend ::2\nbackend ::3\nbackend ::4\n",
            &["services:1:1 4 backends take a `table_size` of more than 3"],
        ),
        (
            "conections = 9",
            "vop\n",
            &[
                "chain.toml:2:1 [load_balancer] has no key `conections`",
                "services:1:1 `vop`: not the start of a line",
            ],
        ),
    ];
    for (table, services, expected) in cases {
        assert_eq!(reported(table, services), *expected, "{table}\n{services}");
    }
    let many: String = (0..1000).map(|n| format!("vip ::{n:x}:0:1 udp 1\n")).collect();
    let text = "1000 services with 5000011 places each are too many";
    assert_eq!(reported("table_size = 5000011", &many), [format!("chain.toml:2:14 {text}")]);
}
