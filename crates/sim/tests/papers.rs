//! The entries of papers: their list, verdicts and forms, and an independent simulation of one.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use warpline_sim::papers::{self, PAPERS, Reproduced, ShapeVerdict};

fn entry(id: &str) -> Reproduced {
    let found = papers::named(id);
    assert_eq!(found.len(), 1, "{id}");
    found[0].simulate().expect("a sound entry")
}

#[test]
fn every_table_and_figure_has_an_entry() {
    let ids: BTreeSet<String> = papers::named("all").iter().map(|entry| entry.id()).collect();
    assert_eq!(ids.len(), papers::named("all").len(), "an id occurs twice");
    let required = [
        ("simmer-2022", "table1 table2 table3 table4 table5 fig2 fig5 fig6 fig7 fig7-nf1 fig7-nf3"),
        ("simmer-2022", "fig8 fig9 fig9-nf1 fig9-nf3 fig10 fig11"),
        ("vgpu-nfv-2020", "table1 limits fig2a fig2b fig3 fig4 fig5 fig6"),
        (
            "adaptchain-2024",
            "table1 table2 fig1 fig3 fig4 fig5 fig6 fig9 fig10 fig11a fig11b fig12",
        ),
        ("adaptchain-2024", "fig13 fig14 fig15 fig16 containers"),
        ("pythia-2020", "table1 table2 table3 table4 fig1 fig2 fig4a fig4b fig4c fig4d"),
        ("gpu-ids-framework", "fig2 fig5 fig6 fig7 fig8 table2 table3"),
    ];
    for (paper, items) in required {
        for item in items.split(' ') {
            assert!(ids.contains(&format!("{paper}/{item}")), "{paper}/{item}");
        }
    }
    for paper in PAPERS {
        assert!(paper.entries.iter().all(|entry| entry.paper == paper.name), "{}", paper.name);
        let is_whole = |entry: &&papers::PaperItem| {
            !entry.source.is_empty() && (!entry.ways().is_empty() || !entry.why_not.is_empty())
        };
        assert!(paper.entries.iter().all(|entry| is_whole(&entry)), "{}", paper.name);
        assert!(paper.assumed.iter().all(|one| !one.what.is_empty() && !one.why.is_empty()));
    }
}

/// `3` as papers write it: `III`.
fn roman(number: &str) -> &'static str {
    match number {
        "1" => "I",
        "2" => "II",
        "3" => "III",
        "4" => "IV",
        _ => "V",
    }
}

#[test]
fn printed_numbers_name_their_section_and_their_table_or_figure() {
    for entry in papers::named("all") {
        let (id, source) = (entry.id(), entry.source);
        assert!(source.contains("section"), "{id}: {source}");
        let names: Vec<String> = [("table", "table"), ("fig", "figure")]
            .into_iter()
            .filter_map(|(prefix, word)| Some((entry.item.strip_prefix(prefix)?, word)))
            .flat_map(|(rest, word)| {
                let number = rest.split(|one: char| !one.is_ascii_digit()).next().unwrap_or(rest);
                [format!("{word} {number}"), format!("{word} {}", roman(number))]
            })
            .collect();
        let ends = |rest: &str| !rest.starts_with(|one: char| one.is_ascii_alphanumeric());
        let has = |name: &String| source.split(name.as_str()).skip(1).any(ends);
        let is_named = names.iter().any(has);
        assert!(is_named || names.is_empty(), "{id}: {source} has none of {names:?}");
        // The only one with numbered lines.
        assert_eq!(source.contains("lines"), entry.paper == "gpu-ids-framework", "{id}: {source}");
    }
    for text in [
        include_str!("../../../examples/profiles/simmer-2022.json"),
        include_str!("../../../examples/profiles/pythia-2020.json"),
    ] {
        let profile: Value = serde_json::from_str(text).expect("JSON");
        let all = profile["measurements"].as_array().expect("measurements");
        assert!(!all.is_empty());
        for one in all {
            let source = one["source"].as_str().expect("a source");
            assert!(source.contains("section ") && source.contains(", table "), "{source}");
        }
    }
}

