//! Generates the accessors by which kernels reach fields, from the table of fields and the binding
//! of each field.
//!
//! A field is *bound* either to the frame in the mirror or to a column of the launch's table, with
//! a row per packet. A row holds the field's bytes as the header has them, from its first byte on.
//! If the IP versions differ in a field's width, each has a column, so no packet's row is wider
//! than its field. These columns follow the table's scratch words. Kernels name fields and don't
//! know which binding applies. For a number they have
//!
//! ```c
//! u32 ttl_v4(Fields f);                         // the packet's own
//! void set_ttl_v4(Fields f, u32 value);
//! u32 ttl_v4_at(const GLOBAL u8 *header);       // of a header that the kernel found or makes
//! void set_ttl_v4_at(GLOBAL u8 *header, u32 value);
//! u32 ttl_v4_in(const u32 *words, u32 header);  // of the header at that byte of `words`
//! ```
//!
//! and for wider fields the address of the first byte. They read it with `dst_addr_v6(f)`,
//! `dst_addr_v6_at(header)` and `payload(f)`, and write it with `dst_addr_v6_to_write(f)` and so
//! on. If several headers have the field, the accessor's name ends with the header's. A kernel must
//! not ask for a field that the frame lacks. A function gets accessors of the fields it declares
//! for its kernels, and no others ([`Declared`]).
//!
//! A field in a column has no `_at`, so a text with it does not compile. Such a text makes headers
//! of its own in frames, and the column would keep the old value. Functions like that have their
//! fields in the mirror. `Fields` and the basis of the text are in `kernels/packet.h` of
//! `warpline-nf`.

use core::fmt::Write as _;
use core::ops::Range;

mod declared;

use crate::arena::ROW_LEN;
use crate::{Field, FieldPlace, FieldSet, Span};

pub use declared::Declared;

/// Where fields of frames lie for a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    columns: Vec<StagedColumn>,
    /// Fields that kernels for copying move from columns to frames, and from frames to columns.
    put: FieldSet,
    take: FieldSet,
}

/// A field in a column of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedColumn {
    /// The field.
    pub field: Field,
    /// The IP version of the packets whose field it holds; 0 where it holds that of all.
    pub version: u8,
    /// Bytes of a row before it.
    pub before: usize,
    /// Bytes of a packet's row.
    pub width: usize,
}

impl StagedColumn {
    /// Whether it holds the field of packets of this IP version.
    pub fn is_of(&self, version: u8) -> bool {
        self.version == 0 || self.version == version
    }

    fn name(&self) -> String {
        match self.version {
            0 => lower(self.field),
            version => format!("{}_v{version}", lower(self.field)),
        }
    }
}

impl Binding {
    /// All fields lie in the frame.
    pub const MIRROR: Self =
        Self { columns: Vec::new(), put: FieldSet::EMPTY, take: FieldSet::EMPTY };

    /// With these fields in columns after those of a table with this many scratch words. `None` if
    /// one has no position of its own in a header.
    pub fn staged(fields: FieldSet, scratch_words: usize) -> Option<Self> {
        let mut before = ROW_LEN + 4 * scratch_words;
        let mut columns = Vec::new();
        for field in fields.iter() {
            let mut add = |version, width| {
                columns.push(StagedColumn { field, version, before, width });
                before += width;
            };
            match field.place() {
                FieldPlace::Ip { v4: Some(v4), v6: Some(v6) } if v4.len != v6.len => {
                    add(4, v4.len);
                    add(6, v6.len);
                }
                _ => add(0, places(field).iter().map(|(_, span)| span.len).max()?),
            }
        }
        Some(Self { columns, ..Self::MIRROR })
    }

    /// The same for kernels that copy: `put_fields_of(p, f)` copies the fields `put` of packet `p`
    /// from their columns to its frame, `take_fields_of(p, f)` the fields `take` from its frame to
    /// their columns.
    #[must_use]
    pub fn with_copies(self, put: FieldSet, take: FieldSet) -> Self {
        Self { put, take, ..self }
    }

    /// The fields that can have columns: those with places of their own in headers.
    pub fn stageable() -> FieldSet {
        Field::ALL.iter().copied().filter(|&field| !places(field).is_empty()).collect()
    }

    /// The columns.
    pub fn columns(&self) -> &[StagedColumn] {
        &self.columns
    }

    /// Bytes that the columns have for each row of the table.
    pub fn row_len(&self) -> usize {
        self.columns.iter().map(|column| column.width).sum()
    }

