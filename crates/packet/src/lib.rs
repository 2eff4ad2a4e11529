//! Bytes and their meaning: header views, the one table of fields, access, batches and arenas.
//!
//! Start at [`Batch`]. Packets travel in batches, and functions access them through [`Packet`] and
//! [`PacketMut`]. The fields they may access are a [`FieldSet`] of the table in [`Field`]. The
//! arena ([`Arena`], [`Placer`]) owns the bytes. Header layouts are in [`wire`].
//!
//! ```
//! use warpline_packet::*;
//!
//! let layout = ArenaLayout {
//!     slabs: 1, emit_slabs: 0, tables: 1, slots: 256, scratch_words: 0, headroom: 0, tailroom: 0,
//! };
//! let memory = HeapMemory::new(layout.memory_len()).expect("a few MiB");
//! let mut arena = Arena::new(Box::new(memory), &layout)?;
//! let mut batch = Batch::new(arena.tables.remove(0));
//!
//! let frame = [0u8; 60];
//! let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
//! let hasher = FlowHasher::new(Seed::new(7));
//! let steered = Steering::AddressPair.steer(&hasher, &frame, &headers);
//! let arrival = Arrival {
//!     timestamp: Instant::ZERO, captured: Instant::ZERO, ingress: 0, wire_len: 60,
//!     link: LinkType::ETHERNET, interface: 0, shard: steered.shard, flow_hash: steered.flow_hash,
//! };
//! batch.push(&frame, &headers, &arrival, &mut arena.ingress).expect("room for one");
//! assert_eq!(batch.packet(0).len(), 60);
//! # Ok::<(), ArenaError>(())
//! ```
//!
//! After the arena is made, this crate allocates nothing. It never makes a system call.

#![deny(unsafe_code)]

mod access;
mod address_blocks;
mod arena;
mod batch;
mod columns;
mod field;
pub mod fields_at;
mod findings;
mod flags;
mod fragment_key;
pub mod hash;
mod kept;
mod kernel_fields;
mod kernel_layout;
mod launch_rows;
mod link;
mod metadata;
mod mirror;
mod notes;
mod packed_rows;
mod packet;
mod packet_mut;
mod parse;
mod plain;
mod prefix;
mod small_pages;
mod staged;
mod state_key;
mod steering;
mod time;
pub mod upper;
mod verdict;
mod ways;
pub mod wire;

pub use access::{Access, Allowed, Phase, ReadWrite};
pub use address_blocks::AddressBlocks;
pub use arena::{
    ALIGN, Arena, ArenaError, ArenaLayout, Full, HeapMemory, Memory, Placer, ROOM_LEN_MAX,
    SLAB_LEN, Table, frame_start, prefetch, prefetch_all,
};
pub use batch::{Arrival, BATCH_DEFAULT, BATCH_MAX, Batch, BatchKind, Tally};
pub use columns::Columns;
pub use field::{Field, FieldPlace, FieldSet, SCRATCH_WORDS, Span};
pub use findings::{Findings, Found, FoundLists};
pub use flags::Flags;
pub use fragment_key::FragmentKey;
pub use hash::{FlowHasher, PairHash, Seed};
pub use kept::{KeptFrames, KeptRows};
pub use kernel_fields::{Binding, Declared, StagedColumn, kernel_fields};
pub use kernel_layout::kernel_layout;
pub use launch_rows::{BatchRows, LaunchRows};
pub use link::LinkType;
pub use mirror::{
    Broken, LeftPackets, Returned, Stretch, crossing_width, frame_extent, lengthened, mirror_bit,
};
pub use notes::{NOTE_LEN_MAX, Note, Notes};
pub use packed_rows::{PACKED_ROW_LEN, RowPacker};
pub use packet::{Packet, PacketMut, PacketView, ScratchWord};
pub use parse::Headers;
pub use plain::{PlainRun, PlainV4};
pub use prefix::Prefix;
pub use small_pages::{in_small_pages, wants_small_pages};
pub use state_key::{Division, OwnKey, StateKey};
pub use steering::{Steered, Steering, Tuple};
pub use time::Instant;
pub use verdict::{REASONS_MAX, Reason, SHARDS, Shard, Verdict};
pub use ways::Hop;
pub use wire::Malformed;
