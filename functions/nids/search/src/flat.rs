//! The dense automaton as flat tables, for kernels.

use super::dense::Cells;
use super::literals::{Literals, NOCASE};
use super::trie::NONE;
use super::{Dense, Error, Pattern};

/// See the module.
pub struct Flat {
    /// The class of each byte.
    pub classes: [u8; 256],
    /// Columns of the table.
    pub class_count: usize,
    /// Next states, row by row, in numbers of [`Flat::cell_len`] bytes.
    pub cells: Vec<u8>,
    /// Bytes of a cell.
    pub cell_len: usize,
    /// This state and all later ones are accepting.
    pub accepting: usize,
    /// Three numbers for each accepting state: the start and end of the entries of the literal that
    /// ends there, and the place of the next shorter suffix in which a literal ends, or `NONE`, all
    /// ones. The end is exclusive.
    pub outputs: Vec<u32>,
    /// Two numbers for each entry: bytes, and where they begin in `exact` or `NOCASE`, all ones.
    pub entries: Vec<u32>,
    /// Bytes of the patterns whose case counts.
    pub exact: Vec<u8>,
    /// The pattern of each entry.
    pub patterns: Vec<u32>,
}

impl Flat {
    /// Of `patterns`.
    ///
    /// # Errors
    ///
    /// They are too many.
    pub fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        let dense = Dense::new(patterns)?;
        let (cells, cell_len): (Vec<u8>, usize) = match &dense.table {
            Cells::Short(cells) => (cells.iter().flat_map(|cell| cell.to_le_bytes()).collect(), 2),
            Cells::Long(cells) => (cells.iter().flat_map(|cell| cell.to_le_bytes()).collect(), 4),
        };
        let literals = &dense.literals;
        let entries_of = |literal: u32| match literal {
            NONE => [0, 0],
            literal => [0, 1].map(|more| literals.id_starts[literal as usize + more]),
        };
        let outputs = dense.outputs.literals.iter().zip(&dense.outputs.nexts);
        let outputs = outputs.flat_map(|(&literal, &next)| {
            let [first, end] = entries_of(literal);
            [first, end, next]
        });
        Ok(Self {
            classes: dense.classes,
            class_count: dense.class_count,
            cells,
            cell_len,
            accepting: dense.accepting,
            outputs: outputs.collect(),
            entries: entries(literals),
            exact: literals.exact.clone(),
            patterns: literals.ids.clone(),
        })
    }

    /// Of nothing.
    pub fn empty() -> Self {
        Self {
            classes: [0; 256],
            class_count: 1,
            cells: Vec::new(),
            cell_len: 2,
            accepting: 0,
            outputs: Vec::new(),
            entries: Vec::new(),
            exact: Vec::new(),
            patterns: Vec::new(),
        }
    }

    /// Bytes of the cells that [`Flat::new`] would make, found without making them: a state for
    /// every first part of a folded pattern, a class for every byte in them and one for all others.
    pub fn cells_len(patterns: &[Pattern]) -> usize {
        let mut folded: Vec<Vec<u8>> =
            patterns.iter().map(|pattern| pattern.bytes.to_ascii_lowercase()).collect();
        folded.sort_unstable();
        let mut is_used = [false; 256];
        folded.iter().flatten().for_each(|&byte| is_used[usize::from(byte)] = true);
        let classes = 1 + is_used.iter().filter(|&&is_used| is_used).count();
        let (mut states, mut last) = (1, &[][..]);
        for own in &folded {
            let shared = own.iter().zip(last).take_while(|(a, b)| a == b).count();
            states += own.len() - shared;
            last = own;
        }
        let cell_len = if states <= 1 << 16 { 2 } else { 4 };
        states.saturating_mul(classes * cell_len)
    }
}

fn entries(literals: &Literals) -> Vec<u32> {
    let mut entries = Vec::with_capacity(2 * literals.ids.len());
    for literal in 0..literals.len() as u32 {
        let own = literals.id_starts[literal as usize]..literals.id_starts[literal as usize + 1];
        for entry in own {
            entries.extend([
                literals.get(literal).len() as u32,
                literals.exact_starts[entry as usize],
            ]);
        }
    }
    entries
}

const _: () = assert!(NOCASE == NONE);
