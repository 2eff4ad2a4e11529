//! Removes the accessors of fields that a function does not declare for its kernels. A text that
//! names one does not compile, and the compiler's message names function and field. The same holds
//! for the accessors of metadata in `kernels/packet.h` of `warpline-nf`.
//!
//! Geometry keeps its accessors, since a row of the launch's table always has it. A function that
//! declares the whole frame reaches its bytes by `frame_of(p)` and by the pointers in `Fields`. For
//! others these names do not compile either.

use core::fmt::Write as _;

use super::{lower, places};
use crate::{Field, FieldSet, ReadWrite};

/// A function, and what it declares for its kernels.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    /// The name by which compilers call it in their messages: a name of C.
    pub function: &'a str,
    /// The fields that its kernels touch.
    pub access: ReadWrite,
}

/// Names of `kernels/packet.h` that write metadata.
const WRITERS: [(&str, Field); 5] = [
    ("set_next_hop(p, hop)", Field::NextHop),
    ("settle(p, verdict, reason, place)", Field::Verdict),
    ("drop(p, reason, place)", Field::Verdict),
    ("reject_malformed(p, place)", Field::Verdict),
    ("flag(p, place)", Field::Flagged),
];

/// Names that read metadata which not every launch has.
const READERS: [(&str, Field); 3] = [
    ("flow_hash(p)", Field::FlowHash),
    ("interface_of(p)", Field::Ingress),
    ("next_hop(p)", Field::NextHop),
];

/// Names by which bytes of frames are reached without an accessor.
const RAW: [&str; 6] =
    ["frame_of(p)", "link_at", "ip_at", "transport_at", "payload_at", "COLUMN_ROOM_AT"];

impl Declared<'_> {
    /// Removes accessors, after the output of `kernel_fields`.
    pub(super) fn refuse(&self, text: &mut String, columns: impl Iterator<Item = (Field, String)>) {
        let ReadWrite { reads, writes } = self.access;
        for &field in Field::ALL {
            for (header, span) in places(field) {
                let name = match places(field).len() {
                    1 => lower(field),
                    _ => format!("{}_{}", lower(field), header.name()),
                };
                let is_number = matches!(span.len, 1 | 2 | 4);
                if !reads.contains(field) {
                    self.refuse_reads(text, field, &name, is_number);
                }
                if !writes.contains(field) {
                    self.refuse_writes(text, field, &name, is_number);
                }
            }
        }
        for (field, column) in columns.filter(|(field, _)| !(reads | writes).contains(*field)) {
            self.take(text, &format!("row_of_{column}(f)"), "reads", &lower(field));
        }
        if !reads.contains(Field::Payload) {
            self.take(text, "payload(f)", "reads", "payload");
        }
        if !writes.contains(Field::Payload) {
            self.take(text, "payload_to_write(f)", "writes", "payload");
        }
        for (name, field) in READERS.iter().filter(|(_, field)| !reads.contains(*field)) {
            self.take(text, name, "reads", &lower(*field));
        }
        for (name, field) in WRITERS.iter().filter(|(_, field)| !writes.contains(*field)) {
            self.take(text, name, "writes", &lower(*field));
        }
        if !self.reaches_bytes() {
            RAW.iter().for_each(|name| self.take(text, name, "reads", "the_whole_frame"));
        }
        self.name_words(text);
    }

    /// Whether it writes the whole frame, or writes none of it and reads the whole.
    fn reaches_bytes(&self) -> bool {
        let ReadWrite { reads, writes } = self.access;
        let is_reader = (writes & FieldSet::FRAME).is_empty() && reads.covers(FieldSet::FRAME);
        is_reader || writes.covers(FieldSet::FRAME)
    }

    fn refuse_reads(&self, text: &mut String, field: Field, name: &str, is_number: bool) {
        let mut take = |name: String| self.take(text, &name, "reads", &lower(field));
        take(format!("{name}(f)"));
        take(format!("{name}_at(header)"));
        if is_number {
            take(format!("{name}_in(words, header)"));
        }
    }

    fn refuse_writes(&self, text: &mut String, field: Field, name: &str, is_number: bool) {
        let all = match is_number {
            true => [format!("set_{name}(f, value)"), format!("set_{name}_at(header, value)")],
            false => [format!("{name}_to_write(f)"), format!("{name}_to_write_at(header)")],
        };
        all.iter().for_each(|name| self.take(text, name, "writes", &lower(field)));
    }

    /// Makes `head` stand for a name that nothing has.
    fn take(&self, text: &mut String, head: &str, does: &str, field: &str) {
        let name = head.split('(').next().unwrap_or(head);
        let why = self.why(does, field);
        let _ = writeln!(text, "#undef {name}\n#define {head} {why}");
    }

    fn why(&self, does: &str, field: &str) -> String {
        format!("{}_does_not_declare_that_it_{does}_{field}", self.function)
    }

    /// Scratch words are asked for by their numbers: a number of none that is declared gives a name
    /// that nothing has.
    fn name_words(&self, text: &mut String) {
        let ReadWrite { reads, writes } = self.access;
        for number in 0.. {
            let Some(field) = Field::scratch(number) else { break };
            for (set, kind, does) in [(reads, "READ", "reads"), (writes, "WRITTEN", "writes")] {
                let value = match set.contains(field) {
                    true => number.to_string(),
                    false => self.why(does, &lower(field)),
                };
                let _ = writeln!(text, "#define WORD_{kind}_{number} {value}");
            }
        }
        text.push_str(
            "#define WORD_READ(word) WORD_READ_##word\n\
             #define WORD_WRITTEN(word) WORD_WRITTEN_##word\n\
             #define scratch(p, word) scratch_word(p, WORD_READ(word))\n\
             #define set_scratch(p, word, value) set_scratch_word(p, WORD_WRITTEN(word), value)\n",
        );
    }
}
