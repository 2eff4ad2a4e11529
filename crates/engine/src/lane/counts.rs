//! Counts of a lane, while it runs and at its end.

use super::{Earlier, Lane};
use crate::Chain;
use crate::reports::Ended;
use crate::stage::{Launches, Stage};
use crate::stats::ThreadStats;

impl Lane {
    /// The counts of its functions so far.
    pub(crate) fn counts(&self, chain: &Chain) -> ThreadStats {
        let mut part = ThreadStats::new(chain.instances.len());
        (part.unrouted, part.paths) = (self.routes.unrouted, self.routes.paths.clone());
        (part.moves, part.transfers) = (self.earlier.moves, self.earlier.transfers);
        part.stages.clone_from(&self.pressure.counts);
        let now = self.clock.now();
        for (stage, counts) in self.stages.iter().zip(&mut part.stages) {
            stage.add_time(counts, now);
            let transfers = stage.launches.as_ref().map(Launches::transfers).unwrap_or_default();
            part.transfers.add(&transfers);
            counts.launches += transfers.launches;
            for (position, stats) in stage.counts(&transfers) {
                part.packets.generated += stats.generated;
                part.functions[position] = stats;
            }
        }
        part.pressure = Some(self.pressure.evidence(now));
        part
    }

    /// The counts of its functions, and their state.
    pub(crate) fn finish(mut self, chain: &Chain) -> Ended {
        let mut ended = Ended::new(chain.instances.len());
        self.close_versions();
        let Earlier { transfers, moves, warnings, followed } = self.earlier;
        (ended.part.transfers, ended.part.moves) = (transfers, moves);
        (ended.part.warnings, ended.part.versions) = (warnings, followed);
        (ended.part.unrouted, ended.part.paths) = (self.routes.unrouted, self.routes.paths);
        let now = self.clock.now();
        for (stage, counts) in self.stages.iter_mut().zip(&mut self.pressure.counts) {
            stage.add_time(counts, now);
            if let Some(launches) = stage.launches.take() {
                let transfers = launches.transfers();
                ended.part.transfers.add(&transfers);
                counts.launches += transfers.launches;
                ended.part.warnings.extend(launches.warnings());
                stage.add_transfers(&transfers);
            }
        }
        ended.part.pressure = Some(self.pressure.evidence(now));
        ended.part.stages = self.pressure.counts;
        for (position, stats, states) in self.stages.into_iter().flat_map(Stage::finish) {
            ended.part.packets.generated += stats.generated;
            ended.part.functions[position] = stats;
            ended.states[position] = states;
        }
        ended
    }
}
