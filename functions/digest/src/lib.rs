//! The network function `digest`, for IPv4 and IPv6.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

use std::ops::Range;

use warpline_packet::{Access, Batch, Field, FieldSet, Flags, ReadWrite, Shard, StateKey};

use warpline_nf::{
    Definition, Emits, Function, Kernels, Key, Outputs, Report, Resources, Section, State,
    TableSize,
};

mod counters;
mod duplicates;
mod kernels;
pub mod md5;
pub mod multi_buffer;
pub mod seen;

use duplicates::{Decider, Duplicates, Noter, OnDuplicate, Words};
use multi_buffer::{MESSAGES_MAX, digest_all};

/// The function's name, keys, counters and access.
pub const DEFINITION: Definition = Definition {
    name: "digest",
    summary: "MD5 of payloads; counts, tags or drops duplicates",
    manual: include_str!("manual.md"),
    has_kernels: true,
    keys: KEYS,
    drops: &["duplicate"],
    counters: counters::COUNTERS,
    access: Access { run: ReadWrite::new(READS, WRITES), ..ACCESS },
    build,
    build_pair: None,
};

const KEYS: &[Key] = &[
    Key {
        name: "on_duplicate",
        allowed: "count | tag | drop",
        default: "count",
        help: "the action for a packet whose payload was seen before",
    },
    Key {
        name: "tag_dscp",
        allowed: "0 to 63",
        default: "1",
        help: "the DSCP of duplicates; requires on_duplicate = \"tag\"",
    },
    Key {
        name: "min_len",
        allowed: "1 to 65535",
        default: "64",
        help: "shorter payloads, in bytes, are not digested",
    },
    Key {
        name: "entries",
        allowed: "8 to 4194304",
        default: "65536",
        help: "the number of payloads remembered, 32 bytes each",
    },
    Key {
        name: "top",
        allowed: "0 to 10",
        default: "10",
        help: "rows of the table in the summary",
    },
];

const READS: FieldSet = FieldSet::HEADERS.with(Field::Len).with(Field::Payload);
const WRITES: FieldSet = FieldSet::of(&[Field::Flagged, Field::Verdict]);
const ACCESS: Access = Access {
    after: ReadWrite::new(
        FieldSet::HEADERS.with(Field::Flagged).with(Field::Ingress),
        FieldSet::EMPTY,
    ),
    flagged_share: 1.0,
    ..Access::run_only(ReadWrite::NONE)
};
/// The fields that tagging a duplicate changes.
const TAGGED: FieldSet = FieldSet::of(&[Field::TrafficClass, Field::IpChecksum]);

struct Digest {
    on_duplicate: OnDuplicate,
    min_len: usize,
    entries: usize,
    /// Rows of the report's table.
    top: usize,
    words: Words,
    access: Access,
}

fn build(section: &mut Section<'_>, resources: &mut Resources) -> Option<Box<dyn Function>> {
    let dscp = section.integer("tag_dscp", 0..=63, 1) as u8;
    let choices = [
        ("count", OnDuplicate::Count),
        ("tag", OnDuplicate::Tag(dscp)),
        ("drop", OnDuplicate::Drop),
    ];
    let on_duplicate = section.choice("on_duplicate", &choices, OnDuplicate::Count);
    if section.has("tag_dscp") && !matches!(on_duplicate, OnDuplicate::Tag(_)) {
        section.mistake("tag_dscp", "`tag_dscp` needs on_duplicate = \"tag\"");
    }
    let min_len = section.integer("min_len", 1..=65_535, 64) as usize;
    let entries = section.integer("entries", 8..=4_194_304, 65_536) as usize;
    let top = section.integer("top", 0..=seen::TOP as u64, seen::TOP as u64) as usize;
    let Some(words) = resources.scratch() else {
        section.mistake("on_duplicate", "the chain has no four scratch words left for a digest");
        return None;
    };
    let access = access(on_duplicate, words);
    Some(Box::new(Digest { on_duplicate, min_len, entries, top, words, access }))
}

fn access(on_duplicate: OnDuplicate, words: Words) -> Access {
    let words: FieldSet = words.iter().map(|word| word.field()).collect();
    let (reads, writes) = match on_duplicate {
        OnDuplicate::Count => (words, FieldSet::EMPTY),
        OnDuplicate::Tag(_) => (words | TAGGED, TAGGED),
        OnDuplicate::Drop => (words, FieldSet::of(&[Field::Verdict])),
    };
    Access {
        run: ReadWrite::new(READS, WRITES | words),
        after_flagged: ReadWrite::new(reads, writes),
        ..ACCESS
    }
}

impl Function for Digest {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        for start in (0..batch.len()).step_by(MESSAGES_MAX) {
            self.run_wave(batch, start..(start + MESSAGES_MAX).min(batch.len()));
        }
    }

    fn kernels(&self) -> Option<Kernels> {
        Some(kernels::kernels(self).declaring(self.kernel_access()))
    }

    fn state_key(&self) -> StateKey {
        match self.on_duplicate {
            OnDuplicate::Count => StateKey::None,
            OnDuplicate::Tag(_) | OnDuplicate::Drop => StateKey::Whole,
        }
    }

    fn tables(&self) -> Vec<TableSize> {
        vec![TableSize::whole("payloads", self.entries)]
    }

    fn state(&self, _: Shard) -> State {
        match self.on_duplicate {
            OnDuplicate::Count => State::after(Noter::new(self.words)),
            on_duplicate => State::after(Decider::new(self.words, on_duplicate, self.entries)),
        }
    }

    fn emits(&self) -> Emits {
        match self.on_duplicate {
            OnDuplicate::Count => duplicates::EMITS,
            OnDuplicate::Tag(_) | OnDuplicate::Drop => Emits::NONE,
        }
    }

    fn report(&self, _: &Outputs) -> Result<Option<Box<dyn Report>>, String> {
        Ok(Some(Box::new(match self.on_duplicate {
            OnDuplicate::Count => Duplicates::counting(self.entries, self.top),
            OnDuplicate::Tag(_) | OnDuplicate::Drop => Duplicates::reported(self.top),
        })))
    }
}

impl Digest {
    /// Digests the payloads of `range`, at most [`MESSAGES_MAX`] packets.
    fn run_wave(&self, batch: &mut Batch, range: Range<usize>) {
        let (mut rows, mut digests) = ([0u16; MESSAGES_MAX], [[0; 4]; MESSAGES_MAX]);
        let mut payloads: [&[u8]; MESSAGES_MAX] = [&[]; MESSAGES_MAX];
        let (mut count, mut malformed) = (0, 0);
        for row in range.clone().filter(|&row| batch.is_forward(row)) {
            let packet = batch.packet(row);
            malformed += usize::from(packet.malformed().is_some());
            let is_whole = packet.malformed().is_none() && !packet.has(Flags::SNAPPED);
            if packet.version() != 0 && is_whole {
                let payload = packet.into_payload();
                rows[count] = row as u16;
                payloads[count] = payload;
                count += usize::from(payload.len() >= self.min_len);
            }
        }
        digest_all(&payloads[..count], &mut digests);
        for (&row, digest) in rows[..count].iter().zip(digests) {
            let mut packet = batch.packet_mut(usize::from(row));
            for (word, value) in self.words.into_iter().zip(digest) {
                packet.set_scratch(word, value);
            }
            packet.flag();
        }
        if malformed > 0 {
            for row in range {
                batch.packet_mut(row).reject_malformed();
            }
        }
    }
}

#[cfg(test)]
mod tests;
