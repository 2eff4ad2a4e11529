//! Routes between functions of a chain: who passes what, the counts by path, and mistakes.

use serde_json::{Value, json};

use crate::devices::has_host;
use crate::ends::signal;
use crate::harness::{Demo, LIMIT, wait};
use crate::pcap::{self, Record, capture};
use crate::ports::frame;
use crate::reload::lines_of;
use crate::stats;

const LAN: [u8; 4] = [10, 0, 0, 5];

fn route(from: &str, to: &str, destination: &str) -> String {
    let destination = match destination {
        "" => String::new(),
        some => format!("destination = {some}\n"),
    };
    format!("[[route]]\nfrom = {from:?}\nto = {to:?}\n{destination}")
}

/// Packets to these addresses, one a second.
fn demo(to: &[[u8; 4]]) -> Demo {
    let demo = Demo::new();
    let packet =
        |(at, to): (usize, &[u8; 4])| Record::new(at as u64 * 1_000_000_000, frame(LAN, *to));
    let packets: Vec<Record> = to.iter().enumerate().map(packet).collect();
    demo.write("in.pcap", capture(1, &packets));
    demo
}

const CHAIN: &str = "[chain]\nfunctions = [\"digest\", \"firewall\", \"count\"]\n\
    input = \"in.pcap\"\noutput = \"out.pcap\"\n\
    [firewall]\nfunction = \"digest\"\n[count]\nfunction = \"digest\"\n";

fn routes() -> String {
    [
        route("ingress", "digest", "\"10.1.0.0/16\""),
        route("ingress", "firewall", "[\"10.2.0.0/16\", \"10.2.3.0/24\"]"),
        route("ingress", "egress", "\"10.2.3.4/32\""),
        route("digest", "firewall", "\"10.1.1.0/24\""),
        route("digest", "egress", ""),
        route("firewall", "count", ""),
        route("count", "egress", "\"10.0.0.0/8\""),
    ]
    .concat()
}

#[test]
fn packets_pass_the_functions_of_their_routes() {
    let demo = demo(&[
        [10, 1, 1, 1],
        [10, 1, 2, 1],
        [10, 2, 0, 1],
        [10, 2, 3, 4],
        [10, 3, 0, 1],
        [10, 1, 1, 9],
    ]);
    demo.write("c.toml", format!("{CHAIN}{}", routes()));
    for lanes in [1, 3] {
        let ended = demo.warpline(&format!("run c.toml --lanes {lanes} --stats s.json")).expect(0);
        let (_, sent) = pcap::parse(&demo.read("out.pcap"));
        let times: Vec<u64> = sent.iter().map(|record| record.at_ns / 1_000_000_000).collect();
        assert_eq!(times, [0, 1, 2, 3, 5], "the order of the input");
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        assert_eq!(chain["ingress_drops"], json!({ "no-chain-route": 1 }));
        let path = |functions: &[&str], packets: u64| -> Value {
            json!({ "functions": functions, "packets": packets })
        };
        let paths = json!([
            path(&["digest", "firewall", "count"], 2),
            path(&[], 1),
            path(&["firewall", "count"], 1),
            path(&["digest"], 1),
        ]);
        let sorted = |paths: &Value| {
            let mut all: Vec<String> =
                paths.as_array().expect("a list").iter().map(Value::to_string).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&chain["paths"]), sorted(&paths));
        let passed: Vec<&Value> = chain["functions"]
            .as_array()
            .expect("functions")
            .iter()
            .map(|f| &f["packets_in"])
            .collect();
        assert_eq!(passed, [3, 3, 3]);
        for line in ["ingress: no-chain-route 1", "digest -> firewall -> count"] {
            assert!(ended.stderr.contains(line), "{}", ended.stderr);
        }
    }
}

#[test]
fn check_and_plan_show_the_routes() {
    let demo = demo(&[[10, 1, 1, 1]]);
    demo.write("c.toml", format!("{CHAIN}{}", routes()));
    for command in ["check", "plan"] {
        let reported = demo.warpline(&format!("{command} c.toml")).expect(0).stdout;
        let reported = String::from_utf8_lossy(&reported).into_owned();
        for line in [
            "routes    ingress  -> digest or firewall or egress",
            "          digest   -> firewall or egress",
            "          firewall -> count",
        ] {
            assert!(reported.contains(line), "{reported}");
        }
        let json = demo.warpline(&format!("{command} c.toml --json")).expect(0).stdout;
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        let chain = &json["chains"][0]["routes"];
        assert_eq!(chain[1], json!({ "from": "digest", "to": ["firewall", "egress"] }));
    }
}

