//! Random chains: the search agrees with brute force, is never worse than a baseline, and no plan
//! of any mode reads a stale field.

use proptest::prelude::*;
use warpline_packet::{Field, FieldSet};

use super::super::problem::{PlannedFunction, Problem, RowBytes, Touch, WholeBytes};
use super::super::{Aim, CopyTimes, FieldCosts, LinkCosts, Mode, Widths};
use super::brute::least;
use super::versions::follow;

/// Fields that functions pick from: of frames and of the table.
const FIELDS: [Field; 8] = [
    Field::SrcAddr,
    Field::DstAddr,
    Field::SrcPort,
    Field::L4Checksum,
    Field::Payload,
    Field::Len,
    Field::Verdict,
    Field::Scratch0,
];

fn fields() -> impl Strategy<Value = FieldSet> {
    let some = any::<u8>().prop_map(|bits| {
        FIELDS
            .into_iter()
            .enumerate()
            .filter(|(at, _)| bits >> at & 1 == 1)
            .map(|(_, f)| f)
            .collect()
    });
    prop_oneof![
        3 => Just(FieldSet::EMPTY),
        3 => some,
        1 => Just(FieldSet::FRAME),
        1 => Just(FieldSet::FRAME | FieldSet::GEOMETRY),
    ]
}

fn touch() -> impl Strategy<Value = Touch> {
    // A phase may write a field without needing what it was.
    (fields(), fields()).prop_map(|(needs, writes)| Touch { needs, writes })
}

fn rarely(touch: impl Strategy<Value = Touch>) -> impl Strategy<Value = Touch> {
    prop_oneof![3 => Just(Touch::NONE), 1 => touch]
}

/// Of flagged packets alone: what is written is needed, as others keep what they had.
fn flagged() -> impl Strategy<Value = Touch> {
    rarely(touch().prop_map(|touch| Touch { needs: touch.needs | touch.writes, ..touch }))
}

fn function(devices: usize) -> impl Strategy<Value = PlannedFunction> {
    let device = prop_oneof![2 => Just(None), 3 => (0..devices).prop_map(Some)];
    let fallback = prop_oneof![2 => Just(FieldSet::EMPTY), 1 => fields()];
    let bytes = (0.0..1200.0f64, 0.0..1200.0f64);
    let whole = prop::option::of(bytes.prop_map(|(there, back)| WholeBytes { there, back }));
    let besides = (flagged(), 0.0..1.0f64, fallback, row(), whole);
    (device, rarely(touch()), touch(), rarely(touch()), besides).prop_map(
        |(device, before, run, after, besides)| {
            let (after_flagged, flagged_share, fallback, row, whole) = besides;
            PlannedFunction {
                name: "one".into(),
                device,
                before,
                run,
                fallback,
                row,
                after,
                after_flagged,
                flagged_share,
                whole,
            }
        },
    )
}

fn row() -> impl Strategy<Value = RowBytes> {
    prop_oneof![
        1 => Just(RowBytes::NONE),
        3 => (0.0..60.0f64, 0.0..60.0f64).prop_map(|(there, back)| RowBytes { there, back }),
    ]
}

/// Fields that cross one by one: mostly all but payloads, which differ in length.
fn gathered() -> impl Strategy<Value = FieldSet> {
    prop_oneof![
        1 => Just(FieldSet::FRAME),
        2 => Just(FieldSet::FRAME & !FieldSet::of(&[Field::Payload])),
        2 => fields().prop_map(|fields| FieldSet::FRAME & !fields),
    ]
}

/// From free to dear, each by itself.
fn link() -> impl Strategy<Value = LinkCosts> {
    let some = || prop_oneof![1 => Just(0.0), 4 => 0.0..2.0f64];
    let field =
        || (some(), some()).prop_map(|(packet_ns, field_ns)| FieldCosts { packet_ns, field_ns });
    let fields = (field(), field());
    (some(), some(), some(), some(), fields, some(), (0.0..50.0f64, 1.0..8.0f64)).prop_map(
        |(to_device, to_host, on_host, on_device, (gather, put), transfer, (whole, traffic))| {
            LinkCosts {
                to_device_ns_per_byte: to_device,
                to_host_ns_per_byte: to_host,
                host_copy_ns_per_byte: on_host,
                device_copy_ns_per_byte: on_device,
                gather,
                put,
                transfer_ns: transfer * 10.0,
                whole_back_ns: whole,
                traffic,
            }
        },
    )
}

pub(super) fn problem(most: usize, devices: usize) -> impl Strategy<Value = Problem> {
    let functions = prop::collection::vec(function(devices), 0..=most);
    let links = prop::collection::vec(link(), devices..=devices);
    let sink = Problem::sink_reads();
    let ends = prop_oneof![2 => Just(FieldSet::FRAME), 2 => Just(sink), 1 => fields()];
    let rules = (prop::bool::weighted(0.3), any::<bool>(), gathered());
    (functions, links, 60u32..1600, 0u32..200, ends, rules).prop_map(
        |(functions, links, len, around, end_reads, rules)| {
            let (is_recoverable, fetches_first, gathered) = rules;
            Problem {
                functions,
                hops: None,
                links,
                widths: Widths::of_udp(len, len + around),
                end_reads,
                gathered,
                is_recoverable,
                fetches_first,
                aim: Aim::TIME,
            }
        },
    )
}

/// Up to three fields of frames.
fn few() -> impl Strategy<Value = FieldSet> {
    prop::collection::vec(prop::sample::select(&FIELDS[..5]), 0..=3)
        .prop_map(|fields| FieldSet::of(&fields))
}

