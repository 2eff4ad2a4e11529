//! A dense automaton: a row of next states for each state, a column for each byte class.
//!
//! The payload is cut into [`LANES`] parts that are walked in step, as a single walk mostly waits
//! for its last load. The walk of a part continues past its end until its state equals the state of
//! the next part's walk there. This is the case once the depth of its state is no more than the
//! bytes walked since. Duplicates count once. So a payload of n bytes takes at most n steps, plus
//! the length of the longest pattern for each part.
//!
//! States are numbered breadth first, with all accepting states last, so that one comparison finds
//! a hit.

use super::literals::Literals;
use super::trie::{Outputs, Trie};
use super::{Error, Hits, Matcher, Pattern};

/// Parts of a payload that are walked in step.
const LANES: usize = 4;
/// Parts of fewer bytes don't pay.
const PART_LEN_MIN: usize = 16;
/// The longest table, in bytes.
const TABLE_LEN_MAX: usize = 1 << 30;

/// Aho and Corasick's automaton as a table.
#[derive(Clone, Debug)]
pub struct Dense {
    /// The class of each byte.
    pub(super) classes: [u8; 256],
    /// Columns of the table.
    pub(super) class_count: usize,
    pub(super) table: Cells,
    /// Bytes that lead to each state.
    depths: Vec<u16>,
    /// This state and all later ones are accepting.
    pub(super) accepting: usize,
    pub(super) outputs: Outputs,
    pub(super) literals: Literals,
}

/// Next states, row by row.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    /// Where there are no more than 65,536 states.
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Dense {
    /// Makes the automaton of `patterns`.
    ///
    /// # Errors
    ///
    /// The table is longer than 2^30 bytes.
    pub fn new(patterns: &[Pattern]) -> Result<Self, Error> {
        Self::new_within(patterns, TABLE_LEN_MAX)
    }

    /// As [`Dense::new`], with a table of at most so many bytes.
    pub(super) fn new_within(patterns: &[Pattern], table_len_max: usize) -> Result<Self, Error> {
        let literals = Literals::new(patterns)?;
        let trie = Trie::new(&literals);
        let is_short = trie.len() <= 1 << 16;
        let cell_len = if is_short { 2 } else { 4 };
        if trie.len() * trie.classes.count > table_len_max / cell_len {
            return Err(Error::TooLong);
        }
        let accepting = trie.len() - trie.accepting().count();
        let states = number(&trie, accepting);
        let mut depths = vec![0; trie.len()];
        states.iter().zip(&trie.depths).for_each(|(&state, depth)| depths[state as usize] = *depth);
        let table = match is_short {
            true => Cells::Short(fill(&trie, &states, |state| state as u16)),
            false => Cells::Long(fill(&trie, &states, |state| state)),
        };
        let outputs = Outputs::new(&trie);
        let (classes, class_count) = (trie.classes.of, trie.classes.count);
        Ok(Self { classes, class_count, table, depths, accepting, outputs, literals })
    }

    /// Walks over `bytes`, calling `on_hit` with each accepting state and the end of its match.
    #[inline]
    fn walk<C: Cell>(&self, table: &[C], bytes: &[u8], mut on_hit: impl FnMut(usize, usize)) {
        let len = match bytes.len() / LANES {
            len if len < PART_LEN_MIN => 0,
            len => len,
        };
        let [a, b, c, d]: [&[u8]; LANES] = core::array::from_fn(|lane| &bytes[lane * len..][..len]);
        let mut states = [0; LANES];
        for (i, ((&a, &b), (&c, &d))) in a.iter().zip(b).zip(c.iter().zip(d)).enumerate() {
            states[0] = self.step(table, states[0], a);
            states[1] = self.step(table, states[1], b);
            states[2] = self.step(table, states[2], c);
            states[3] = self.step(table, states[3], d);
            if states[0].max(states[1]).max(states[2].max(states[3])) >= self.accepting {
                for (lane, &state) in states.iter().enumerate() {
                    if state >= self.accepting {
                        on_hit(state, lane * len + i + 1);
                    }
                }
            }
        }
        for (lane, state) in states.into_iter().enumerate() {
            self.walk_on(table, bytes, (lane + 1) * len, state, lane + 1 < LANES, &mut on_hit);
        }
    }

    /// Walks on from `start`; where another walk starts there, until both are in the same state.
    fn walk_on<C: Cell>(
        &self,
        table: &[C],
        bytes: &[u8],
        start: usize,
        mut state: usize,
        has_next: bool,
        on_hit: &mut impl FnMut(usize, usize),
    ) {
        for (past, &byte) in bytes[start..].iter().enumerate() {
            if has_next && usize::from(self.depths[state]) <= past {
                return;
            }
            state = self.step(table, state, byte);
            if state >= self.accepting {
                on_hit(state, start + past + 1);
            }
        }
    }

    #[inline]
    fn step<C: Cell>(&self, table: &[C], state: usize, byte: u8) -> usize {
        let class = usize::from(self.classes[usize::from(byte)]);
        table[state * self.class_count + class].state()
    }

    #[cold]
    fn report(&self, state: usize, found: &[u8], hits: &mut Hits) {
        self.outputs.report((state - self.accepting) as u32, found, &self.literals, hits);
    }
}

impl Matcher for Dense {
    fn scan(&self, bytes: &[u8], hits: &mut Hits) {
        let on_hit = |state, end| self.report(state, &bytes[..end], hits);
        match &self.table {
            Cells::Short(table) => self.walk(table, bytes, on_hit),
            Cells::Long(table) => self.walk(table, bytes, on_hit),
        }
        hits.sort();
    }

    fn memory_len(&self) -> usize {
        let table_len = match &self.table {
            Cells::Short(table) => table.len() * 2,
            Cells::Long(table) => table.len() * 4,
        };
        let rest = self.outputs.memory_len() + self.literals.memory_len() + self.classes.len();
        table_len + self.depths.len() * 2 + rest
    }

    fn name(&self) -> &'static str {
        "dense"
    }
}

trait Cell: Copy {
    fn state(self) -> usize;
}

impl Cell for u16 {
    #[inline]
    fn state(self) -> usize {
        usize::from(self)
    }
}

impl Cell for u32 {
    #[inline]
    fn state(self) -> usize {
        self as usize
    }
}

/// The states of nodes: accepting ones from `accepting` on. The root stays 0.
fn number(trie: &Trie, accepting: usize) -> Vec<u32> {
    let (mut plain, mut accepting) = (0, accepting as u32);
    let state = |node| {
        let next = if trie.is_accepting(node) { &mut accepting } else { &mut plain };
        *next += 1;
        *next - 1
    };
    (0..trie.len() as u32).map(state).collect()
}

/// The row of a node is that of its failure link, which precedes it, except for its own children.
fn fill<C: Copy>(trie: &Trie, states: &[u32], cell: impl Fn(u32) -> C) -> Vec<C> {
    let width = trie.classes.count;
    let mut table = vec![cell(0); trie.len() * width];
    for node in 0..trie.len() as u32 {
        let row = states[node as usize] as usize * width;
        let fail = states[trie.fails[node as usize] as usize] as usize * width;
        table.copy_within(fail..fail + width, row);
        for child in trie.children(node) {
            let class = usize::from(trie.labels[child as usize]);
            table[row + class] = cell(states[child as usize]);
        }
    }
    table
}