/// Each path is shown with the bytes of the functions on it, and each hop is drawn.
#[test]
fn a_plan_follows_the_routes() {
    let demo = demo(&[[10, 1, 1, 1]]);
    demo.write("c.toml", format!("{CHAIN}{}", routes()));
    let is_apart = has_host(&demo);
    let device = match is_apart {
        true => ["digest", "firewall", "count"].map(|one| format!(" --set {one}.in_place=false")),
        false => Default::default(),
    };
    let device = format!("{}{}", if is_apart { " --device host" } else { "" }, device.concat());
    let json = demo.warpline(&format!("plan c.toml --json{device}")).expect(0).stdout;
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    let plan = &json["chains"][0]["modes"]["adaptive"];
    let of_step = |name: &str, of: &str| {
        let steps = plan["steps"].as_array().expect("steps").iter();
        let own = steps.filter(|step| step["function"] == name);
        own.map(|step| step[of]["bytes"].as_f64().expect("bytes")).sum::<f64>()
    };
    let expected: [&[&str]; 4] =
        [&["digest", "firewall", "count"], &["digest"], &["firewall", "count"], &[]];
    let paths = plan["paths"].as_array().expect("paths");
    assert_eq!(paths.len(), expected.len());
    for (path, functions) in paths.iter().zip(expected) {
        assert_eq!(path["functions"], json!(functions));
        for (key, of) in [("to_device_bytes", "to_device"), ("to_host_bytes", "to_host")] {
            let sum: f64 = functions.iter().map(|name| of_step(name, of)).sum();
            assert!((path[key].as_f64().expect("bytes") - sum).abs() < 1e-6, "{path}");
        }
    }
    demo.warpline(&format!("plan c.toml --svg c.svg{device}")).expect(0);
    let drawn = String::from_utf8(demo.read("c.svg")).expect("text");
    assert_eq!(drawn.matches("class=\"hop\"").count(), 7, "one for each hop: {drawn}");
    assert!(drawn.contains("by path   digest -&gt; firewall -&gt; count"), "{drawn}");
    if is_apart {
        let text = demo.warpline(&format!("plan c.toml{device}")).expect(0).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        for line in ["by path   digest -> firewall -> count  ", "no function  "] {
            assert!(text.contains(line), "{text}");
        }
    }
}

/// Packets that come after the reload take the routes of the running chain.
#[test]
fn a_reload_with_other_routes_changes_nothing() {
    let demo = demo(&[[10, 1, 1, 1]]);
    let paused = "[backpressure]\nstart = \"paused\"\n";
    demo.write("c.toml", format!("{CHAIN}{paused}{}", routes()));
    let mut child = demo.start("run c.toml --output out.pcap --stats s.json");
    let lines = lines_of(child.stderr.take().expect("stderr"));
    let line = || lines.recv_timeout(LIMIT).expect("a message");
    assert!(line().ends_with("SIGUSR2 resumes it"));
    let other = route("ingress", "egress", "\"10.1.1.1/32\"");
    demo.write("c.toml", format!("{CHAIN}{paused}{}{other}", routes()));
    signal(&child, "HUP");
    assert_eq!(line(), "reload: `[[route]]` can't change while packets flow");
    assert_eq!(line(), "reload: the previous version keeps running");
    signal(&child, "USR2");
    wait(child).expect(0);
    let chain = &stats::read(&demo, "s.json")["chains"][0];
    let path = json!({ "functions": ["digest", "firewall", "count"], "packets": 1 });
    assert_eq!((&chain["paths"][0], &chain["packets"]["sent"]), (&path, &json!(1)));
}

/// Text added to a chain with straight routes, and the message.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[[route]]\nfrom = \"count\"\nto = \"digest\"\n",
        "c.toml:21:1: routes form a loop: digest -> firewall -> count -> digest",
    ),
    (
        "[[route]]\nfrom = \"count\"\nto = \"digest\"\ndestination = \"10.0.0.0/8\"\n",
        "c.toml:21:1: routes form a loop",
    ),
    (
        "[[route]]\nfrom = \"firewal\"\nto = \"count\"\n",
        "c.toml:21:1: `from`: \"firewal\" is not in the chain",
    ),
    (
        "[[route]]\nfrom = \"ingress\"\nto = \"ingress\"\n",
        "c.toml:21:1: `to`: \"ingress\" is not in the chain",
    ),
    (
        "[[route]]\nfrom = \"digest\"\nto = \"egress\"\n",
        "c.toml:21:1: a second route with the same `from` and `destination`",
    ),
    (
        "[[route]]\nfrom = \"digest\"\nto = \"egress\"\ndestination = [\"10.0.0.0/8\", \
         \"2001:db8::/32\"]\n",
        "c.toml:24:15: `destination`: a route has IPv4 or IPv6 destinations, not both",
    ),
    (
        "[[route]]\nfrom = \"digest\"\nto = \"egress\"\ndestination = \"10.0.0.0/40\"\n",
        "c.toml:24:15: `destination`: \"10.0.0.0/40\": prefix length out of range",
    ),
    (
        "[[route]]\nfrom = \"digest\"\nto = \"egress\"\nport = \"lan\"\n",
        "c.toml:24:8: `port` requires from = \"ingress\"",
    ),
    (
        "[[route]]\nfrom = \"ingress\"\nto = \"egress\"\nport = \"lan\"\n",
        "c.toml:21:1: `port`: there is no port \"lan\"",
    ),
    ("[[route]]\nto = \"egress\"\n", "c.toml:21:1: [[route]] needs `from`"),
    (
        "[[route]]\nfrom = \"digest\"\nto = \"egress\"\nchain = \"other\"\n",
        "c.toml:21:1: there is no chain \"other\"",
    ),
];

