//! `run --metrics`: its samples equal the statistics, and Prometheus scrapes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::devices::has_host;
use crate::docs::is_installed;
use crate::ends::signal;
use crate::harness::{Child, Demo, LIMIT, wait};

const CHAIN: &str = "[chain]\nname = \"edge\"\nfunctions = [\"firewall\", \"nat\"]\n\
    [firewall]\nrules = \"rules\"\n[nat]\ninside = [\"10.0.0.0/8\"]\noutside = [\"203.0.113.1\"]\n";

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The status line and headers, and the body.
fn get(port: u16, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

pub(crate) fn scrape(port: u16) -> String {
    get(port, "/metrics").expect("an answer").1
}

/// The value of the sample that begins with `name`, labels included.
pub(crate) fn sample(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

/// A running chain with metrics and a socket.
fn started() -> (Demo, Child, u16) {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "drop udp from any port 1000-20000 to any\naccept from any to any\n");
    let port = free_port();
    let child = demo.start(&format!(
        "run c.toml --input generate:packets=1000000000000,size=100,rate_gbps=0.1 --quiet \
         --socket c.sock --lanes 2 --stats s.json --metrics 127.0.0.1:{port}"
    ));
    let begun = Instant::now();
    while !get(port, "/metrics").is_some_and(|(_, text)| all_work(&text)) {
        assert!(begun.elapsed() < LIMIT, "it serves metrics");
        std::thread::sleep(Duration::from_millis(20));
    }
    (demo, child, port)
}

/// Whether packets went through the last function on both lanes and to the end.
fn all_work(text: &str) -> bool {
    let samples = [
        "warpline_lane_packets_total{chain=\"edge\",function=\"nat\",lane=\"0\"}",
        "warpline_lane_packets_total{chain=\"edge\",function=\"nat\",lane=\"1\"}",
        "warpline_latency_seconds_count{chain=\"edge\"}",
    ];
    samples.iter().all(|name| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.is_some_and(|value| value != " 0")
    })
}

fn ctl(demo: &Demo, request: &str) -> Value {
    let ended = demo.warpline(&format!("ctl --socket c.sock {request} --json")).expect(0);
    serde_json::from_slice(&ended.stdout).unwrap()
}

/// Waits until a paused chain has no packets in flight; gives its statistics.
fn drained(demo: &Demo) -> Value {
    let begun = Instant::now();
    loop {
        let stats = ctl(demo, "stats")["chains"][0].clone();
        if stats["packets"]["in_flight"] == 0 {
            return stats;
        }
        assert!(begun.elapsed() < LIMIT, "it drains: {}", stats["packets"]);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn samples_equal_the_statistics() {
    let (demo, child, port) = started();
    let (head, body) = get(port, "/healthz").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "healthy\n");
    ctl(&demo, "pause");
    let stats = drained(&demo);
    let (head, text) = get(port, "/metrics").unwrap();
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(text.ends_with("# EOF\n"));
    let chain = "chain=\"edge\"";
    for outcome in ["read", "sent", "dropped", "malformed", "overload", "unwritten", "absorbed"] {
        let name = format!("warpline_packets_total{{{chain},outcome=\"{outcome}\"}}");
        assert_eq!(stats["packets"][outcome], sample(&text, &name), "{outcome}");
    }
    for (position, function) in ["firewall", "nat"].into_iter().enumerate() {
        let of = &stats["functions"][position];
        let labels = format!("{chain},function=\"{function}\"");
        let name = format!("warpline_function_packets_total{{{labels},direction=\"in\"}}");
        assert_eq!(of["packets_in"], sample(&text, &name));
        for (reason, count) in of["drops"].as_object().unwrap() {
            let name = format!("warpline_function_drops_total{{{labels},reason=\"{reason}\"}}");
            assert_eq!(*count, sample(&text, &name), "{reason}");
        }
        let by_lane = |lane| format!("warpline_lane_packets_total{{{labels},lane=\"{lane}\"}}");
        let lanes = [0, 1].map(|lane| sample(&text, &by_lane(lane)));
        assert_eq!(of["packets_in"], lanes.iter().sum::<u64>());
    }
    let labels = format!("{{{chain},function=\"nat\"}}");
    let counters = &stats["functions"][1]["counters"];
    assert_eq!(counters["created"], sample(&text, &format!("warpline_nat_created_total{labels}")));
    assert_eq!(counters["bindings"], sample(&text, &format!("warpline_nat_bindings{labels}")));
    let latency = format!("warpline_latency_seconds_count{{{chain}}}");
    let count = sample(&text, &latency);
    let last = text.lines().find(|line| line.contains("bucket") && line.contains("+Inf"));
    assert!(last.is_some_and(|line| line.ends_with(&format!(" {count}"))), "{last:?}");
    signal(&child, "TERM");
    wait(child).expect(143);
    let end: Value = serde_json::from_slice(&demo.read("s.json")).unwrap();
    assert_eq!(end["chains"][0]["packets"]["read"], stats["packets"]["read"]);
}

/// The output is a pipe that is not read.
#[test]
fn a_blocked_output_is_a_stall() {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "accept from any to any\n");
    let port = free_port();
    let _child = demo.start(&format!(
        "run c.toml --input generate:packets=1000000000000 --output - --metrics 127.0.0.1:{port}"
    ));
    let begun = Instant::now();
    let (head, body) = loop {
        let answer = get(port, "/healthz").unwrap_or_default();
        if answer.1.starts_with("stalled") {
            break answer;
        }
        assert!(begun.elapsed() < LIMIT, "it stalls: {answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(body.contains("chain \"edge\": the sender has not answered for 5 s"), "{body}");
}

