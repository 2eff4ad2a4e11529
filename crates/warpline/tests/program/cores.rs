//! The cores that a running program's threads run on, as the system reports them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::devices::has_host;
use crate::ends::{signal, wait_until_running};
use crate::harness::{Child, Demo, LIMIT, wait};
use crate::reload::lines_of;
use crate::stats;

const ENDLESS: &str = "run chain.toml --output none --stats s.json \
     --input generate:packets=1000000000000,size=100,flows=100";

/// The cores that a thread may run on.
fn cores_of(task: &Path) -> Vec<u16> {
    let status = fs::read_to_string(task.join("status")).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ends = list.trim().split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
    let all = ends.flat_map(|(from, to)| from.parse().unwrap()..=to.parse().unwrap());
    all.collect()
}

/// The cores of this test, which a program that it starts may use.
fn own() -> Vec<u16> {
    cores_of(Path::new("/proc/thread-self"))
}

/// The cores of each thread of a running program, by name; all unnamed ones together.
fn threads(child: &Child) -> BTreeMap<String, Vec<Vec<u16>>> {
    let mut threads: BTreeMap<String, Vec<Vec<u16>>> = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap();
        threads.entry(name.trim().into()).or_default().push(cores_of(&task));
    }
    threads
}

/// Runs with `more`, which puts lanes on `lanes`: they are there, and all other threads elsewhere
/// if there is an elsewhere.
fn check(demo: &Demo, more: &str, lanes: &[u16], named: &[&str]) {
    let _ = fs::remove_file(demo.path("s.json"));
    let child = demo.start(&format!("{ENDLESS} {more}"));
    wait_until_running(demo, &child, lanes.len() - 1);
    let mut threads = threads(&child);
    for (number, core) in lanes.iter().enumerate() {
        assert_eq!(threads.remove(&format!("lane-{number}")), Some(vec![vec![*core]]), "{more}");
    }
    let mut others = own();
    others.retain(|core| !lanes.contains(core));
    let others = if others.is_empty() { own() } else { others };
    for name in named {
        assert!(threads.contains_key(*name), "{name} is missing from {threads:?}");
    }
    assert!(threads.values().flatten().all(|cores| *cores == others), "{more}: {threads:?}");
    signal(&child, "INT");
    wait(child).expect(130);
    let chain = stats::read(demo, "s.json")["chains"][0].take();
    assert_eq!((&chain["lanes"], &chain["cores"]), (&json!(lanes.len()), &json!(lanes)));
}

#[test]
fn lanes_run_on_the_cores_that_are_named_and_others_do_not() {
    let demo = Demo::new();
    let mut cores = own();
    cores.reverse();
    let last = cores[0];
    let always = ["warpline", "sender"];
    check(&demo, &format!("--cores {last}"), &[last], &always);
    // A longer list: as many lanes as cores, in its order; two are enough to see it.
    cores.truncate(2);
    let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let list = list.join(",");
    check(&demo, &format!("--cores {list}"), &cores, &always);
    // Cores beyond the lanes stay unused, whether or not they exist.
    check(&demo, &format!("--cores {list},1023 --lanes 1"), &[last], &always);
    // The file's key, and the command line on top of it.
    let chain = String::from_utf8(demo.read("chain.toml")).unwrap();
    demo.write(
        "chain.toml",
        chain.replacen("[chain]\n", &format!("[chain]\ncores = \"{list}\"\n"), 1),
    );
    demo.warpline("check chain.toml").expect(0);
    check(&demo, "", &cores, &always);
    check(&demo, &format!("--cores {last}"), &[last], &always);
    // A device's thread starts before the cores of lanes are chosen.
    if has_host(&demo) {
        check(&demo, &format!("--device host --cores {last}"), &[last], &["warpline-host"]);
    }
}

/// Options of the command line also apply to the file that is read again.
#[test]
fn a_reload_reads_the_file_as_the_start_did() {
    let demo = Demo::new();
    let core = own()[0];
    // More lanes than cores, without an override.
    let chain = format!("[chain]\nfunctions = []\nlanes = 2\ncores = \"{core}\"\n");
    demo.write("chain.toml", chain);
    demo.warpline("check chain.toml").expect(2);
    let mut child = demo.start(&format!("{ENDLESS} --lanes 1"));
    let lines = lines_of(child.stderr.take().unwrap());
    wait_until_running(&demo, &child, 0);
    signal(&child, "HUP");
    assert_eq!(lines.recv_timeout(LIMIT).unwrap(), "reload: nothing changed");
    signal(&child, "INT");
    wait(child).expect(130);
}
