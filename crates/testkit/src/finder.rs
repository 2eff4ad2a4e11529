//! A function for the tests of findings, on the CPU and on devices: it finds a byte in payloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpline_packet::{
    Access, Batch, Field, FieldSet, Findings, Flags, Found, PacketMut, ReadWrite, Reason,
    ScratchWord, Shard, Verdict,
};

use warpline_nf::kernels::{FINDINGS, KernelStep, Kernels, number_of};
use warpline_nf::{After, Emit, Emits, Function, State, StateHalf};

/// The byte that it finds.
pub const BYTE: u8 = b'k';
/// How many lists the packets of all `after` halves had, and how many had to be made again.
pub type Lists = Arc<[AtomicU64; 2]>;

/// `run` stores the positions of the byte and drops packets that have many. `after` adds the
/// positions up and drops others.
pub struct Finder {
    access: Access,
    word: ScratchWord,
    /// Numbers of findings for each packet.
    room: usize,
    lists: Lists,
}

impl Finder {
    /// With room for so many numbers a packet.
    pub fn new(word: ScratchWord, room: usize) -> Self {
        let own = FieldSet::of(&[word.field(), Field::Verdict]);
        let text = FieldSet::HEADERS.with(Field::Len).with(Field::Payload);
        let access = Access {
            run: ReadWrite::new(text, own),
            after: ReadWrite::new(text | own, FieldSet::of(&[Field::Verdict])),
            ..Access::run_only(ReadWrite::NONE)
        };
        Self { access, word, room, lists: Lists::default() }
    }

    /// The counts of its `after` halves.
    pub fn lists(&self) -> &Lists {
        &self.lists
    }
}

/// Where the byte lies in a payload.
fn places(payload: &[u8]) -> Vec<u32> {
    let all = payload.iter().enumerate().filter(|(_, byte)| **byte == BYTE);
    all.map(|(place, _)| place as u32).collect()
}

fn search(packet: &mut PacketMut<'_>, word: ScratchWord, findings: &mut Findings) {
    if packet.reject_malformed() || packet.version() == 0 || packet.has(Flags::SNAPPED) {
        return;
    }
    let found = places(packet.payload());
    packet.set_scratch(word, findings.keep(&found));
    if found.len() % 5 == 4 {
        packet.drop(Reason(0));
    }
}

impl Function for Finder {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        let mut findings = batch.take_findings();
        batch.for_each_forward(|packet| search(packet, self.word, &mut findings));
        batch.set_findings(findings);
    }

    fn kernels(&self) -> Option<Kernels> {
        const STEPS: &[KernelStep] =
            &[KernelStep { name: "find_bytes", group: 64, shared_big: 0, items_per_packet: 1 }];
        let kernels = Kernels::builder("finder.cl", include_str!("finder.cl"), STEPS)
            .headers(&[FINDINGS])
            .defines(vec![("WORD", number_of(self.word)), ("BYTE", BYTE.into())])
            .findings(self.word)
            .build();
        Some(kernels.declaring(self.kernel_access()))
    }

    fn state(&self, _: Shard) -> State {
        let lists = Arc::clone(&self.lists);
        State::after(Sum { word: self.word, found: 0, sum: 0, lists })
    }

    fn emits(&self) -> Emits {
        Emits { findings_per_packet: self.room, ..Emits::NONE }
    }
}

struct Sum {
    word: ScratchWord,
    found: u64,
    sum: u64,
    lists: Lists,
}

impl After for Sum {
    fn after(&mut self, batch: &mut Batch, picks: &[u16], _: &mut Emit<'_>) {
        for &index in picks {
            let packet = batch.packet(usize::from(index));
            let found = match batch.findings().get(packet.scratch(self.word)) {
                Found::Numbers(&[]) => continue,
                Found::Numbers(numbers) => {
                    self.lists[0].fetch_add(1, Ordering::Relaxed);
                    numbers.to_vec()
                }
                Found::NoRoom => {
                    self.lists[1].fetch_add(1, Ordering::Relaxed);
                    places(packet.payload())
                }
            };
            let sum: u64 = found.iter().map(|&place| u64::from(place) + 1).sum();
            self.found += found.len() as u64;
            self.sum += sum;
            let mut packet = batch.packet_mut(usize::from(index));
            if sum % 7 == 3 && packet.verdict() == Verdict::Forward {
                packet.drop(Reason(1));
            }
        }
    }
}

impl StateHalf for Sum {
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        visit("found", self.found);
        visit("sum", self.sum);
    }
}