#[test]
fn moves_and_launches_have_samples() {
    let (demo, _child, port) = started();
    if !has_host(&demo) {
        return;
    }
    let moved = |text: &str| sample(text, "warpline_moves_total{chain=\"edge\"}");
    let text = scrape(port);
    assert_eq!(moved(&text), 0);
    assert!(!text.contains("warpline_stage_launch_bytes{"), "the CPU has no launches");
    ctl(&demo, "place nat host");
    let text = scrape(port);
    let chain = ctl(&demo, "stats")["chains"][0].clone();
    assert_eq!((moved(&text), &chain["moves"]["count"]), (1, &1.into()));
    let number = |name: &str| {
        let labels = "{chain=\"edge\",stage=\"nat\",device=\"host\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(labels));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse::<f64>().unwrap()
    };
    let is = |number: f64, expected: f64| (number - expected).abs() < 1e-9;
    let launch = &chain["stages"][1]["launch"];
    let expected = launch["kib"].as_f64().unwrap() * 1024.0;
    assert!(is(number("warpline_stage_launch_bytes"), expected), "{launch}");
    let expected = launch["delay_us"].as_f64().unwrap() / 1e6;
    assert!(is(number("warpline_stage_launch_deadline_seconds"), expected), "{launch}");
    let stall = "warpline_move_stall_max_seconds{chain=\"edge\"} ";
    let stall = text.lines().find_map(|line| line.strip_prefix(stall)).expect("a stall");
    let expected = chain["moves"]["stall_us_max"].as_f64().unwrap() / 1e6;
    // It may have grown since the scrape.
    let stall: f64 = stall.parse().unwrap();
    assert!(stall > 0.0 && stall <= expected + 1e-9, "{stall}, {expected}");
}

/// The output is a pipe that is not read, so the chain cannot drain.
#[test]
fn a_chain_that_stops_drains() {
    let demo = Demo::new();
    demo.write("c.toml", CHAIN);
    demo.write("rules", "accept from any to any\n");
    let port = free_port();
    let _child = demo.start(&format!(
        "run c.toml --input generate:packets=1000000000000 --output - --quiet --socket c.sock \
         --metrics 127.0.0.1:{port}"
    ));
    let begun = Instant::now();
    while !get(port, "/healthz").is_some_and(|(head, _)| head.starts_with("HTTP/1.1 200"))
        || ctl(&demo, "status")["chains"][0]["packets"]["in_flight"] == 0
    {
        assert!(begun.elapsed() < LIMIT, "packets wait for the output");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ctl(&demo, "stop")["result"], "stopping");
    let (head, body) = get(port, "/healthz").unwrap();
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(body, "draining: chain \"edge\" is stopping\n");
}

/// Reloads count by their result, and the time of the last one is that of the last count.
#[test]
fn reloads_have_samples() {
    let (demo, _child, port) = started();
    let reloads = |text: &str| {
        let of = |result| format!("warpline_reloads_total{{result=\"{result}\"}}");
        ["done", "refused"].map(|result| sample(text, &of(result)))
    };
    let last = |text: &str| sample(text, "warpline_last_reload_timestamp_seconds");
    let text = scrape(port);
    assert_eq!((reloads(&text), last(&text)), ([0, 0], 0));
    let now = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs()
    };
    let (before, mut expected) = (now(), [0, 0]);
    for (rules, is_refused) in
        [("accept from any to any\n", false), ("dorp\n", true), ("drop from any to any\n", false)]
    {
        demo.write("rules", rules);
        let status = if is_refused { 1 } else { 0 };
        demo.warpline("ctl --socket c.sock reload").expect(status);
        expected[usize::from(is_refused)] += 1;
        let text = scrape(port);
        assert_eq!(reloads(&text), expected);
        assert!((before..=now()).contains(&last(&text)), "{text}");
    }
}