    /// Visits the bytes of a launch's table that the columns of `fields` have, in as few ranges as
    /// possible. Columns have `rows` rows. Columns of an IP version count only if `has` returns
    /// true for it.
    pub fn stretches(
        &self,
        fields: FieldSet,
        rows: usize,
        has: impl Fn(u8) -> bool,
        mut visit: impl FnMut(Range<usize>),
    ) {
        let mut open: Option<(Range<usize>, usize)> = None;
        let is_there = |one: &&StagedColumn| fields.contains(one.field) && has(one.version);
        for StagedColumn { before, width, .. } in self.columns.iter().filter(is_there) {
            let own = before * rows..(before + width) * rows;
            open = Some(match open {
                Some((all, behind)) if behind == *before => (all.start..own.end, before + width),
                done => {
                    done.into_iter().for_each(|(all, _)| visit(all));
                    (own, before + width)
                }
            });
        }
        open.into_iter().for_each(|(all, _)| visit(all));
    }

    /// The column in which a field lies that a header of this kind has.
    fn column(&self, field: Field, header: Header) -> Option<&StagedColumn> {
        let mut own = self.columns.iter().filter(|column| column.field == field);
        own.find(|column| column.is_of(header.version()))
    }
}

/// The accessors of the fields that a function declares.
pub fn kernel_fields(binding: &Binding, declared: &Declared<'_>) -> String {
    let mut text = String::from(CONST_IS_KEPT);
    for column in &binding.columns {
        write_column(&mut text, column);
    }
    for &field in Field::ALL {
        let all = places(field);
        for &(header, span) in &all {
            let accessor = Accessor { field, header, span, is_only: all.len() == 1 };
            accessor.write(&mut text, binding.column(field, header));
        }
    }
    text.push_str(
        "FUNCTION const GLOBAL u8 *payload(Fields f) { return f.payload_at; }\n\
         FUNCTION GLOBAL u8 *payload_to_write(Fields f) { return f.payload_at; }\n",
    );
    if !(binding.put | binding.take).is_empty() {
        write_copies(&mut text, "put", binding.put, binding);
        write_copies(&mut text, "take", binding.take, binding);
    }
    declared.refuse(&mut text, binding.columns.iter().map(|one| (one.field, one.name())));
    text
}

/// Bytes from a reading accessor stay constant. C compilers only warn if a text passes them on to
/// be written.
const CONST_IS_KEPT: &str = "\
#if defined(__clang__)
#pragma clang diagnostic error \"-Wincompatible-pointer-types-discards-qualifiers\"
#elif defined(__GNUC__)
#pragma GCC diagnostic error \"-Wdiscarded-qualifiers\"
#endif
";

/// Where a column begins, and how a packet's row is found.
fn write_column(text: &mut String, column: &StagedColumn) {
    let (StagedColumn { before, width, .. }, name) = (column, column.name());
    let upper = name.to_uppercase();
    let _ = writeln!(
        text,
        "#define COLUMN_{upper} {before}\n\
         FUNCTION GLOBAL u8 *row_of_{name}(Fields f) \
         {{ return f.packet.table + COLUMN_{upper} * f.packet.rows + {width} * f.packet.row; }}"
    );
}

/// A field in one kind of header.
struct Accessor {
    field: Field,
    header: Header,
    span: Span,
    is_only: bool,
}

impl Accessor {
    fn write(&self, text: &mut String, column: Option<&StagedColumn>) {
        let is_number = matches!(self.span.len, 1 | 2 | 4);
        match (is_number, column) {
            (true, Some(column)) => self.write_staged_number(text, column),
            (true, None) => self.write_number(text),
            (false, Some(column)) => self.write_staged_bytes(text, column),
            (false, None) => self.write_bytes(text),
        }
        if is_number {
            self.write_in(text);
        }
        if column.is_some() {
            self.refuse_at(text);
        }
    }

    fn name(&self) -> String {
        match self.is_only {
            true => lower(self.field),
            false => format!("{}_{}", lower(self.field), self.header.name()),
        }
    }

    fn write_number(&self, text: &mut String) {
        let (name, at, of) = (self.name(), self.span.start, self.header.pointer());
        let (get, set) = match self.span.len {
            1 => (format!("header[{at}]"), format!("header[{at}] = (u8)value")),
            2 => (format!("get_be16(header + {at})"), format!("put_be16(header + {at}, value)")),
            _ => (format!("get_be32(header + {at})"), format!("put_be32(header + {at}, value)")),
        };
        let _ = writeln!(
            text,
            "FUNCTION u32 {name}_at(const GLOBAL u8 *header) {{ return {get}; }}\n\
             FUNCTION void set_{name}_at(GLOBAL u8 *header, u32 value) {{ {set}; }}\n\
             FUNCTION u32 {name}(Fields f) {{ return {name}_at(f.{of}); }}\n\
             FUNCTION void set_{name}(Fields f, u32 value) {{ set_{name}_at(f.{of}, value); }}"
        );
    }

