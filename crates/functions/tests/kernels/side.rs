//! One of the two sides that are compared: batches of the same packets, and the state that works
//! before `run`.

use warpline_nf::{Cause, Emit, Function, State};
use warpline_packet::{
    ALIGN, ArenaLayout, Arrival, Batch, Field, FlowHasher, Found, Headers, Phase, Placer, SHARDS,
    SLAB_LEN, ScratchWord, Shard, Steering, Verdict,
};
use warpline_verify::Input;

use crate::sys::Reached;

/// The function's place in the chain.
pub(crate) const PLACE: u8 = 3;
/// Packets of the batches whose work the device does.
const SIZES: [usize; 3] = [1, 200, 55];
/// The batch that is left to the CPU whole, and the one whose packets left the way before: the
/// device touches neither.
const LEFT: usize = SIZES.len();
const SETTLED: usize = LEFT + 1;
/// Packets of each of these, the first of the others once more.
const MORE: usize = 8;
const BATCHES: usize = SETTLED + 1;

/// The batches that are filled each time.
pub(crate) const WORKED: core::ops::Range<usize> = 0..LEFT;
pub(crate) const FILLED: core::ops::Range<usize> = 0..BATCHES;
/// Packets of all of them.
pub(crate) const PACKETS_MAX: usize = 256 + 2 * MORE;

/// Places in a word at which frames begin, as earlier functions may leave them.
const MOVES: usize = 4;

/// An arena for the batches of one launch, of frames of up to `len_max` bytes.
pub(crate) fn layout(function: &dyn Function, scratch_words: usize, len_max: usize) -> ArenaLayout {
    let growth = function.growth();
    let room = len_max + growth.head + growth.tail + 3 * ALIGN;
    ArenaLayout {
        // A room that no longer fits in a slab begins in the next.
        slabs: 1 + (PACKETS_MAX * room).div_ceil(SLAB_LEN - room.min(SLAB_LEN / 2)),
        emit_slabs: 1,
        tables: BATCHES + 1,
        slots: 256 * (1 + function.emits().per_packet),
        scratch_words,
        headroom: growth.head.max(MOVES),
        tailroom: growth.tail,
    }
}

pub(crate) struct Side<'a> {
    function: &'a dyn Function,
    steering: Steering,
    states: Vec<State>,
    pub(crate) reached: Reached,
    ingress: u64,
}

/// All that is compared of a packet after `run`.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    bytes: Vec<u8>,
    verdict: Verdict,
    reason: u8,
    settled_by: u8,
    next_hop: u16,
    flagged: bool,
    scratch: Vec<u32>,
    /// The findings kept for each packet, if the function keeps findings.
    found: Vec<Option<Vec<u32>>>,
    headers: Headers,
    wire_len: usize,
}

impl<'a> Side<'a> {
    pub(crate) fn new(function: &'a dyn Function, layout: &ArenaLayout) -> Self {
        let steering = Steering::serving(function.state_key());
        let states = match steering {
            Steering::Single => vec![function.state(Shard::WHOLE)],
            _ => (0..SHARDS).map(|s| function.state(Shard::new(s))).collect(),
        };
        let mut reached = Reached::new(layout);
        let emits = function.emits();
        for batch in reached.parts().0 {
            batch.take_notes(
                layout.slots * emits.notes_per_packet,
                layout.slots * emits.notes_per_packet * emits.note_len_max,
            );
            batch.take_findings_room(layout.slots * emits.findings_per_packet);
        }
        Self { function, steering, states, reached, ingress: 0 }
    }

    /// Fills the batches with the first of `inputs` and does what comes before `run`. Gives how
    /// many it took.
    pub(crate) fn fill(&mut self, inputs: &[Input]) -> usize {
        let mut taken = 0;
        for batch in FILLED {
            let own = match SIZES.get(batch) {
                Some(&size) => &inputs[taken..inputs.len().min(taken + size)],
                None => &inputs[..inputs.len().min(MORE)],
            };
            taken += if batch < LEFT { own.len() } else { 0 };
            self.fill_batch(batch, own);
            self.before(batch);
        }
        taken
    }

    fn fill_batch(&mut self, index: usize, inputs: &[Input]) {
        let steering = &self.steering;
        let (batches, placer, _) = self.reached.parts();
        let batch = &mut batches[index];
        batch.clear();
        for input in inputs {
            push(batch, placer, steering, input, self.ingress);
            self.ingress += 1;
        }
        (0..batch.len()).for_each(|row| move_frame(batch, row, row % MOVES));
        // Functions upstream may have put outer headers before packets.
        (1..batch.len()).step_by(2).for_each(|row| batch.packet_mut(row).set_wrapped(true));
        batch.leave_none();
        if index == LEFT {
            batch.leave_from(PLACE);
        }
        if index == SETTLED {
            batch.enter(PLACE - 1);
            batch.for_each_forward(|packet| packet.send_back());
        }
        batch.enter(PLACE);
        batch.take_settled();
    }

