//! `warpline plan`, as a stranger checks it: from its JSON alone, with a model of where fields are
//! current.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::devices::has_host;
use crate::harness::Demo;

type Fields = BTreeSet<String>;

fn fields(list: &Value) -> Fields {
    let all = list.as_array().unwrap_or_else(|| panic!("a list, not {list}"));
    all.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Which fields each memory lacks: by device, and `""` for the host. A memory that holds nothing
/// has no entry.
struct Model(BTreeMap<String, Fields>);

impl Model {
    fn phase(&mut self, place: &str, touch: &Value, what: &str) {
        let stale: Vec<String> =
            fields(&touch["reads"]).into_iter().filter(|field| !self.has(place, field)).collect();
        assert!(stale.is_empty(), "{what} reads {stale:?}, stale on {place:?}");
        for field in fields(&touch["writes"]) {
            for (memory, current) in &mut self.0 {
                if memory == place {
                    current.insert(field.clone());
                } else {
                    current.remove(&field);
                }
            }
        }
    }

    fn has(&self, place: &str, field: &str) -> bool {
        self.0.get(place).is_some_and(|current| current.contains(field))
    }

    /// The table of a launch is gone with it.
    fn forget_table(&mut self, device: &str, frame: &Fields) {
        if let Some(current) = self.0.get_mut(device) {
            current.retain(|field| frame.contains(field));
        }
    }

    fn cross(&mut self, from: Option<&str>, to: &str, crossing: &Value) {
        for field in fields(&crossing["fields"]) {
            let is_there = match from {
                Some(from) => self.has(from, &field),
                None => self.0.keys().any(|memory| self.has(memory, &field)),
            };
            // A frame copied whole may hold stale fields, if they are not read later.
            if is_there || crossing["way"] != "frame" {
                assert!(is_there, "{field} is stale where it is copied from: {crossing}");
                self.0.entry(to.to_owned()).or_default().insert(field);
            }
        }
    }
}

/// Bytes that a crossing has to name: of the frame, by its fields' widths or `whole`, and of the
/// launch's table.
fn weigh(crossing: &Value, (widths, whole): (&Value, &Value), frame: &Fields) -> f64 {
    let of = |field: &String| widths[field].as_f64().unwrap();
    let all = fields(&crossing["fields"]);
    let of_frame: f64 = match crossing["way"].as_str().unwrap() {
        "frame" => whole.as_f64().unwrap(),
        "nothing" => {
            assert!(all.is_disjoint(frame), "{crossing}");
            0.0
        }
        _ => all.intersection(frame).map(of).sum(),
    };
    of_frame + crossing["row_bytes"].as_f64().unwrap_or(0.0)
}

/// A chain's plan, followed function by function.
struct Walk<'a> {
    widths: &'a Value,
    /// All fields of a frame, and those that may cross one by one.
    frame: Fields,
    gathered: Fields,
    is_recoverable: bool,
    model: Model,
    moved: [f64; 2],
    /// By device, the share of packets that its last function has the host change.
    changed: BTreeMap<&'a str, f64>,
}

fn follow(chain: &Value, mode: &str) -> [f64; 2] {
    let (widths, plan) = (&chain["widths"], &chain["modes"][mode]);
    let every: Fields = widths.as_object().unwrap().keys().cloned().collect();
    let mut walk = Walk {
        widths,
        frame: frame_of(&fields(&chain["end_reads"])),
        gathered: fields(&chain["gathered"]),
        is_recoverable: chain["is_recoverable"].as_bool().unwrap(),
        model: Model([(String::new(), every)].into()),
        moved: [0.0, 0.0],
        changed: BTreeMap::new(),
    };
    let mut steps = plan["steps"].as_array().unwrap().iter();
    for function in chain["functions"].as_array().unwrap() {
        let name = function["name"].as_str().unwrap();
        walk.model.phase("", &function["before"], name);
        if function["copies"] == false {
            ["run", "after", "after_flagged"]
                .iter()
                .for_each(|phase| walk.model.phase("", &function[phase], name));
            continue;
        }
        walk.step(function, steps.next().expect("a step for each function that copies"));
    }
    assert!(steps.next().is_none());
    let end = serde_json::json!({ "reads": chain["end_reads"], "writes": [] });
    walk.model.phase("", &end, "the sink");
    for (key, moved) in ["to_device_bytes", "to_host_bytes"].iter().zip(walk.moved) {
        assert!((plan[key].as_f64().unwrap() - moved).abs() < 1e-6, "{mode} {key}");
    }
    walk.moved
}

