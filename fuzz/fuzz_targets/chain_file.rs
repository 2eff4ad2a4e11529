//! Chain files, the ports that they name among them. Each part after a zero byte is a `--set`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline::fuzzing;
use warpline_fuzz::reported::check_reported;

const FILES: &[(&str, &str)] = &[
    ("rules", "accept tcp to any port 80\naccept established\n"),
    ("routes", "2001:db8::/32 2001:db8::1\n"),
    ("neighbours", "192.0.2.1 02:00:00:00:00:01\n"),
];

fuzz_target!(|text: &str| {
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default();
    let set: Vec<String> = parts.take(8).map(str::to_owned).collect();
    match fuzzing::read(file, FILES, &set, warpline_functions::FUNCTIONS) {
        Ok(chains) => {
            for loaded in chains {
                let cores = loaded.settings.cores.numbers();
                assert!((1..=64).contains(&loaded.settings.lanes));
                assert!(cores.is_empty() || loaded.settings.lanes <= cores.len());
                assert!(cores.iter().all(|core| *core <= warpline_engine::CORE_MAX));
                assert!((1..=1024).contains(&loaded.settings.batch_packets));
                let need = loaded.settings.fit(&loaded.deployment).memory(&loaded.deployment);
                // The shown size includes the arena, which has a bound of its own.
                assert!(!need.fits() || need.lane() <= 4 * warpline_engine::LANE_LEN_MAX);
                assert!(!need.to_string().is_empty());
                check_reported(loaded.notes.iter(), text);
            }
        }
        Err(mistakes) => check_reported(mistakes.iter(), text),
    }
});
