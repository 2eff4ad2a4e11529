//! Packets that are dropped, as a sink is shown them, where functions are on devices: as on the
//! CPU.

use std::thread;

use warpline_engine::{Control, LaunchOptions, Ports, Settings, Streams, run};
use warpline_io::NullSink;

use crate::common::dropped::{check_as_they_came, dropping};
use crate::common::forms::Form;
use crate::common::ports::Frames;
use crate::common::real::{deploy_forms, forms, traffic};
use crate::common::run::{assert_same, reported, run_showing_drops};
use crate::common::talk::Talk;
use crate::placed::{deploy_on, devices, devices_of_case, has_kernels};
use crate::same::{PATIENCE, SMALL};

fn same_on_devices(number: usize, forms: &[Form]) {
    let names: Vec<_> = forms.iter().map(|form| form.name).collect();
    let inputs = traffic(forms, Talk::new(71, 60, 1400).take(1500), 73, 15);
    let reference = run_showing_drops(deploy_forms(forms), Settings::default(), &inputs);
    assert!(!reference.dropped.is_empty(), "{names:?}");
    if let [form] = forms {
        check_as_they_came(form, &inputs, &reference);
    }
    let default = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    let small = LaunchOptions { bytes: 20_000, streams: Streams::Count(2), ..default };
    for device in devices_of_case(number) {
        for (lanes, batch_packets, launches) in [(1, 256, default), (2, 16, small)] {
            let settings = Settings { lanes, batch_packets, slabs: 6, ..Settings::default() };
            let deployment = deploy_on(forms, &device, launches);
            let outcome = run_showing_drops(deployment, settings, &inputs);
            let id = &device.description().id;
            let what = format!("{names:?} on {id}, {settings:?}");
            assert!(reported(&outcome).is_empty(), "{what}: {:?}", reported(&outcome));
            assert!(outcome.report.part.transfers.launches > 0, "{what}");
            assert_same(&reference.summary(), &outcome.summary(), &what);
        }
    }
}

#[test]
fn packets_that_a_function_drops_on_a_device_are_as_they_came() {
    for (number, form) in dropping().filter(|form| has_kernels(form)).enumerate() {
        same_on_devices(number, &[*form]);
    }
}

/// Functions that would share launches: what the second drops, the first has changed.
#[test]
fn packets_that_a_chain_drops_on_a_device_are_the_same() {
    let chains =
        [&["nat", "digest-drop", "firewall", "router"][..], &["digest-tag", "router-plain"]];
    for (number, names) in chains.into_iter().enumerate() {
        same_on_devices(number, &forms(names));
    }
}

/// Packets of a launch are passed on when it has ended.
#[test]
fn counts_of_packets_passed_on_never_shrink() {
    let forms = forms(&["digest-drop"]);
    let inputs = traffic(&forms, Talk::new(71, 60, 1400).take(500), 73, 0);
    let launches = LaunchOptions { bytes: SMALL, timeout: PATIENCE, ..LaunchOptions::default() };
    for device in devices() {
        let (deployment, control) = (deploy_on(&forms, &device, launches), Control::default());
        let ports = Ports::Shared(
            Box::new(Frames { endless: true, ..Frames::new(&inputs) }),
            Box::new(NullSink),
        );
        let counts = thread::scope(|scope| {
            let running = scope.spawn(|| run(&deployment, &Settings::default(), ports, &control));
            let mut counts = Vec::new();
            while counts.last().is_none_or(|(dropped, _)| *dropped < 10_000) && !control.has_ended()
            {
                let one = control.snapshot(&deployment).report.part.functions[0].clone();
                counts.push((one.dropped(), one.packets_out));
            }
            control.stop();
            running.join().expect("a run").expect("a chain that starts");
            counts
        });
        let shrinks = counts.windows(2).position(|pair| pair[1].1 < pair[0].1);
        assert_eq!(shrinks, None, "{counts:?}");
        assert!(counts.len() > 10, "{counts:?}");
    }
}