impl<'a> Walk<'a> {
    /// A function on a device.
    fn step(&mut self, function: &'a Value, step: &'a Value) {
        let name = function["name"].as_str().unwrap();
        let device = step["device"].as_str().unwrap();
        assert!(step["function"] == name && function["device"] == device);
        self.model.cross(None, "", &step["first_to_host"]);
        self.model.cross(Some(""), device, &step["to_device"]);
        let again = self.again(function, step, device);
        self.run(function, step, device);
        self.after(function, step, device);
        self.moved[0] += self.bytes(function, step, "to_device") + again;
        self.moved[1] += ["first_to_host", "to_host", "flagged_to_host"]
            .iter()
            .map(|key| self.bytes(function, step, key))
            .sum::<f64>();
        let changes = fields(&function["after_flagged"]["writes"]);
        let geometry = ["start", "len", "l3-offset", "l4-offset", "payload-offset", "kind"];
        let moves = geometry.iter().any(|field| changes.contains(*field));
        let is_changed = moves || !changes.is_disjoint(&self.frame);
        let share = function["flagged_share"].as_f64().unwrap();
        self.changed.insert(device, if is_changed { share } else { 0.0 });
    }

    /// Bytes of frames that go there again, as the host changed them.
    fn again(&self, function: &Value, step: &Value, device: &str) -> f64 {
        let lacks = self.changed.get(device).copied().unwrap_or(0.0);
        let has_kept = self.model.0.contains_key(device) && step["to_device"]["way"] != "frame";
        let whole = &function["whole_frame"];
        let [there, back] = ["to_device", "to_host"].map(|way| whole[way].as_f64().unwrap());
        let room = self.widths["room"].as_f64().unwrap();
        assert!(there <= room && back <= room && there <= back, "{whole} in {room}");
        let again = if has_kept { lacks * there } else { 0.0 };
        let reported = step["missing_to_device"]["bytes"].as_f64().unwrap();
        assert!((reported - again).abs() < 1e-6, "{step}");
        again
    }

    /// The kernel, and the copies after it.
    fn run(&mut self, function: &Value, step: &Value, device: &str) {
        let (name, model) = (function["name"].as_str().unwrap(), &mut self.model);
        // Packets that the kernel leaves are processed on the host, with fields there or fetched
        // from the mirror that the kernel uses.
        let is_direct = step["to_device"]["way"] == "direct";
        for field in fields(&function["fallback"]) {
            let is_there = model.has("", &field) || !is_direct && model.has(device, &field);
            assert!(is_there, "{name}: {field} is missing where the host does its work");
        }
        let metadata = |list: &Value| &fields(list) - &self.frame;
        assert_eq!(
            metadata(&step["to_device"]["fields"]),
            &metadata(&function["run"]["reads"]) | &metadata(&function["run"]["writes"]),
        );
        model.phase(device, &function["run"], name);
        assert_eq!(metadata(&step["to_host"]["fields"]), metadata(&function["run"]["writes"]));
        model.cross(Some(device), "", &step["to_host"]);
    }