    fn before(&mut self, index: usize) {
        let (batches, _, placer) = self.reached.parts();
        let (made, batches) = batches.split_last_mut().expect("one more than are filled");
        let batch = &mut batches[index];
        let (mut order, mut ends) = (Vec::new(), [0; SHARDS]);
        batch.group_by_shard(&mut order, &mut ends);
        let allowed = self.function.access().of(Phase::Before, self.function.type_name());
        let mut start = 0;
        for (shard, (state, end)) in self.states.iter_mut().zip(ends).enumerate() {
            let picks = &order[start..usize::from(end)];
            start = usize::from(end);
            let cause = |&pick: &u16| Cause::new(batch.packet(usize::from(pick)).ingress());
            let mut causes: Vec<Cause> = picks.iter().map(cause).collect();
            let emits = self.function.emits();
            let hasher = FlowHasher::default();
            let emit = &mut Emit::new(made, placer, &hasher, emits, Shard::new(shard), &mut causes);
            if let Some(before) = &mut state.before {
                batch.set_phase(allowed);
                before.before(batch, picks, emit);
                batch.leave_phase();
            }
        }
        assert!(batch.merge(made, &mut order), "made packets fit");
        made.clear();
    }

    /// `run` on what of a batch is the CPU's.
    pub(crate) fn run(&mut self, index: usize) {
        let function = self.function;
        let batch = self.batch(index);
        batch.set_phase(function.access().of(Phase::Run, function.type_name()));
        function.run(batch);
        batch.leave_phase();
    }

    pub(crate) fn batch(&mut self, index: usize) -> &mut Batch {
        &mut self.reached.parts().0[index]
    }

    pub(crate) fn frames(&mut self, index: usize) -> Vec<Vec<u8>> {
        let batch = self.batch(index);
        (0..batch.len()).map(|row| batch.packet(row).frame().to_vec()).collect()
    }

    /// `word` has the places of lists, which may differ between the sides. Lists of packets
    /// processed on the CPU come after all others.
    pub(crate) fn seen(&mut self, index: usize, word: Option<Field>) -> Vec<Seen> {
        let batch = self.batch(index);
        let word = word.map(|word| word as usize - Field::Scratch0 as usize);
        (0..batch.len()).map(|row| seen(batch, row, word)).collect()
    }
}

fn push(batch: &mut Batch, placer: &mut Placer, steering: &Steering, input: &Input, number: u64) {
    let headers = Headers::parse(&input.bytes, input.link, input.wire_len as usize);
    let steered = steering.steer(&FlowHasher::SEED_0, &input.bytes, &headers);
    let arrival = Arrival {
        timestamp: input.timestamp,
        captured: input.timestamp,
        ingress: number,
        wire_len: input.wire_len,
        link: input.link,
        interface: (number % 4) as u16,
        shard: steered.shard,
        flow_hash: steered.flow_hash,
    };
    let at = batch.push(&input.bytes, &headers, &arrival, placer).expect("room for the frames");
    batch.packet_mut(at).set_next_hop((number / 4 % 6) as u16);
}

fn move_frame(batch: &mut Batch, row: usize, by: usize) {
    let mut packet = batch.packet_mut(row);
    let frame = packet.frame().to_vec();
    assert!(packet.reshape(-(by as isize), -(by as isize)), "there is headroom");
    packet.frame_mut().copy_from_slice(&frame);
}

fn seen(batch: &Batch, row: usize, free: Option<usize>) -> Seen {
    let packet = batch.packet(row);
    let words = (0..).map_while(ScratchWord::new);
    let mut scratch: Vec<u32> = words.map(|word| packet.scratch(word)).collect();
    let found = |word: &u32| match batch.findings().get(*word) {
        Found::Numbers(numbers) => Some(numbers.to_vec()),
        Found::NoRoom => None,
    };
    let found: Vec<Option<Vec<u32>>> = match free {
        None => scratch.iter().map(found).collect(),
        // Only the word has the place of a list.
        Some(word) => vec![found(&core::mem::take(&mut scratch[word]))],
    };
    Seen {
        bytes: packet.frame().to_vec(),
        verdict: packet.verdict(),
        reason: packet.reason().0,
        settled_by: packet.settled_by(),
        next_hop: packet.next_hop(),
        flagged: packet.is_flagged(),
        found,
        scratch,
        headers: packet.headers(),
        wire_len: packet.wire_len(),
    }
}
