//! Keys of a `[chain]` table for lanes, the cores that they run on, and how packets are divided
//! among them.

use core::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::OnceLock;

use warpline_engine::{Cores, LANES_MAX};
use warpline_nf::Section;
use warpline_packet::Seed;

use crate::chain_file::Loaded;

/// The numbers that programs of any language read exactly: the integers up to 2^53.
const SEED_BITS: u32 = 53;

/// The lanes that are asked for, and their cores: as many lanes as cores where only those are
/// named, `default` where neither is.
pub(crate) fn read(section: &mut Section<'_>, default: usize) -> (usize, Cores) {
    let cores: Cores = section.parsed("cores").unwrap_or(Cores::ANY);
    let count = cores.numbers().len();
    let default = if count > 0 { count } else { default };
    let lanes = section.integer("lanes", 1..=LANES_MAX as u64, default as u64) as usize;
    if count > 0 && lanes > count {
        let text = format!("`lanes` asks for {lanes}, and `cores` names {count}: a lane has one");
        section.mistake("lanes", text);
    }
    (lanes, cores)
}

/// Finds the first of `cores` that is there for one of the chains `before`.
pub(crate) fn refuse_taken(section: &mut Section<'_>, cores: &Cores, before: &[Loaded]) {
    let named =
        |core: &u16| before.iter().find(|other| other.settings.cores.numbers().contains(core));
    let taken = cores.numbers().iter().find_map(|core| Some((core, named(core)?)));
    if let Some((core, other)) = taken {
        let text = format!("`cores`: chain {:?} names core {core}, too", other.chain().name);
        section.mistake("cores", text);
    }
}

/// The seed of the table. By default it is 0, so that all runs over a capture give the same
/// results. For interfaces (`is_live`) it is random, so that senders cannot know it. A random seed
/// is drawn once in the process, so a reload keeps it.
pub(crate) fn seed(section: &mut Section<'_>, is_live: bool) -> Seed {
    static DRAWN: OnceLock<u64> = OnceLock::new();
    let drawn = || RandomState::new().hash_one(0_u8) >> (u64::BITS - SEED_BITS);
    let given = section.integer_or("seed", 0..=(1 << SEED_BITS) - 1, "random", 0);
    let given = given.filter(|_| !is_live || section.has("seed"));
    Seed::new(given.unwrap_or_else(|| *DRAWN.get_or_init(drawn)))
}