#[test]
fn wrong_addresses_are_mistakes() {
    let demo = Demo::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let run = |address: &str| {
        let arguments =
            format!("run --input generate:packets=1 --stats s.json --metrics {address}");
        demo.warpline(&arguments).expect(2).stderr
    };
    let why = run("0.0.0.0:9464");
    assert!(why.contains("use 127.0.0.1:9464, or 0.0.0.0:9464,insecure"), "{why}");
    let why = run(&taken.to_string());
    assert!(why.contains("in use"), "{why}");
    assert!(!demo.path("s.json").exists(), "nothing is opened");
    let key = |address: &str| {
        demo.write("p.toml", format!("{CHAIN}[process]\nmetrics = \"{address}\"\n"));
        demo.warpline("run p.toml --input generate:packets=1").expect(2).stderr
    };
    demo.write("rules", "accept from any to any\n");
    let why = key("0.0.0.0:9464");
    assert!(why.contains("p.toml:10:11:"), "{why}");
    assert!(why.contains("use 127.0.0.1:9464, or 0.0.0.0:9464,insecure"), "{why}");
    demo.warpline("check p.toml").expect(2);
    let why = key(&taken.to_string());
    assert!(why.contains("p.toml:10:11:") && why.contains("in use"), "{why}");
}

#[test]
fn the_chain_file_names_an_address() {
    let demo = Demo::new();
    demo.write("rules", "accept from any to any\n");
    let ports = [free_port(), free_port()];
    demo.write("c.toml", format!("{CHAIN}[process]\nmetrics = \"127.0.0.1:{}\"\n", ports[0]));
    let run = "run c.toml --input generate:packets=1000000000000 --quiet";
    for (options, port) in
        [("", ports[0]), (&format!("--metrics 127.0.0.1:{}", ports[1]), ports[1])]
    {
        let _child = demo.start(&format!("{run} {options}"));
        let begun = Instant::now();
        while !get(port, "/healthz").is_some_and(|(head, _)| head.starts_with("HTTP/1.1 200")) {
            assert!(begun.elapsed() < LIMIT, "it serves metrics");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The expressions of the dashboard.
fn expressions() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share/grafana/warpline.json");
    let board: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let all: Vec<String> =
        targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    assert!(all.len() > 10);
    all
}

#[test]
fn the_dashboard_uses_names_that_exist() {
    let (_demo, _child, port) = started();
    let text = scrape(port);
    let names: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    // A family without samples has a type only.
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: BTreeSet<String> = types
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.into() })
        .collect();
    for expression in expressions() {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("warpline_")) {
            assert!(names.contains(word) || types.contains(word), "{word} of {expression}");
        }
    }
}

/// The answer of Prometheus to `expression`.
fn query(port: u16, expression: &str) -> Option<Value> {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let text: String = expression.bytes().map(escape).collect();
    let (_, body) = get(port, &format!("/api/v1/query?query={text}"))?;
    // Long answers come in chunks; these are short.
    let from = body.find('{')?;
    let to = body.rfind('}')? + 1;
    serde_json::from_str(&body[from..to]).ok()
}

/// Prometheus, which is ended with this.
struct Prometheus(std::process::Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_it() {
    if !is_installed("prometheus") {
        assert!(std::env::var_os("WARPLINE_REQUIRE_PEERS").is_none(), "prometheus is missing");
        return;
    }
    let (demo, _child, port) = started();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: warpline\n  \
         static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
    );
    demo.write("prometheus.yml", config);
    let own = free_port();
    let server = Command::new("prometheus")
        .arg(format!("--config.file={}", demo.path("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", demo.path("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{own}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Prometheus(server);
    let begun = Instant::now();
    let value = loop {
        let answer = query(own, "warpline_packets_total{outcome='read'}").unwrap_or_default();
        if let Some(text) = answer["data"]["result"][0]["value"][1].as_str() {
            break text.parse::<f64>().unwrap();
        }
        assert!(begun.elapsed() < LIMIT, "it was scraped: {answer}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(value > 0.0);
    assert!(
        sample(&scrape(port), "warpline_packets_total{chain=\"edge\",outcome=\"read\"}") as f64
            >= value
    );
    for expression in expressions() {
        let ready = expression.replace("$__rate_interval", "5s").replace("$chain", ".*");
        let answer = query(own, &ready).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{ready}: {answer}");
    }
}
