//! Translation at one place of a chain or at two: destinations at the first, sources at the second.
//!
//! The first place looks every packet up and writes scratch words for both. The second has no
//! state. It rewrites sources, and undoes the work of the first place in answers to packets.
//!
//! A function between the places may give a packet another source, or put it into another packet.
//! The second place leaves such packets as they are. It drops a packet that still has its source
//! and no longer shows its ports.

use std::any::Any;

use warpline_nf::{Function, Kernels, Resources, Section};
use warpline_packet::wire::ip_protocol;
use warpline_packet::{
    Access, Batch, Field, FieldSet, Flags, PacketMut, ReadWrite, Reason, ScratchWord,
};

use crate::translate::{self, Action, Rewrite, Words};
use crate::{Endpoint, icmp, kernels};

/// The scratch words of a translator, by the place that applies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceWords {
    first: Words,
    second: Option<SecondWords>,
    changes: Vec<ScratchWord>,
}

/// The scratch words that a second place reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecondWords {
    pub(crate) words: Words,
    /// The source at the first place, see [`folded`].
    pub(crate) source: ScratchWord,
}

impl SecondWords {
    fn from(resources: &mut Resources, has_v6: bool, section: &mut Section<'_>) -> Option<Self> {
        let words = Words::from(resources, has_v6, section)?;
        let Some([source]) = resources.scratch::<1>() else {
            section.mistake("function", translate::NO_WORDS);
            return None;
        };
        Some(Self { words, source })
    }

    fn all(&self) -> impl Iterator<Item = ScratchWord> {
        self.words.all().chain([self.source])
    }

    /// Whether the source of `packet` is what it was at the first place.
    #[inline]
    pub(crate) fn has_source(&self, packet: &PacketMut<'_>) -> bool {
        packet.scratch(self.source) == folded(packet.addresses().0)
    }
}

/// An IPv4 address, or the four words of an IPv6 address as one.
#[inline]
fn folded(address: u128) -> u32 {
    let halves = address as u64 ^ (address >> 64) as u64;
    halves as u32 ^ (halves >> 32) as u32
}

impl PlaceWords {
    /// Words of a translator with one place, or a mistake.
    pub fn one(resources: &mut Resources, has_v6: bool, section: &mut Section<'_>) -> Option<Self> {
        let first = Words::from(resources, has_v6, section)?;
        Some(Self { first, second: None, changes: first.all().collect() })
    }

    /// Words of a translator with two places, or a mistake.
    pub fn two(resources: &mut Resources, has_v6: bool, section: &mut Section<'_>) -> Option<Self> {
        let first = Words::from(resources, has_v6, section)?;
        let second = SecondWords::from(resources, has_v6, section)?;
        Some(Self { first, second: Some(second), changes: second.all().collect() })
    }

    /// The words that the first or only place applies.
    pub fn first(&self) -> &Words {
        &self.first
    }

    /// The fields of all words.
    pub fn fields(&self) -> FieldSet {
        self.changes.iter().map(|word| word.field()).chain(self.first.fields().iter()).collect()
    }

    /// See [`Function::change_words`].
    pub fn change_words(&self) -> &[ScratchWord] {
        &self.changes
    }

    /// Whether there are two places.
    pub fn has_two(&self) -> bool {
        self.second.is_some()
    }

    /// Gives `packet`, from inside to inside by an outside address, a new destination at the first
    /// of two places and a new source at the second.
    pub fn set_both(&self, packet: &mut PacketMut<'_>, destination: &Rewrite, source: &Rewrite) {
        if let Some(second) = &self.second {
            self.first.set(packet, destination);
            match source.action {
                Action::Source => second.words.put(packet, translate::HAIRPIN, source.to),
                _ => second.words.set(packet, source),
            }
            packet.set_scratch(second.source, folded(packet.addresses().0));
        }
    }

