//! What a `[chain]` table says of lanes and the cores that they run on.

use warpline_engine::{Cores, LANES_MAX};
use warpline_nf::Section;

use crate::chain_file::Loaded;

/// The lanes that are asked for, and their cores: as many lanes as cores where only those are named, `default` where neither is.
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
        let text = format!("`cores`: chain {:?} names core {core}, too", other.chain.name);
        section.mistake("cores", text);
    }
}