    /// Numbers lie on multiples of their width, so that each is one word.
    fn write_staged_number(&self, text: &mut String, column: &StagedColumn) {
        let (name, row) = (self.name(), format!("row_of_{}(f)", column.name()));
        let (get, set) = match self.span.len {
            1 => (format!("{row}[0]"), format!("{row}[0] = (u8)value")),
            2 => (
                format!("swap_bytes(*(GLOBAL u16 *){row}) >> 16"),
                format!("*(GLOBAL u16 *){row} = (u16)(swap_bytes(value) >> 16)"),
            ),
            _ => (
                format!("swap_bytes(*(GLOBAL u32 *){row})"),
                format!("*(GLOBAL u32 *){row} = swap_bytes(value)"),
            ),
        };
        let _ = writeln!(
            text,
            "FUNCTION u32 {name}(Fields f) {{ return {get}; }}\n\
             FUNCTION void set_{name}(Fields f, u32 value) {{ {set}; }}"
        );
    }

    fn write_bytes(&self, text: &mut String) {
        let (name, at, of) = (self.name(), self.span.start, self.header.pointer());
        let _ = writeln!(
            text,
            "FUNCTION const GLOBAL u8 *{name}_at(const GLOBAL u8 *header) {{ return header + {at}; \
             }}\n\
             FUNCTION GLOBAL u8 *{name}_to_write_at(GLOBAL u8 *header) {{ return header + {at}; \
             }}\n\
             FUNCTION const GLOBAL u8 *{name}(Fields f) {{ return {name}_at(f.{of}); }}\n\
             FUNCTION GLOBAL u8 *{name}_to_write(Fields f) {{ return {name}_to_write_at(f.{of}); }}"
        );
    }

    fn write_staged_bytes(&self, text: &mut String, column: &StagedColumn) {
        let (name, row) = (self.name(), column.name());
        let _ = writeln!(
            text,
            "FUNCTION const GLOBAL u8 *{name}(Fields f) {{ return row_of_{row}(f); }}\n\
             FUNCTION GLOBAL u8 *{name}_to_write(Fields f) {{ return row_of_{row}(f); }}"
        );
    }

    /// Makes compilers refuse a text that reads it in a header of its own, with the reason.
    fn refuse_at(&self, text: &mut String) {
        let (name, field) = (self.name(), lower(self.field));
        let _ = writeln!(
            text,
            "#define {name}_at(header) {field}_lies_in_a_column\n\
             #define set_{name}_at(header, value) {field}_lies_in_a_column\n\
             #define {name}_to_write_at(header) {field}_lies_in_a_column"
        );
    }

    fn write_in(&self, text: &mut String) {
        let (name, at) = (self.name(), self.span.start);
        let get = match self.span.len {
            1 => "byte_in",
            2 => "be16_in",
            _ => "be32_in",
        };
        let _ = writeln!(
            text,
            "FUNCTION u32 {name}_in(const u32 *words, u32 header) \
             {{ return {get}(words, header + {at}); }}"
        );
    }
}

/// The function that copies `fields` between their columns and a packet's frame: `put_fields_of` or
/// `take_fields_of`.
fn write_copies(text: &mut String, way: &str, fields: FieldSet, binding: &Binding) {
    let _ = writeln!(text, "FUNCTION void {way}_fields_of(Packet p, Fields f)\n{{");
    for &field in Field::ALL.iter().filter(|&&field| fields.contains(field)) {
        for (header, Span { start, len }) in places(field) {
            let Some(column) = binding.column(field, header) else { continue };
            let condition = match field {
                Field::VlanTci => "is_tagged(p)",
                _ => header.condition(),
            };
            let (at, name) = (format!("f.{} + {start}", header.pointer()), column.name());
            let _ = writeln!(
                text,
                "    if ({condition} && is_in_frame(f, {at}, {len})) {way}_bytes({at}, \
                 row_of_{name}(f), {len});"
            );
        }
    }
    text.push_str("}\n");
}

/// A kind of header.
#[derive(Clone, Copy)]
enum Header {
    Link,
    V4,
    V6,
    Tcp,
    Udp,
    Icmp,
    Esp,
}