#[test]
fn mistakes_have_their_place() {
    let demo = demo(&[]);
    let straight = [
        route("ingress", "digest", ""),
        route("digest", "firewall", ""),
        route("firewall", "count", ""),
        route("count", "egress", ""),
    ];
    let chain = format!("{CHAIN}{}", straight.concat());
    for (added, message) in MISTAKES {
        demo.write("c.toml", format!("{chain}{added}"));
        let reported = demo.warpline("check c.toml").expect(2).stderr;
        assert!(reported.contains(message), "{added}{reported}");
    }
    for (left_out, message) in [
        (0, "c.toml:2:13: no route begins at \"ingress\""),
        (1, "c.toml:9:1: no route leads on from `digest`"),
    ] {
        let rest = straight.iter().enumerate().filter(|(at, _)| *at != left_out);
        let rest: String = rest.map(|(_, route)| route.as_str()).collect();
        demo.write("c.toml", format!("{CHAIN}{rest}"));
        let reported = demo.warpline("check c.toml").expect(2).stderr;
        assert!(reported.contains(message), "{reported}");
    }
}

#[test]
fn a_path_has_both_places_of_a_translator() {
    let demo = demo(&[]);
    let chain = "[chain]\nfunctions = [\"nat\", \"firewall\", \"nat\"]\ninput = \"in.pcap\"\n\
        [nat]\ninside = \"10.0.0.0/8\"\noutside = \"192.0.2.1\"\n[firewall]\n\
        function = \"digest\"\n";
    let routes = [
        route("ingress", "nat:1", ""),
        route("nat:1", "firewall", ""),
        route("firewall", "egress", "\"10.0.0.0/8\""),
        route("firewall", "nat:2", ""),
        route("nat:2", "egress", ""),
    ]
    .concat();
    demo.write("c.toml", format!("{chain}{routes}"));
    let reported = demo.warpline("check c.toml").expect(2).stderr;
    let message = "packets pass `nat:1` and not `nat:2`: a path has both places or neither";
    assert!(reported.contains(message), "{reported}");
    demo.write("c.toml", format!("{chain}{}", routes.replace("\"nat:1\"", "\"nat\"")));
    let reported = demo.warpline("check c.toml").expect(2).stderr;
    assert!(
        reported.contains("\"nat\" has two places") && reported.contains("\"nat:1\" or \"nat:2\""),
        "{reported}"
    );
}

/// The demo's gateway, with routes past functions that only watch. Answers, errors and forwarded
/// ports leave as they do without routes, in the same order.
#[test]
fn a_gateway_with_routes_sends_what_it_sends_without() {
    let demo = Demo::new();
    demo.warpline("demo .").expect(0);
    demo.warpline("run chain.toml --output all.pcap").expect(0);
    let functions = [
        "nat:1",
        "load_balancer:1",
        "flow_monitor",
        "nids",
        "firewall",
        "digest",
        "router",
        "ipcomp",
        "load_balancer:2",
        "nat:2",
    ];
    let ends = |at: usize| functions.get(at).copied().unwrap_or("egress");
    let mut routes = route("ingress", "nat:1", "");
    for (at, from) in functions.iter().enumerate() {
        routes += &route(from, ends(at + 1), "");
    }
    routes += &route("load_balancer:1", "firewall", "[\"198.51.100.0/24\", \"10.1.0.0/24\"]");
    routes += &route("flow_monitor", "firewall", "\"203.0.113.0/24\"");
    routes += &route("firewall", "router", "[\"10.1.0.0/16\", \"198.51.100.0/25\"]");
    routes += &route("router", "load_balancer:2", "\"203.0.113.16/28\"");
    let chain = String::from_utf8(demo.read("chain.toml")).expect("text");
    demo.write("routed.toml", format!("{chain}\n{routes}"));
    let run = "run routed.toml --output routed.pcap --stats s.json";
    for more in ["", "--lanes 3 --set chain.batch_packets=7", "--set nids.stage=own"] {
        demo.warpline(&format!("{run} {more}")).expect(0);
        assert!(demo.read("routed.pcap") == demo.read("all.pcap"), "{more}");
        let chain = &stats::read(&demo, "s.json")["chains"][0];
        let paths = chain["paths"].as_array().expect("paths");
        assert!(paths.len() >= 4, "{paths:?}");
        let passed = |name: &str| {
            let all = chain["functions"].as_array().expect("functions").iter();
            all.clone().find(|own| own["name"] == name).and_then(|own| own["packets_in"].as_u64())
        };
        assert!(passed("nids") < passed("flow_monitor"), "{chain}");
        assert!(passed("flow_monitor") < passed("nat:1"), "{chain}");
    }
}