/// Two mirrors in use from the first functions on, and functions that touch few fields, so that
/// many can stay where they are.
fn crowded() -> impl Strategy<Value = Problem> {
    let touch =
        || (few(), few()).prop_map(|(needs, writes)| Touch { needs: needs | writes, writes });
    let one =
        (0..2usize, touch(), rarely(touch()), few()).prop_map(|(device, run, before, few)| {
            let fallback = few & !run.writes;
            PlannedFunction {
                before,
                fallback,
                ..PlannedFunction::run_only("one", Some(device), run)
            }
        });
    let more = prop::collection::vec(one, 1..=4);
    (more, any::<bool>()).prop_map(|(more, fetches_first)| {
        let payload = FieldSet::of(&[Field::Payload]);
        let scan = Touch { needs: payload, writes: FieldSet::EMPTY };
        let scans = [0, 1].map(|device| PlannedFunction::run_only("scan", Some(device), scan));
        Problem {
            functions: scans.into_iter().chain(more).collect(),
            hops: None,
            links: vec![LinkCosts::PCIE_4; 2],
            widths: Widths::of_udp(1000, 1100),
            end_reads: FieldSet::FRAME,
            gathered: FieldSet::FRAME & !payload,
            is_recoverable: false,
            fetches_first,
            aim: Aim::TIME,
        }
    })
}

fn agrees(problem: &Problem) -> Result<(), TestCaseError> {
    let plans = Mode::ALL.map(|mode| (mode, problem.plan(mode).expect("links")));
    let adaptive = plans[0].1.cost_ns;
    for (mode, plan) in &plans {
        let followed = follow(problem, plan);
        prop_assert!(followed.is_ok(), "{mode:?}: {followed:?} {plan:#?}");
        let worse = adaptive <= plan.cost_ns + 1e-9;
        prop_assert!(worse, "{mode:?} costs {}, adaptive {adaptive}", plan.cost_ns);
    }
    let least = least(problem);
    prop_assert!((adaptive - least).abs() < 1e-6, "found {adaptive}, there is {least}");
    Ok(())
}

/// The default aim's plan takes at most a tenth longer than the cheapest, and moves no more bytes
/// than it or than another rule's plan within that time.
fn spares_bytes(problem: &Problem) -> Result<(), TestCaseError> {
    let sparing = Problem { aim: Aim::default(), ..problem.clone() };
    let plan = sparing.plan(Mode::Adaptive).expect("links");
    prop_assert!(follow(problem, &plan).is_ok(), "{plan:#?}");
    let most = 1.1 * least(problem) + 1e-9;
    prop_assert!(plan.cost_ns <= most, "{} of {most}", plan.cost_ns);
    for mode in Mode::ALL {
        let other = problem.plan(mode).expect("links");
        let may_be_better = other.cost_ns > most - 1e-6;
        prop_assert!(may_be_better || plan.bytes() <= other.bytes(), "{mode:?}: {plan:#?}");
    }
    Ok(())
}

/// `problem` with costs so much higher that its cheapest plan is that of `aim`.
fn dearer(problem: &Problem, aim: Aim) -> Problem {
    let [host, there, back] = [aim.host, aim.to_device, aim.to_host].map(f64::from);
    let scaled = |costs: FieldCosts| FieldCosts {
        packet_ns: host * costs.packet_ns,
        field_ns: host * costs.field_ns,
    };
    let link = |own: &LinkCosts| LinkCosts {
        to_device_ns_per_byte: there * own.to_device_ns_per_byte,
        to_host_ns_per_byte: back * own.to_host_ns_per_byte,
        host_copy_ns_per_byte: host * own.host_copy_ns_per_byte,
        device_copy_ns_per_byte: host * own.device_copy_ns_per_byte,
        gather: scaled(own.gather),
        put: scaled(own.put),
        transfer_ns: host * own.transfer_ns,
        whole_back_ns: host * own.whole_back_ns,
        traffic: own.traffic,
    };
    Problem { links: problem.links.iter().map(link).collect(), ..problem.clone() }
}

fn candidates_agree(problem: &Problem) -> Result<(), TestCaseError> {
    let all = problem.candidates(Mode::Adaptive).expect("links");
    prop_assert_eq!(&all[0], &(Aim::TIME, problem.plan(Mode::Adaptive).expect("links")));
    for (aim, plan) in &all {
        prop_assert!(follow(problem, plan).is_ok(), "{}: {plan:#?}", aim.name);
        let times = problem.copy_times(plan).into_iter().fold(CopyTimes::default(), |a, b| a + b);
        prop_assert!((times.total() - plan.cost_ns).abs() < 1e-6, "{times:?} {plan:#?}");
        let dearer = dearer(problem, *aim);
        let cost: f64 = plan.steps.iter().map(|step| dearer.cost(step)).sum();
        let least = least(&dearer);
        prop_assert!((cost - least).abs() < 1e-6, "{}: {cost}, there is {least}", aim.name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cheapest_plan_is_found(problem in problem(6, 1)) {
        agrees(&problem)?;
    }

    #[test]
    fn the_default_spares_bytes(problem in problem(5, 2)) {
        spares_bytes(&problem)?;
    }

    #[test]
    fn the_plan_of_each_aim_is_found(problem in problem(4, 2)) {
        candidates_agree(&problem)?;
    }

    #[test]
    fn the_cheapest_plan_over_several_devices_is_found(problem in problem(4, 3)) {
        agrees(&problem)?;
    }
    #[test]
    fn the_cheapest_plan_is_found_where_much_stays(problem in crowded()) {
        agrees(&problem)?;
    }
}