    /// Flagged packets, which come whole or not at all, and `after` of the others.
    fn after(&mut self, function: &Value, step: &Value, device: &str) {
        let (name, model) = (function["name"].as_str().unwrap(), &mut self.model);
        let before_flagged = model.0[""].clone();
        let way = &step["flagged_to_host"]["way"];
        assert!(way == "frame" || way == "nothing", "{step}");
        model.cross(None, "", &step["flagged_to_host"]);
        let flagged = fields(&function["after_flagged"]["reads"]);
        assert!(flagged.is_subset(&model.0[""]), "{name}: flagged packets");
        model.0.insert(String::new(), before_flagged);
        model.phase("", &function["after"], name);
        model.forget_table(device, &self.frame);
        if step["mirror_after"] == false {
            model.0.remove(device);
        }
        let lacks = &self.frame - &model.0[""];
        assert!(lacks.is_empty() || !self.is_recoverable, "{name} leaves {lacks:?}");
    }

    /// The bytes of one crossing, which its fields explain.
    fn bytes(&self, function: &Value, step: &Value, key: &str) -> f64 {
        let (name, whole) = (function["name"].as_str().unwrap(), &function["whole_frame"]);
        let reported = step[key]["bytes"].as_f64().unwrap();
        let (share, whole) = match key {
            "flagged_to_host" => {
                (function["flagged_share"].as_f64().unwrap(), &self.widths["room"])
            }
            _ => (1.0, &whole[key]),
        };
        let expected = share * weigh(&step[key], (self.widths, whole), &self.frame);
        assert!((reported - expected).abs() < 1e-6, "{name} {key}: {reported}, {expected}");
        let alone = &fields(&step[key]["fields"]) & &self.frame;
        assert!(step[key]["way"] == "frame" || alone.is_subset(&self.gathered), "{name} {key}");
        reported
    }
}

/// Of what the sink reads, the frame's own fields: the rest are columns.
fn frame_of(end_reads: &Fields) -> Fields {
    let columns = [
        "start",
        "len",
        "l3-offset",
        "l4-offset",
        "payload-offset",
        "kind",
        "timestamp",
        "ingress",
        "verdict",
        "next-hop",
        "flow-hash",
        "shard",
        "flagged",
    ];
    end_reads.iter().filter(|field| !columns.contains(&field.as_str())).cloned().collect()
}

const MODES: [&str; 4] = ["adaptive", "local", "share_all", "per_nf"];

#[test]
fn no_plan_reads_what_is_stale() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let copies = "--device host --set digest.in_place=false --set router.in_place=false";
    for (more, is_hybrid) in [("", false), (copies, true)] {
        for len in [64, 512, 1518] {
            let asked = format!("plan chain.toml --json --packet-len {len} {more}");
            let reported = demo.warpline(&asked).expect(0).stdout;
            let reported: Value = serde_json::from_slice(&reported).expect("JSON");
            let chain = &reported["chains"][0];
            let moved = MODES.map(|mode| follow(chain, mode));
            let cost = |mode: &str| chain["modes"][mode]["cost_ns"].as_f64().unwrap();
            for (mode, moved) in MODES.iter().zip(moved) {
                assert_eq!(moved[0] > 0.0 && moved[1] > 0.0, is_hybrid, "{mode}");
                assert!(cost("adaptive") <= cost(mode), "{mode}");
            }
        }
    }
}

#[test]
fn a_plan_is_reported_in_words() {
    let demo = Demo::new();
    let say = |asked: &str| {
        String::from_utf8(demo.warpline(&format!("plan {asked}")).expect(0).stdout).unwrap()
    };
    assert!(say("chain.toml").contains("nothing crosses"));
    for (asked, why) in [
        ("plan chain.toml --mode best", "adaptive, local, share_all, per_nf"),
        ("plan chain.toml --explain colour", "no such field; eth-dst"),
        ("plan chain.toml --packet-len 20", "not a number from 42 to 65535"),
        ("plan nowhere.toml", "nowhere.toml"),
        ("check chain.toml --set router.in_place=false", "requires a `device` other than \"cpu\""),
    ] {
        let ended = demo.warpline(asked).expect(2);
        assert!(ended.stderr.contains(why), "{asked}: {}", ended.stderr);
    }
    if has_host(&demo) {
        let copies = "chain.toml --device host --set router.in_place=false";
        assert!(say(copies).contains("(what `run` does)"));
        assert_eq!(say(&format!("{copies} --svg plan.svg")), "");
        let drawn = String::from_utf8(demo.read("plan.svg")).unwrap();
        assert!(drawn.starts_with("<svg") && drawn.contains("runs on host-apart"), "{drawn}");
        for shown in ["memory of host-apart", "router, to host-apart: ", "ttl", "legend"] {
            assert!(drawn.contains(shown), "{shown}: {drawn}");
        }
        let ttl = say(&format!("{copies} --explain ttl --mode per_nf"));
        for line in ["crosses to host-apart (direct)", "crosses to the host", "the sink reads it"] {
            assert!(ttl.contains(line), "{ttl}");
        }
        let verdict = say(&format!("{copies} --explain verdict"));
        for line in ["crosses to host-apart (with the table)", "to the host (with the table)"] {
            assert!(verdict.contains(line), "{verdict}");
        }
        assert!(say(copies).contains(" B of the table with "));
    }
}

