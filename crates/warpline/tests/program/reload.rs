//! Reload on SIGHUP: new rules apply to later packets, broken rules are reported, and no packet is
//! lost.

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::devices::has_host;
use crate::ends::{signal, wait_until_running};
use crate::harness::{Child, Demo, LIMIT, wait};
use crate::stats;
use crate::stats::whole;

const ENDLESS: &str = "run chain.toml --lanes 2 --output none --stats s.json \
     --input generate:packets=1000000000000,size=100,flows=100";

const CHAIN: &str = "[chain]\nfunctions = [\"nat\", \"firewall\", \"router\", \"nat\"]\n\
    [firewall]\nrules = \"rules\"\nestablished = true\n[router]\nroutes = \"routes\"\n\
    [nat]\ninside = [\"192.168.0.0/16\"]\noutside = [\"203.0.113.9\"]\n";

/// The lines of standard error, as they come.
pub(crate) fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let _ = send.send(line.unwrap());
        }
    });
    receive
}

fn started(demo: &Demo, more: &str) -> (Child, Receiver<String>) {
    demo.write("chain.toml", CHAIN);
    demo.write("rules", "accept from any to any\n");
    demo.write("routes", "0.0.0.0/0 192.0.2.1\n");
    let mut child = demo.start(&format!("{ENDLESS} {more}"));
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(demo, &child, 1);
    (child, lines)
}

/// Writes a file, sends SIGHUP, and gives the first lines that come back.
fn reload(
    demo: &Demo,
    name: &str,
    text: &str,
    (child, lines): &(Child, Receiver<String>),
) -> String {
    demo.write(name, text);
    signal(child, "HUP");
    lines.recv_timeout(LIMIT).expect("an answer to SIGHUP")
}

#[test]
fn rules_and_routes_change_while_packets_flow() {
    change_rules_and_routes(&Demo::new(), "");
}

#[test]
fn routes_change_on_a_device_while_packets_flow() {
    let demo = Demo::new();
    if has_host(&demo) {
        let chain = change_rules_and_routes(&demo, "--device host");
        assert!(whole(&chain["transfers"]["launches"]) > 0, "{chain}");
        assert_eq!(chain["warnings"], serde_json::json!([]));
    }
}

fn change_rules_and_routes(demo: &Demo, more: &str) -> serde_json::Value {
    let run = started(demo, more);
    assert_eq!(reload(demo, "rules", "accept from any to any\n", &run), "reload: nothing changed");
    let messages = reload(demo, "rules", "drop from any to any\n", &run);
    assert_eq!(messages, "reload: [firewall] in place");
    let messages = reload(demo, "routes", "192.0.2.0/24 192.0.2.1\n", &run);
    assert_eq!(messages, "reload: [router] in place");
    let messages = reload(demo, "rules", "# connections of before are let through\n", &run);
    assert_eq!(messages, "reload: [firewall] in place");
    signal(&run.0, "INT");
    wait(run.0).expect(130);
    let chain = stats::read(demo, "s.json")["chains"][0].take();
    let functions = &chain["functions"];
    assert!(whole(&functions[1]["packets_out"]) > 0, "{functions}");
    assert!(whole(&functions[2]["drops"]["no-route"]) > 0, "{functions}");
    assert!(whole(&functions[2]["packets_out"]) > 0, "{functions}");
    assert_eq!(whole(&chain["packets"]["overload"]), 0);
    chain
}

#[test]
fn mistakes_are_reported_and_the_old_rules_stay() {
    let demo = Demo::new();
    let run = started(&demo, "");
    let mut messages =
        vec![reload(&demo, "rules", "accept from any\ndrop form any to any\n", &run)];
    messages.extend(run.1.recv_timeout(LIMIT));
    while messages.last().is_some_and(|line| line != "reload: the previous version keeps running") {
        messages.extend(run.1.recv_timeout(LIMIT));
    }
    assert!(messages[0].starts_with("reload: chain.toml: "), "{messages:?}");
    assert!(messages.iter().any(|line| line.contains("rules:2:6")), "{messages:?}");
    demo.write("rules", "drop from any to any\n");
    let nat = CHAIN.replace("203.0.113.9", "203.0.113.10");
    let messages = reload(&demo, "chain.toml", &nat, &run);
    assert_eq!(messages, "reload: [nat]: its translations can't be changed while packets flow");
    assert_eq!(run.1.recv_timeout(LIMIT).unwrap(), "reload: the previous version keeps running");
    signal(&run.0, "INT");
    wait(run.0).expect(130);
    let stats = stats::read(&demo, "s.json");
    let functions = &stats["chains"][0]["functions"];
    assert_eq!(whole(&functions[1]["drops"]["rule"]), 0, "the old rules held all the time");
}

#[test]
fn services_change_while_packets_flow() {
    let demo = Demo::new();
    demo.write(
        "chain.toml",
        "[chain]\nfunctions = [\"load_balancer\"]\n[load_balancer]\nservices = \"services\"\n\
         addresses = [\"192.0.2.0/24\", \"198.51.100.0/24\"]\n",
    );
    let backend = |n: u8| format!("vip 192.0.2.10 udp 53\nbackend 198.51.100.{n}\n");
    demo.write("services", backend(1));
    let mut child = demo.start(ENDLESS);
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 1);
    let run = (child, lines);
    assert_eq!(reload(&demo, "services", &backend(2), &run), "reload: [load_balancer] in place");
    let wrong = "vip 192.0.2.10 udp 53\nbackend nowhere\n";
    assert!(reload(&demo, "services", wrong, &run).starts_with("reload: chain.toml: 1 mistake"));
    signal(&run.0, "INT");
    wait(run.0).expect(130);
    assert_eq!(whole(&stats::read(&demo, "s.json")["chains"][0]["packets"]["overload"]), 0);
}