/// Verdicts as they are now. One that changes has a cause in `sched` or in a model.
const SAME_SHAPE: &str = "simmer-2022/table3 simmer-2022/table4 simmer-2022/table5 \
     simmer-2022/fig5 simmer-2022/fig8 vgpu-nfv-2020/table1 vgpu-nfv-2020/fig5 pythia-2020/table2 \
     pythia-2020/table3 pythia-2020/table4 pythia-2020/fig1 pythia-2020/fig4b pythia-2020/fig4c \
     pythia-2020/fig4d gpu-ids-framework/fig2 gpu-ids-framework/fig5 gpu-ids-framework/fig6 \
     adaptchain-2024/table1 adaptchain-2024/table2 adaptchain-2024/fig1 adaptchain-2024/fig3 \
     adaptchain-2024/fig4 adaptchain-2024/fig5 adaptchain-2024/fig6 adaptchain-2024/fig12";

#[test]
fn verdicts_are_stable_and_each_difference_has_its_reason() {
    let same: BTreeSet<&str> = SAME_SHAPE.split_whitespace().collect();
    for entry in papers::named("all") {
        let one = entry.simulate().expect("a sound entry");
        let id = entry.id();
        let expected = match entry.simulation {
            None => ShapeVerdict::NotRun,
            Some(_) if same.contains(id.as_str()) => ShapeVerdict::SameShape,
            Some(_) => ShapeVerdict::Differs,
        };
        assert_eq!(one.state, expected, "{id}: {}", one.why);
        for rule in one.found.rules.iter().filter(|rule| !rule.holds) {
            assert!(!rule.reason.is_empty(), "{id}: {} has no reason", rule.text);
        }
        let points = one.found.series.iter().flat_map(|series| &series.points);
        assert!(points.flat_map(|point| point.ours).all(f64::is_finite), "{id}");
        assert_eq!(one.state == ShapeVerdict::NotRun, one.found.series.is_empty(), "{id}");
    }
}

#[test]
fn equal_runs_give_equal_reports() {
    let id = "adaptchain-2024/fig3";
    let [one, other] = [entry(id), entry(id)].map(|one| papers::json(&[one]).to_string());
    assert_eq!(one, other);
}

#[test]
fn results_have_a_form_for_people_and_programs() {
    let all = [entry("simmer-2022/fig6"), entry("adaptchain-2024/containers")];
    let json = papers::json(&all);
    let first = &json["entries"][0];
    assert_eq!(first["id"], "simmer-2022/fig6");
    assert_eq!(first["ways"][1], "simulated");
    assert_eq!(first["state"], "differs");
    assert!(first["why"].as_str().expect("a reason").contains("29 %"));
    assert_eq!(first["series"][1]["points"][1]["paper"], 0.0);
    assert_eq!(json["entries"][1]["state"], "not run");

    let csv = papers::csv(&all);
    let cells = |line: &str| line.split(',').count();
    assert!(csv.lines().all(|line| cells(line) == 8), "{csv}");
    assert!(csv.contains("simmer-2022/fig6,differs,gain,threshold,2.8,%,29,"), "{csv}");

    let table = papers::table(&all, true);
    assert!(table.contains("holds: no drop inside from 2 to 2.8 launches"), "{table}");
    assert!(table.ends_with("0 of the same shape, 1 that differ, 1 not run"), "{table}");

    let drawing = papers::svg(&all[0]);
    assert_eq!(drawing.matches("<g ").count(), drawing.matches("</g>").count());
    assert_eq!(drawing.matches("<text ").count(), drawing.matches("</text>").count());
    assert!(drawing.contains("r=\"5\"") && drawing.ends_with("</svg>\n"), "{drawing}");

    let report = papers::markdown(&all);
    assert!(report.contains("![simmer-2022/fig6](simmer-2022-fig6.svg)"), "{report}");
    assert!(report.contains("- Assumed: receive queues of 4 launches."), "{report}");
}