/// The profile describes this machine, plans use it and report that, and the profile of another
/// machine is refused.
#[test]
fn a_plan_shows_the_bytes_in_flight_beside_the_arena() {
    let demo = Demo::new();
    let out = |asked: &str| {
        String::from_utf8(demo.warpline(&format!("plan {asked}")).expect(0).stdout).unwrap()
    };
    let json = |asked: &str| -> Value {
        let all: Value = serde_json::from_str(&out(&format!("{asked} --json"))).expect("JSON");
        all["chains"][0]["in_flight"].clone()
    };
    // The paper's own example.
    let own = json("chain.toml");
    assert_eq!((&own["bytes"], &own["gbps"]), (&12_500_000.0.into(), &100.0.into()));
    assert_eq!((&own["delay_us"], &own["lanes"]), (&1000.0.into(), &1.into()));
    // An arena has slabs of 1 MiB for packets and tables.
    let checked = demo.warpline("check chain.toml --json").expect(0).stdout;
    let checked: Value = serde_json::from_slice(&checked).expect("JSON");
    let memory = &checked["chains"][0]["memory"];
    let [arena, packets] = [&own["arena_lane_bytes"], &memory["packets"]].map(Value::as_u64);
    assert!(arena > packets && packets > Some(0) && arena.is_some_and(|one| one % (1 << 20) == 0));
    let text = out("chain.toml");
    assert!(
        text.contains("  in flight 12.500 MB at 100 Gb/s for 1 ms; the arena of each"),
        "{text}"
    );
    // A limit of the file, and the command line before it.
    let limited = "chain.toml --gbps 10 --set placement.delay_us_max=250";
    assert_eq!(json(limited)["bytes"], 312_500.0);
    assert_eq!(json(&format!("{limited} --delay 2ms"))["bytes"], 2_500_000.0);
    let ended = demo.warpline("plan chain.toml --delay soon").expect(2);
    assert!(ended.stderr.contains("write a number and ns, us, ms or s"), "{}", ended.stderr);
}

