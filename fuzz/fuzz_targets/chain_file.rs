//! Chain files, the ports that they name among them. Behind a zero byte, each part is a `--set`. The
//! reader belongs to a program and not to a library, so its files are taken in here.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_fuzz::told::check_told;
use warpline_nf::SourceText;
use warpline_nf::config::Folder;

#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/chain_file/mod.rs"]
mod chain_file;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/chain_order.rs"]
mod chain_order;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/core_keys.rs"]
mod core_keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/demo/mod.rs"]
mod demo;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/device_keys.rs"]
mod device_keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/keys.rs"]
mod keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/plan_keys.rs"]
mod plan_keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/port_keys.rs"]
mod port_keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/port_tables.rs"]
mod port_tables;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/ports.rs"]
mod ports;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/pressure_keys.rs"]
mod pressure_keys;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/profile_file.rs"]
mod profile_file;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/route_tables.rs"]
mod route_tables;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/table_lists.rs"]
mod table_lists;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/tenants/mod.rs"]
mod tenants;
#[allow(dead_code, unreachable_pub)]
#[path = "../../crates/warpline/src/writes.rs"]
mod writes;

const FILES: &[(&str, &str)] = &[
    ("rules", "accept tcp to any port 80\naccept established\n"),
    ("routes", "2001:db8::/32 2001:db8::1\n"),
    ("neighbours", "192.0.2.1 02:00:00:00:00:01\n"),
];

fuzz_target!(|text: &str| {
    let mut parts = text.split('\0');
    let source = SourceText::new("chain.toml", parts.next().unwrap_or_default());
    let set: Vec<String> = parts.take(8).map(str::to_owned).collect();
    let set = chain_file::Setting::of_set(&set);
    let functions = warpline_functions::FUNCTIONS;
    let options = chain_file::LoadOptions { functions, set: &set, device: None, is_live: false };
    match chain_file::load(&source, Folder::Bundled(FILES), &options, true) {
        Ok(chains) => {
            for loaded in chains {
                let cores = loaded.settings.cores.numbers();
                assert!((1..=64).contains(&loaded.settings.lanes));
                assert!(cores.is_empty() || loaded.settings.lanes <= cores.len());
                assert!(cores.iter().all(|core| *core <= warpline_engine::CORE_MAX));
                assert!((1..=1024).contains(&loaded.settings.batch_packets));
                let need = loaded.settings.fit(&loaded.deployment).memory(&loaded.deployment);
                // A lane that fits has an end: what is shown is as large as the arena, which has a bound of its own.
                assert!(!need.fits() || need.lane() <= 4 * warpline_engine::LANE_LEN_MAX);
                assert!(!need.to_string().is_empty());
                check_told(loaded.left_out.iter().chain(loaded.remarks.iter()), text);
            }
        }
        Err(mistakes) => check_told(mistakes.iter(), text),
    }
});