#[test]
fn another_simulation_of_figure_6_agrees() {
    let marks = ["0", "2.0", "2.8", "3.6"];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/figure_6.py");
    let output = match Command::new("python3").arg(script).args(marks).output() {
        Ok(output) if output.status.success() => output,
        _ if std::env::var_os("WARPLINE_REQUIRE_PEERS").is_some() => panic!("python3 is required"),
        _ => return eprintln!("skipped: python3 does not run"),
    };
    let figure = entry("simmer-2022/fig6");
    let ours = |series: usize, at: &str| {
        let points = &figure.found.series[series].points;
        points.iter().find(|point| point.at == at).and_then(|point| point.ours).expect("a point")
    };
    let text = String::from_utf8(output.stdout).expect("text");
    for (line, at) in text.lines().zip(["vanilla", "2", "2.8", "3.6"]) {
        let cells: Vec<f64> = line.split(' ').filter_map(|cell| cell.parse().ok()).collect();
        let [_, rate, drops] = cells[..] else { panic!("{line}") };
        let own = ours(0, at);
        assert!((own / rate - 1.0).abs() < 0.03, "{at}: {own} Mpps, there {rate}");
        assert_eq!(ours(1, at) > 0.0, drops > 0.0, "{at}: {drops} drops there");
    }
    assert_eq!(text.lines().count(), marks.len());
}

/// The same runs with texts for numbers.
fn without_numbers(record: &Value) -> Value {
    let mut record = record.clone();
    for run in record["runs"].as_array_mut().expect("runs") {
        for value in run.as_object_mut().expect("a run").values_mut() {
            if value.is_number() {
                *value = json!("none");
            }
        }
    }
    record
}

#[test]
fn records_of_benches_are_read() {
    let parse = |text: &str| serde_json::from_str(text).expect("JSON");
    let simmer: Value = parse(include_str!("../../../bench/record/simmer-2026-11-27.json"));
    let vgpu: Value = parse(include_str!("../../../bench/record/vgpu-2026-11-27.json"));
    let (simmer, vgpu) = (&simmer, &vgpu);
    let read = |id: &str, record: &Value| papers::named(id)[0].measured(record);
    let six = read("simmer-2022/fig6", simmer);
    let at = |one: &Reproduced, series: usize, at: &str| {
        let points = &one.found.series[series].points;
        points.iter().find(|point| point.at == at).and_then(|point| point.ours)
    };
    assert_eq!((at(&six, 0, "vanilla"), at(&six, 0, "2.8")), (Some(0.453), Some(0.456)));
    assert_eq!(at(&six, 1, "2.8"), Some(0.0));
    let gain = at(&six, 2, "2.8").expect("a gain");
    assert!((gain - 0.66).abs() < 0.01, "0.456 to 0.453: {gain}");
    assert_eq!(six.state, ShapeVerdict::Differs);
    let nine = read("simmer-2022/fig9", simmer);
    assert_eq!((at(&nine, 0, "256"), at(&nine, 1, "256")), (Some(1.8), Some(2.39)));
    let three = read("vgpu-nfv-2020/fig3", vgpu);
    assert_eq!(at(&three, 0, "4"), Some(103.0), "IPsec under equal share");
    assert_eq!(at(&three, 3, "4"), Some(217.0), "NIDS under best effort");
    assert_eq!(at(&read("vgpu-nfv-2020/fig4", vgpu), 0, "2"), Some(14.94));
    for id in
        ["simmer-2022/fig7", "simmer-2022/fig7-nf1", "simmer-2022/fig7-nf3", "simmer-2022/fig10"]
    {
        assert_ne!(read(id, simmer).state, ShapeVerdict::NotRun, "{id}");
    }
    // Another bench's record measures nothing, and neither does one without its numbers.
    for other in [json!([]), json!({ "bench": "router", "runs": [] }), without_numbers(simmer)] {
        for entry in papers::named("all") {
            assert_eq!(entry.measured(&other).state, ShapeVerdict::NotRun, "{}", entry.id());
        }
    }
}