impl Header {
    fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::V4 => "v4",
            Self::V6 => "v6",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Esp => "esp",
        }
    }

    /// The IP version that it is of; 0 where that may be any.
    fn version(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
            _ => 0,
        }
    }

    /// The condition in a kernel for packet `p` to have one.
    fn condition(self) -> &'static str {
        match self {
            Self::Link => "is_ethernet(p)",
            Self::V4 => "ip_version(p) == 4",
            Self::V6 => "ip_version(p) == 6",
            Self::Tcp => "transport_of(p) == 6",
            Self::Udp => "transport_of(p) == 17",
            Self::Icmp => "(transport_of(p) == 1 || transport_of(p) == 58)",
            Self::Esp => "transport_of(p) == 50",
        }
    }

    /// The member of `Fields` that points to it.
    fn pointer(self) -> &'static str {
        match self {
            Self::Link => "link_at",
            Self::V4 | Self::V6 => "ip_at",
            Self::Tcp | Self::Udp | Self::Icmp | Self::Esp => "transport_at",
        }
    }
}

/// In which headers a field lies, and where in each.
fn places(field: Field) -> Vec<(Header, Span)> {
    let all = match field.place() {
        FieldPlace::Link(own) => vec![(Header::Link, Some(own))],
        FieldPlace::Ip { v4, v6 } => vec![(Header::V4, v4), (Header::V6, v6)],
        FieldPlace::Transport { tcp, udp, icmp, esp } => {
            vec![(Header::Tcp, tcp), (Header::Udp, udp), (Header::Icmp, icmp), (Header::Esp, esp)]
        }
        FieldPlace::Stretch | FieldPlace::Column(_) => Vec::new(),
    };
    all.into_iter().filter_map(|(header, span)| Some((header, span?))).collect()
}

