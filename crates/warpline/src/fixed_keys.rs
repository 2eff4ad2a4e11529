//! Keys of a chain file that a reload cannot change: the run keeps their values until a restart. A
//! reload names those that changed.

use std::collections::BTreeMap;
use std::fmt::Debug;

use warpline_engine::{LaunchOptions, PressureOptions, Settings, Site};
use warpline_sched::PauseMode;

use crate::placement::Auto;
use crate::port_keys::PortKeys;
use crate::port_tables::PortTable;
use crate::ports::Input;
use crate::process_keys::ProcessTable;

/// Names of keys and their values as they were read. Defaults have values, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FixedKeys(BTreeMap<String, String>);

impl FixedKeys {
    /// Notes the value of a key.
    pub(crate) fn note(&mut self, name: impl Into<String>, value: &impl Debug) {
        self.0.insert(name.into(), format!("{value:?}"));
    }

    /// The keys that have other values in `new`.
    pub(crate) fn changed(&self, new: &Self) -> Vec<String> {
        let names = self.0.keys().chain(new.0.keys().filter(|name| !self.0.contains_key(*name)));
        names.filter(|name| self.0.get(*name) != new.0.get(*name)).cloned().collect()
    }

    /// Keys of `[chain]` for the sizes of its parts, for threads and for cores.
    pub(crate) fn note_settings(&mut self, settings: &Settings) {
        self.note("lanes", &settings.lanes);
        self.note("cores", &settings.cores);
        self.note("busy", &settings.busy);
        self.note("batch_packets", &settings.batch_packets);
        self.note("queue_batches", &settings.queue_batches);
        self.note("arena_mib", &settings.slabs);
    }

    /// Keys of `[chain]` for input and output.
    pub(crate) fn note_ports(&mut self, ports: &PortKeys) {
        let own_input = ports.input.as_ref().filter(|input| !matches!(input, Input::Ports(..)));
        self.note("input", &own_input);
        self.note("output", &ports.output);
        self.note("tap", &ports.tap);
        self.note("impair", &ports.impair);
    }

    /// Keys of `[[port]]`. Other changes of ports are refused.
    pub(crate) fn note_port(&mut self, table: &PortTable) {
        let name = |key: &str| format!("[[port]] {} {key}", table.port.name);
        self.note(name("device"), &table.input);
        self.note(name("interface"), &table.interface);
        self.note(name("output"), &table.output);
    }

    /// Keys of `[process]`.
    pub(crate) fn note_process(&mut self, process: &ProcessTable) {
        self.note("[process] user", &process.user);
        self.note("[process] metrics", &process.metrics);
        self.note("[process] system_call_filter", &process.refuses_calls);
        self.note("[process] outputs_wait_ms", &process.outputs_wait);
    }

    /// Keys of `[backpressure]`.
    pub(crate) fn note_pressure(&mut self, options: &PressureOptions, starts_paused: bool) {
        let marks = match options.mode {
            PauseMode::On(marks) => Some(marks),
            PauseMode::Off => None,
        };
        self.note("[backpressure] mode", &marks.is_some());
        self.note("[backpressure] high", &marks.map(|marks| marks.high()));
        self.note("[backpressure] low", &marks.map(|marks| marks.low()));
        self.note("[backpressure] queue", &options.queue);
        self.note("[backpressure] start", &starts_paused);
    }

    /// Keys of a function's table for its stage, and for its launches on a device that it names.
    pub(crate) fn note_seat(&mut self, table: &str, site: &Site, auto: Option<&Auto>) {
        let name = |key: &str| format!("[{table}] {key}");
        self.note(name("stage"), &site.own_stage);
        self.note(name("launch_batches"), &site.launch_batches);
        let Some(on) = site.on_device.as_ref().filter(|_| auto.is_none()) else { return };
        let LaunchOptions { bytes, delay, streams, sync, graphs, timeout, .. } = on.launches;
        self.note(name("launch_kib"), &bytes);
        self.note(name("launch_delay_us"), &delay);
        self.note(name("launch_timeout_ms"), &timeout);
        self.note(name("streams"), &streams);
        self.note(name("sync"), &sync);
        self.note(name("graphs"), &graphs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_and_missing_keys_are_named() {
        let keys = |all: &[(&str, u8)]| {
            let mut keys = FixedKeys::default();
            all.iter().for_each(|(name, value)| keys.note(*name, value));
            keys
        };
        let old = keys(&[("busy", 1), ("lanes", 2), ("seed", 3)]);
        assert_eq!(old.changed(&old), [""; 0]);
        assert_eq!(
            old.changed(&keys(&[("lanes", 2), ("seed", 4), ("tap", 5)])),
            ["busy", "seed", "tap"]
        );
    }
}
