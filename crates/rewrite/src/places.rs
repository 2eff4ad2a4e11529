//! Translation at one place of a chain or at two: destinations at the first, sources at the second.
//!
//! The first place looks every packet up and writes scratch words for both. The second has no state.
//! It rewrites sources, and undoes the work of the first place in answers to packets.

use std::any::Any;

use warpline_nf::{Function, Kernels, Resources, Section};
use warpline_packet::wire::ip_protocol;
use warpline_packet::{Access, Batch, FieldSet, PacketMut, ReadWrite, Reason, ScratchWord};

use crate::translate::{self, Action, Rewrite, Words};
use crate::{Endpoint, icmp, kernels};

/// The scratch words of a translator, by the place that applies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceWords {
    first: Words,
    second: Option<Words>,
    changes: Vec<ScratchWord>,
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
        let second = Words::from(resources, has_v6, section)?;
        Some(Self { first, second: Some(second), changes: second.all().collect() })
    }

    /// The words that the first or only place applies.
    pub fn first(&self) -> &Words {
        &self.first
    }

    /// The words that the last place applies.
    pub fn last(&self) -> &Words {
        self.second.as_ref().unwrap_or(&self.first)
    }

    /// The fields of all words.
    pub fn fields(&self) -> FieldSet {
        self.second.map_or(FieldSet::EMPTY, |words| words.fields()) | self.first.fields()
    }

    /// See [`Function::change_words`].
    pub fn change_words(&self) -> &[ScratchWord] {
        &self.changes
    }

    /// Whether there are two places.
    pub fn has_two(&self) -> bool {
        self.second.is_some()
    }

    /// Has `packet`, from inside to inside by an outside address, get a new destination and a new
    /// source, with two places.
    pub fn set_hairpin(&self, packet: &mut PacketMut<'_>, destination: &Rewrite, source: Endpoint) {
        if let Some(second) = &self.second {
            self.first.set(packet, destination);
            second.put(packet, translate::HAIRPIN, source);
        }
    }

    /// Writes `rewrite` into the words of `packet`. With two places an inbound packet keeps its
    /// destination in the words of the second, for answers to it.
    #[inline]
    pub fn set(&self, packet: &mut PacketMut<'_>, rewrite: &Rewrite) {
        match &self.second {
            None => self.first.set(packet, rewrite),
            Some(second) if rewrite.action.is_source() => second.set(packet, rewrite),
            Some(second) => {
                let destination = destination(packet);
                self.first.set(packet, rewrite);
                second.put(packet, translate::UNDO, destination);
            }
        }
    }
}

/// Where a packet goes. An echo's identifier stands for the port.
fn destination(packet: &PacketMut<'_>) -> Endpoint {
    let port = match packet.protocol() {
        ip_protocol::TCP | ip_protocol::UDP => packet.dst_port(),
        _ if icmp::is_echo(packet.version(), packet.icmp_type()) => packet.icmp_ident(),
        _ => 0,
    };
    Endpoint { address: packet.addresses().1, port }
}

/// The second place of a translator.
pub struct SecondPlace {
    words: PlaceWords,
    has_echoes: bool,
    /// Why an answer is dropped whose quote can't be read.
    bad_quote: Reason,
    access: Access,
}

impl SecondPlace {
    /// The place that applies the last of `words`. `run` has the fields that rewriting touches;
    /// `has_echoes`, whether identifiers of echoes are rewritten.
    pub fn new(words: PlaceWords, run: ReadWrite, has_echoes: bool, bad_quote: Reason) -> Self {
        let fields = FieldSet::of(&[warpline_packet::Field::Verdict]);
        let icmp = FieldSet::of(&[warpline_packet::Field::IcmpType]);
        let reads = run.reads | words.last().fields() | icmp;
        let access = Access::run_only(ReadWrite::new(reads, run.writes | fields));
        Self { words, has_echoes, bad_quote, access }
    }
}

impl Function for SecondPlace {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        let words = self.words.last();
        batch.for_each_forward(|packet| {
            if !translate::apply_second(packet, words) {
                packet.drop(self.bad_quote);
            }
        });
    }

    fn kernels(&self) -> Option<Kernels> {
        let kernels = kernels::second_kernels(self.words.last(), self.has_echoes);
        Some(kernels.declaring(self.kernel_access()))
    }

    fn kernel_access(&self) -> ReadWrite {
        let ReadWrite { reads, writes } = kernels::access(self.access.run);
        ReadWrite::new(reads, writes & !FieldSet::of(&[warpline_packet::Field::Verdict]))
    }

    fn change_words(&self) -> &[ScratchWord] {
        self.words.change_words()
    }

    fn succeeds(&self, old: &dyn Function) -> Result<(), String> {
        match (old as &dyn Any).downcast_ref::<Self>() {
            Some(old) if old.words == self.words => Ok(()),
            Some(_) => Err("IPv6 can't come in or go while packets flow".into()),
            None => Err("it is another function".into()),
        }
    }
}

/// What an action does at the second place in an answer to a packet that was sent to `to`.
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