#[test]
fn plans_go_by_what_was_measured() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.warpline("devices --profile p.json").expect(2);
    demo.warpline("devices --measure --profile p.json").expect(0);
    let profile = String::from_utf8(demo.read("p.json")).unwrap();
    let json: Value = serde_json::from_str(&profile).expect("JSON");
    let is_host = |device: &&Value| device["id"] == "host";
    let host = json["devices"].as_array().unwrap().iter().find(is_host).expect("the host");
    let rate = host["to_device_bytes_per_s"].as_f64().unwrap();
    let asked = "plan chain.toml --device host --set router.in_place=false";
    let say = |more: &str| {
        String::from_utf8(demo.warpline(&format!("{asked} {more}")).expect(0).stdout).unwrap()
    };
    assert!(say("").contains("(defaults, not measured)"));
    let reported = say("--set plan.profile=p.json");
    let speeds = format!("link to host-apart: {:.1} GB/s to the device", rate / 1e9);
    assert!(reported.contains(&speeds) && reported.contains("(measured)"), "{reported}");
    let reported: Value =
        serde_json::from_str(&say("--json --gbps 10 --set plan.profile=p.json")).expect("JSON");
    let chain = &reported["chains"][0];
    let link = &chain["links"]["host-apart"];
    let ns = link["to_device_ns_per_byte"].as_f64().unwrap();
    assert!((ns - 1e9 / rate).abs() < 1e-9 && link["is_measured"] == true, "{link}");
    let step = &chain["modes"]["adaptive"]["steps"][0];
    let [bytes, share] = [&step["to_device"]["bytes"], &step["link_share"]["to_device"]]
        .map(|number| number.as_f64().unwrap());
    // 512 bytes at 10 Gb/s take 409.6 ns.
    assert!((share - bytes * ns / 409.6).abs() < 1e-9, "{step}");
    demo.write("other.json", profile.replace(json["cpu"].as_str().unwrap(), "Another CPU"));
    demo.write("torn.json", &profile[..profile.len() / 2]);
    for (file, why) in [
        (
            "other.json",
            "it was measured on another machine: the processor is \"Another CPU\" there",
        ),
        ("torn.json", "torn.json, line"),
        ("none.json", "can't read \"none.json\""),
    ] {
        let ended = demo.warpline(&format!("check chain.toml --set plan.profile={file}"));
        let reported = ended.expect(2).stderr;
        assert!(reported.contains(why), "{file}: {reported}");
    }
}

/// The chain is proven over packets: what its functions touch, and that a device makes the same of
/// them.
#[test]
fn a_strict_check_runs_the_chain() {
    let demo = Demo::new();
    let input = "--strict --input generate:packets=400,flows=40,seed=5";
    let reported = demo.warpline(&format!("check chain.toml {input}")).expect(0).stdout;
    let reported = String::from_utf8(reported).unwrap();
    for name in ["flow_monitor", "nids", "firewall", "nat:1", "digest", "ipcomp", "router", "nat:2"]
    {
        assert!(reported.contains(&format!("  {name:<14} as declared, over ")), "{reported}");
    }
    assert!(!reported.contains("on devices"), "{reported}");
    // The chain file's own input, if no other is named.
    let own = String::from_utf8(demo.warpline("check chain.toml --strict").expect(0).stdout);
    assert!(own.unwrap().contains("  router         as declared, over "));
    if has_host(&demo) {
        let on = "--device host --set router.in_place=false --set nat.in_place=false";
        let reported = demo.warpline(&format!("check chain.toml {on} {input}")).expect(0).stdout;
        let reported = String::from_utf8(reported).unwrap();
        assert!(reported.contains("nat:2 on devices, by the adaptive plan: the "), "{reported}");
        assert_versions_followed(&reported);
    }
    demo.warpline("check chain.toml --strict --json").expect(2);
    demo.warpline("check chain.toml --input none.pcap").expect(2);
    for (input, why) in [
        ("none.pcap", "none.pcap"),
        ("-", "it can be read only once"),
        ("generate:packets=9,rate_gbps=1,on_full=drop", "may give other packets each time"),
    ] {
        let refused = demo.warpline(&format!("check chain.toml --strict --input {input}"));
        let reported = refused.expect(2).stderr;
        assert!(reported.contains(why), "{input}: {reported}");
    }
}

/// Many fields were looked at, and none was stale.
fn assert_versions_followed(reported: &str) {
    let looked = reported.split_once("; none of ").and_then(|(_, rest)| rest.split_once(' '));
    let (count, rest) = looked.unwrap_or_else(|| panic!("{reported}"));
    assert!(count.parse::<u64>().is_ok_and(|count| count > 10_000), "{reported}");
    assert!(rest.starts_with("fields was stale where it was used\n"), "{reported}");
}

