//! `ctl trace`: the ways of packets through running chains.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use warpline_engine::MachineChain;
use warpline_native::packet_filter::PacketFilter;

use crate::summary::grouped;
use crate::trace::{Chosen, Recorder, SCHEMA, Traced, chain_to_json, chain_to_text};

/// Packets of a chain that a trace may have.
pub(crate) const COUNTS: RangeInclusive<u64> = 1..=100;
/// Seconds that it may last: a connection is closed after a minute.
pub(crate) const SECONDS: RangeInclusive<u64> = 1..=50;
/// How often a trace looks whether it has all packets.
const LOOK: Duration = Duration::from_millis(5);

/// The packets of a trace.
pub(super) struct TraceRequest {
    pub(super) filter: PacketFilter,
    /// Packets of each chain.
    pub(super) count: u64,
    /// How long it waits for them.
    pub(super) lasts: Duration,
}

/// Whether a trace is under way: each process has one at a time.
#[derive(Default)]
pub(super) struct Tracing(AtomicBool);

/// The trace of a process, which ends when this is dropped.
pub(super) struct Trace<'a> {
    tracing: &'a Tracing,
    chains: Vec<(Arc<MachineChain>, Arc<Recorder>)>,
}

/// The packets of a trace, by chain.
pub(super) struct TraceResult {
    chains: Vec<TracedChain>,
    lasted: Duration,
}

struct TracedChain {
    chain: Arc<MachineChain>,
    /// Packets that came.
    came: u64,
    packets: Vec<Traced>,
}

impl Tracing {
    /// A trace, unless another one is under way.
    pub(super) fn start(&self) -> Option<Trace<'_>> {
        let is_busy = self.0.swap(true, Ordering::Acquire);
        (!is_busy).then(|| Trace { tracing: self, chains: Vec::new() })
    }
}

impl Trace<'_> {
    /// Records packets of `chains`, as long as it lasts or until they end.
    ///
    /// # Errors
    /// No packet matches.
    pub(super) async fn record(
        mut self,
        chains: &[&Arc<MachineChain>],
        request: TraceRequest,
    ) -> Result<TraceResult, String> {
        let TraceRequest { filter, count, lasts } = request;
        let filter = Arc::new(filter);
        for &chain in chains {
            let chosen = Chosen::Matches { filter: Arc::clone(&filter), most: count as usize };
            let recorder = Arc::new(Recorder::new(chosen, chain.deployment().chain(), None));
            chain.control.observe(Some(recorder.clone()));
            self.chains.push((Arc::clone(chain), recorder));
        }
        self.wait(lasts).await
    }

    async fn wait(self, lasts: Duration) -> Result<TraceResult, String> {
        let began = Instant::now();
        let is_over = |(chain, recorder): &(Arc<MachineChain>, Arc<Recorder>)| {
            recorder.is_done() || chain.control.has_ended()
        };
        while began.elapsed() < lasts && !self.chains.iter().all(is_over) {
            sleep(LOOK).await;
        }
        let of_chain = |(chain, recorder): &(Arc<MachineChain>, Arc<Recorder>)| {
            let (came, packets) = recorder.take();
            TracedChain { chain: Arc::clone(chain), came, packets }
        };
        let chains: Vec<TracedChain> = self.chains.iter().map(of_chain).collect();
        let result = TraceResult { chains, lasted: began.elapsed() };
        match result.chains.iter().all(|own| own.packets.is_empty()) {
            true => Err(result.to_text()),
            false => Ok(result),
        }
    }
}

impl Drop for Trace<'_> {
    fn drop(&mut self) {
        self.chains.iter().for_each(|(chain, _)| chain.control.observe(None));
        self.tracing.0.store(false, Ordering::Release);
    }
}

impl TraceResult {
    pub(super) fn to_json(&self) -> Value {
        let of_chain = |own: &TracedChain| {
            let chain = own.chain.deployment();
            let mut json = chain_to_json(chain.chain(), &own.packets, None);
            json["came"] = own.came.into();
            json
        };
        let chains: Vec<Value> = self.chains.iter().map(of_chain).collect();
        json!({ "schema": SCHEMA, "seconds": self.lasted.as_secs_f64(), "chains": chains })
    }

    pub(super) fn to_text(&self) -> String {
        let of_chain = |own: &TracedChain| {
            let (chain, name) = (own.chain.deployment(), &own.chain.name);
            if own.packets.is_empty() {
                let (came, seconds) = (grouped(own.came), self.lasted.as_secs_f64());
                return format!(
                    "chain {name:?}: none of {came} packets in {seconds:.1} s matches the filter"
                );
            }
            let text = chain_to_text(chain.chain(), &own.packets, &[]);
            let heading = format!("chain {name:?}\n");
            let heading = if self.chains.len() > 1 { &*heading } else { "" };
            format!("{heading}{}", text.trim_end())
        };
        self.chains.iter().map(of_chain).collect::<Vec<_>>().join("\n")
    }
}
