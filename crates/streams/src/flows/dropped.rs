//! Undoes the effects of a dropped packet on its flow.

use super::memory::Wrote;
use super::{Direction, FlowSlot, Flows, TakenBack};

impl<V: Default + Clone> Flows<V> {
    /// The current packet, of this flow and direction, was dropped, so its receiver never sees it.
    /// Removes its payload from the stream, and its effect on the connection's end.
    pub fn take_back(&mut self, place: FlowSlot, direction: Direction) -> TakenBack {
        let taken = self.take_out(place, direction);
        self.table.settle(place.0);
        taken
    }

    fn take_out(&mut self, place: FlowSlot, direction: Direction) -> TakenBack {
        let Some(before) = self.end_before.take() else { return TakenBack::Nothing };
        let connection = &mut self.table.get_mut(place.0).connection;
        connection.take_end_back(direction, &before);
        let own = &mut connection.halves[direction as usize];
        let taken = match self.memory.wrote {
            Wrote::Nothing => return TakenBack::Nothing,
            Wrote::Alone(span) => {
                own.forget_urgent(span.start, span.end);
                own.side.take_back(&mut self.memory, span)
            }
            Wrote::Mixed => None,
        };
        let counters = &mut self.memory.counters;
        counters.segments_taken_back += u64::from(taken.is_some());
        counters.segments_mixed += u64::from(taken.is_none());
        taken.unwrap_or(TakenBack::Mixed)
    }
}