/// With `in_place = false`, the packets are the same, and bytes are copied.
#[test]
fn a_device_that_is_reported_to_copies() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    demo.warpline("run chain.toml --output cpu.pcap").expect(0);
    let names = ["firewall", "nat", "nids", "digest", "router"];
    let apart = names.map(|name| format!("--set {name}.in_place=false")).join(" ");
    let mut there = Vec::new();
    for mode in ["adaptive", "local", "share_all", "per_nf"] {
        let asked = format!(
            "run chain.toml --output {mode}.pcap --stats s.json --device host {apart} --set \
             plan.mode={mode}"
        );
        demo.warpline(&asked).expect(0);
        assert!(demo.read("cpu.pcap") == demo.read(&format!("{mode}.pcap")), "{mode}");
        let transfers = &crate::stats::read(&demo, "s.json")["chains"][0]["transfers"];
        let of = |key: &str| crate::stats::whole(&transfers[key]);
        assert!(of("to_device_bytes") > 0 && of("to_host_bytes") > 0, "{mode}: {transfers}");
        there.push(of("to_device_bytes") + of("to_host_bytes"));
    }
    // Some bytes depend on how packets meet in launches.
    let is_least = there[1..].iter().all(|other| there[0] <= other + other / 1000);
    assert!(is_least, "{there:?}");
}

/// Kernels that copy whole frames: the same packets, and the output that reports the way.
#[test]
fn kernels_carry_whole_frames_where_the_file_says_so() {
    let demo = Demo::new();
    if !has_host(&demo) {
        return;
    }
    let way = "--device host --set router.in_place=false --set plan.mode=share_all";
    let by_kernels = format!("{way} --set plan.frames_by=kernels");
    demo.warpline(&format!("run chain.toml --output copies.pcap {way}")).expect(0);
    let names =
        ["firewall", "nat", "nids", "digest"].map(|name| format!("--set {name}.in_place=false"));
    let asked = format!("run chain.toml --output kernels.pcap {by_kernels} {}", names.join(" "));
    demo.warpline(&asked).expect(0);
    assert!(demo.read("copies.pcap") == demo.read("kernels.pcap"));
    demo.warpline(&format!("check chain.toml {by_kernels}")).expect(0);
    for (way, name) in [(way, "copies"), (&by_kernels[..], "kernels")] {
        let say = |asked: &str| {
            let reported =
                demo.warpline(&format!("plan chain.toml {asked} {way}")).expect(0).stdout;
            String::from_utf8(reported).unwrap()
        };
        let said = say("");
        assert!(said.contains(&format!("  whole frames go by {name}\n")), "{said}");
        let json: Value = serde_json::from_str(&say("--json")).unwrap();
        assert_eq!(json["chains"][0]["frames_by"], name);
    }
}

#[test]
fn mistakes_in_a_plan_table_are_reported() {
    let demo = Demo::new();
    let chain = String::from_utf8(demo.read("chain.toml")).unwrap();
    for (text, why) in [
        ("[plan]\nmode = \"best\"\n", "\"adaptive\", \"local\", \"share_all\" or \"per_nf\""),
        ("[plan]\nframes_by = \"mail\"\n", "\"copies\" or \"kernels\""),
        ("[plan]\nspeed = 1\n", "[plan] has no key `speed`"),
        ("[plan]\npacket_len = 41\n", "packet_len"),
        ("[plan]\nrecoverable = \"yes\"\n", "`recoverable` must be true or false, found a string"),
        ("[plan]\nrecoverable = 1\n", "`recoverable` must be true or false"),
        ("[plan]\nrecover = true\n", "[plan] has no key `recover`"),
        ("[[plan]]\nmode = \"local\"\n", "`plan` is a table"),
    ] {
        demo.write("plan.toml", format!("{chain}\n{text}"));
        let ended = demo.warpline("check plan.toml").expect(2);
        assert!(ended.stderr.contains(why), "{text}: {}", ended.stderr);
    }
    demo.write("plan.toml", "[chain]\nfunctions = [\"plan\"]\n[plan]\nfunction = \"router\"\n");
    let ended = demo.warpline("check plan.toml").expect(2);
    assert!(ended.stderr.contains("[plan] has no key `function`"), "{}", ended.stderr);
}