/// `dst-addr` as `dst_addr`.
fn lower(field: Field) -> String {
    field.name().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadWrite;

    /// Scratch words before the columns.
    const WORDS: usize = 2;
    const ALL: Declared<'_> =
        Declared { function: "all", access: ReadWrite::new(FieldSet::ALL, FieldSet::ALL) };

    /// The names of functions that `text` defines.
    fn functions(text: &str) -> Vec<&str> {
        let heads = text.lines().filter_map(|line| line.strip_prefix("FUNCTION "));
        let names = heads.filter_map(|head| head.split('(').next()?.rsplit([' ', '*']).next());
        names.collect()
    }

    fn line<'a>(text: &'a str, with: &str) -> &'a str {
        let found = text.lines().find(|line| line.contains(with));
        found.unwrap_or_else(|| panic!("no {with:?} in\n{text}"))
    }

    #[test]
    fn every_field_of_a_header_has_accessors_of_its_own() {
        let text = kernel_fields(&Binding::MIRROR, &ALL);
        let names = functions(&text);
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        for name in ["ttl_v4", "set_ttl_v6", "ip_ident", "udp_len_at", "l4_checksum_icmp"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        for field in Field::ALL.iter().filter(|field| !places(**field).is_empty()) {
            assert!(names.iter().any(|name| name.starts_with(&lower(*field))), "{field:?}");
        }
        assert!(line(&text, " ttl_v4_at").contains("header[8]"));
        assert!(line(&text, " ttl_v6_at").contains("header[7]"));
        assert!(line(&text, " esp_seq(").contains("esp_seq_at(f.transport_at)"));
    }

    #[test]
    fn columns_follow_the_scratch_words_and_each_other() {
        let fields = FieldSet::of(&[Field::Ttl, Field::DstAddr, Field::IpIdent]);
        let binding = Binding::staged(fields, WORDS).expect("fields with places");
        let widths: Vec<_> =
            binding.columns().iter().map(|one| (one.field, one.version, one.width)).collect();
        let expected = [
            (Field::IpIdent, 0, 2),
            (Field::Ttl, 0, 1),
            (Field::DstAddr, 4, 4),
            (Field::DstAddr, 6, 16),
        ];
        assert_eq!(widths, expected);
        assert_eq!(binding.row_len(), 23);
        let text = kernel_fields(&binding, &ALL);
        let behind = ROW_LEN + 4 * WORDS;
        assert!(text.contains(&format!("#define COLUMN_IP_IDENT {behind}\n")), "{text}");
        assert!(text.contains(&format!("#define COLUMN_TTL {}\n", behind + 2)));
        assert!(text.contains(&format!("#define COLUMN_DST_ADDR_V6 {}\n", behind + 7)));
    }

    #[test]
    fn columns_that_follow_each_other_are_one_stretch() {
        let fields = FieldSet::of(&[Field::IpIdent, Field::Ttl, Field::DstAddr]);
        let binding = Binding::staged(fields, 0).expect("fields with places");
        let stretches = |fields, versions: [u8; 2]| {
            let mut all = Vec::new();
            let has = |version| version == 0 || versions.contains(&version);
            binding.stretches(fields, 8, has, |own| {
                all.push((own.start / 8 - ROW_LEN, own.len() / 8))
            });
            all
        };
        assert_eq!(stretches(fields, [4, 6]), [(0, 23)]);
        assert_eq!(stretches(fields, [4, 4]), [(0, 7)]);
        assert_eq!(stretches(fields, [6, 6]), [(0, 3), (7, 16)]);
        let some = FieldSet::of(&[Field::IpIdent, Field::DstAddr]);
        assert_eq!(stretches(some, [4, 6]), [(0, 2), (3, 20)]);
        assert_eq!(stretches(FieldSet::EMPTY, [4, 6]), []);
    }

    #[test]
    fn a_field_in_a_column_is_not_looked_for_in_frames() {
        let binding = Binding::staged(FieldSet::of(&[Field::Ttl]), WORDS).unwrap();
        let text = kernel_fields(&binding, &ALL);
        let names = functions(&text);
        assert!(!names.contains(&"ttl_v4_at") && names.contains(&"ip_checksum_at"), "{names:?}");
        assert!(line(&text, " ttl_v4(").contains("row_of_ttl(f)[0]"));
    }

    /// The name for which the text has `head` stand, if it takes it away.
    fn refused<'a>(text: &'a str, head: &str) -> Option<&'a str> {
        text.lines()
            .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(head)?.strip_prefix(' '))
    }

    #[test]
    fn undeclared_fields_have_no_accessors() {
        let heads = |field: Field| {
            let mut own: Vec<_> = places(field)
                .into_iter()
                .map(|(header, span)| {
                    let name = match places(field).len() {
                        1 => lower(field),
                        _ => format!("{}_{}", lower(field), header.name()),
                    };
                    match span.len {
                        1 | 2 | 4 => (format!("{name}(f)"), format!("set_{name}(f, value)")),
                        _ => (format!("{name}(f)"), format!("{name}_to_write(f)")),
                    }
                })
                .collect();
            if field == Field::Payload {
                own.push(("payload(f)".to_owned(), "payload_to_write(f)".to_owned()));
            }
            own
        };
        for binding in [Binding::MIRROR, Binding::staged(Binding::stageable(), WORDS).unwrap()] {
            for &field in Field::ALL.iter().filter(|&&field| !heads(field).is_empty()) {
                let others = FieldSet::ALL & !FieldSet::of(&[field]);
                let name = lower(field);
                for (reads, writes) in [(others, FieldSet::ALL), (FieldSet::ALL, others)] {
                    let access = ReadWrite::new(reads, writes);
                    let text = kernel_fields(&binding, &Declared { function: "own", access });
                    for (read, write) in heads(field) {
                        let why = |does| format!("own_does_not_declare_that_it_{does}_{name}");
                        let is_read = refused(&text, &read) == Some(&why("reads"));
                        let is_written = refused(&text, &write) == Some(&why("writes"));
                        assert_eq!(is_read, reads == others, "{read}");
                        assert_eq!(is_written, writes == others, "{write}");
                    }
                }
            }
        }
        let none = Declared { function: "own", access: ReadWrite::NONE };
        let text = kernel_fields(&Binding::MIRROR, &none);
        for head in
            ["frame_of(p)", "ip_at", "flow_hash(p)", "drop(p, reason, place)", "flag(p, place)"]
        {
            assert!(refused(&text, head).is_some(), "{head}");
        }
        assert!(refused(&text, "WORD_READ_31").unwrap().ends_with("reads_scratch_31"));
        assert_eq!(refused(&kernel_fields(&Binding::MIRROR, &ALL), "WORD_WRITTEN_7"), Some("7"));
    }

    #[test]
    fn fields_outside_headers_have_no_column() {
        for field in [Field::Verdict, Field::TcpOptions, Field::Payload] {
            assert_eq!(Binding::staged(FieldSet::of(&[field]), WORDS), None);
        }
        let all = Binding::stageable();
        assert!(Binding::staged(all, WORDS).is_some());
        let others =
            FieldSet::of(&[Field::IpOptions, Field::TcpOptions, Field::Payload, Field::Remainder]);
        assert_eq!(all, FieldSet::FRAME & !others);
    }
}
