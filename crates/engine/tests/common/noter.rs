//! A function that notes every packet, every tick and, at the end, each shard's count. It can be
//! built anew with another stamp and takes over the old one's state.

use core::any::Any;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use warpline_nf::{After, Cell, Emit, Emits, Function, Outputs, Report, State, StateHalf, Table};
use warpline_packet::{
    Access, Batch, Field, FieldSet, Instant, ReadWrite, Reason, Shard, StateKey, Verdict,
};

/// The subject of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A packet: the stamp of the function, the packet's number in the input, and among its
    /// packets.
    Packet { stamp: u8, ingress: u64, packet: u64, dropped: bool },
    /// The time: packets of a shard so far, and of the input.
    Tick { stamp: u8, count: u64, packets: u64 },
    /// The end: packets of a shard.
    End { count: u64 },
}

/// Notes that the report received.
pub(crate) type Notes = Arc<Mutex<Vec<Note>>>;

/// The function.
pub(crate) struct Noter {
    access: Access,
    stamp: u8,
    pub(crate) notes: Notes,
    pub(crate) fails: bool,
}

impl Noter {
    pub(crate) fn new(stamp: u8) -> Self {
        let access = Access {
            run: ReadWrite::new(FieldSet::of(&[Field::FlowHash]), FieldSet::of(&[Field::Verdict])),
            after: ReadWrite::new(FieldSet::of(&[Field::Verdict, Field::Ingress]), FieldSet::EMPTY),
            ..Access::run_only(ReadWrite::NONE)
        };
        Self { access, stamp, notes: Notes::default(), fails: false }
    }
}

impl Function for Noter {
    fn access(&self) -> &Access {
        &self.access
    }

    /// Every stamp drops other flows.
    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| {
            if packet.flow_hash() % 7 == u32::from(self.stamp) {
                packet.drop(Reason(self.stamp));
            }
        });
    }

    fn state_key(&self) -> StateKey {
        StateKey::AddressPair
    }

    fn state(&self, _: Shard) -> State {
        State::after(Half { stamp: self.stamp, count: 0 })
    }

    fn emits(&self) -> Emits {
        Emits::notes(1, 10)
    }

    fn tick(&self) -> Option<Duration> {
        Some(Duration::from_millis(5))
    }

    fn report(&self, _: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        let notes = Arc::clone(&self.notes);
        if self.fails { Err("no such folder".into()) } else { Ok(Some(Box::new(Taker { notes }))) }
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        (old as &dyn Any).downcast_ref::<Self>().map(|_| ()).ok_or_else(|| "another kind".into())
    }
}

struct Half {
    stamp: u8,
    count: u64,
}

impl After for Half {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], emit: &mut Emit<'_>) {
        for &index in picks {
            self.count += 1;
            let packet = batch.packet(usize::from(index));
            let dropped = packet.verdict() == Verdict::Dropped;
            let mut note = [0; 10];
            (note[0], note[1]) = (self.stamp, u8::from(dropped));
            note[2..].copy_from_slice(&packet.ingress().to_le_bytes());
            assert!(emit.note(packet.ingress(), &note));
            assert!(!emit.note(packet.ingress(), &[0; 11]), "longer than declared");
        }
    }
}

impl StateHalf for Half {
    fn handle_timeout(&mut self, _: Instant, emit: &mut Emit<'_>) {
        let mut note = [self.stamp; 9];
        note[1..].copy_from_slice(&self.count.to_le_bytes());
        assert!(emit.note(0, &note));
    }

    fn close(&mut self, report: &mut dyn Report) {
        report.note(&self.count.to_le_bytes());
    }

    fn reload(&mut self, function: &dyn Function) {
        let new = (function as &dyn Any).downcast_ref::<Noter>().expect("a noter");
        self.stamp = new.stamp;
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("counted", self.count);
    }
}

struct Taker {
    notes: Notes,
}

impl Report for Taker {
    fn note(&mut self, note: &[u8]) {
        self.note_about(0, note);
    }

    fn note_about(&mut self, packet: u64, note: &[u8]) {
        let number = |at: usize| u64::from_le_bytes(note[at..at + 8].try_into().expect("8 bytes"));
        self.notes.lock().expect("notes").push(match note.len() {
            10 => {
                Note::Packet { stamp: note[0], ingress: number(2), packet, dropped: note[1] == 1 }
            }
            9 => Note::Tick { stamp: note[0], count: number(1), packets: packet },
            _ => Note::End { count: number(0) },
        });
    }

    fn finish(&mut self) -> Result<(), String> {
        Err("the disk is full".into())
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("notes", self.notes.lock().expect("notes").len() as u64);
    }

    fn tables(&self) -> Vec<Table> {
        let notes = Cell::Number(self.notes.lock().expect("notes").len() as u64);
        vec![Table { name: "all", columns: vec!["notes"], rows: vec![vec![notes]] }]
    }
}