    /// Writes `rewrite` into the words of `packet`. With two places an inbound packet keeps its
    /// destination in the words of the second, for answers to it.
    #[inline]
    pub fn set(&self, packet: &mut PacketMut<'_>, rewrite: &Rewrite) {
        match &self.second {
            None => self.first.set(packet, rewrite),
            Some(second) if rewrite.action.is_source() => {
                second.words.set(packet, rewrite);
                packet.set_scratch(second.source, folded(packet.addresses().0));
            }
            Some(second) => {
                let destination = destination(packet);
                self.first.set(packet, rewrite);
                second.words.put(packet, translate::UNDO, destination);
            }
        }
    }
}

/// Where a packet goes. An echo's identifier stands for the port; a later fragment has neither.
fn destination(packet: &PacketMut<'_>) -> Endpoint {
    let port = match packet.protocol() {
        ip_protocol::TCP | ip_protocol::UDP => packet.dst_port(),
        _ if !packet.has(Flags::TRANSPORT) => 0,
        _ if icmp::is_echo(packet.version(), packet.icmp_type()) => packet.icmp_ident(),
        _ => 0,
    };
    Endpoint { address: packet.addresses().1, port }
}

/// The second place of a translator.
pub struct SecondPlace {
    words: SecondWords,
    /// All of `words`.
    changes: Vec<ScratchWord>,
    has_echoes: bool,
    refusals: Refusals,
    access: Access,
}

/// Why a second place drops packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// An answer whose quote can't be read.
    pub bad_quote: Reason,
    /// A packet whose ports another function hid, and whose source it left.
    pub hidden: Reason,
}

impl SecondPlace {
    /// The place that applies the last of `words`, of a translator with two. `run` has the fields
    /// that rewriting touches; `has_echoes`, whether identifiers of echoes are rewritten.
    pub fn new(
        words: &PlaceWords,
        run: ReadWrite,
        has_echoes: bool,
        refusals: Refusals,
    ) -> Option<Self> {
        let changes = words.changes.clone();
        let words = words.second?;
        let icmp = FieldSet::of(&[Field::IcmpType]);
        let reads = run.reads | words.all().map(ScratchWord::field).collect() | icmp;
        let access = Access::run_only(ReadWrite::new(reads, run.writes.with(Field::Verdict)));
        Some(Self { words, changes, has_echoes, refusals, access })
    }
}

impl Function for SecondPlace {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| {
            if let Some(reason) = translate::apply_second(packet, &self.words, self.refusals) {
                packet.drop(reason);
            }
        });
    }

    fn kernels(&self) -> Option<Kernels> {
        let SecondWords { words, source } = self.words;
        let kernels = kernels::second_kernels(&words, source, self.has_echoes);
        Some(kernels.declaring(self.kernel_access()))
    }

    fn kernel_access(&self) -> ReadWrite {
        let ReadWrite { reads, writes } = kernels::access(self.access.run);
        ReadWrite::new(reads, writes & !FieldSet::of(&[Field::Verdict]))
    }

    fn change_words(&self) -> &[ScratchWord] {
        &self.changes
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        match (old as &dyn Any).downcast_ref::<Self>() {
            Some(old) if old.words == self.words => Ok(()),
            Some(_) => Err("IPv6 can't come in or go while packets flow".into()),
            None => Err("it is another function".into()),
        }
    }
}

/// The rewrite of an answer at the second place. Its cause was sent to `to`.
pub(crate) fn undoing(packet: &PacketMut<'_>, to: Endpoint) -> Option<Rewrite> {
    let version = packet.version();
    let action = match packet.protocol() {
        ip_protocol::TCP | ip_protocol::UDP => Action::Source,
        _ if icmp::is_error(version, packet.protocol(), packet.icmp_type()) => {
            icmp::Quote::read(packet.payload(), version)?;
            Action::ErrorOut
        }
        _ => Action::SourceAddress,
    };
    Some(Rewrite { action, to })
}
