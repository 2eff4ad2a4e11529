//! The bytes that functions add to frames, so that the bytes of whole frames can be predicted.

/// Bytes that functions which share launches add to a frame's head and tail, by its length.
#[derive(Clone, Debug, Default)]
pub struct Lengthened {
    /// By length; empty if every frame keeps its own.
    by_len: Vec<[i32; 2]>,
}

/// Lengths that have an entry each. Longer frames have that of a length with the same rest by
/// [`PERIOD`].
const LENS: usize = 2048;

/// The bytes that ciphers add depend on a length modulo their block, which divides this.
const PERIOD: usize = 16;

impl Lengthened {
    /// By functions that follow each other. Each gives the bytes that it adds at the head and at
    /// the tail of a frame of so many bytes.
    pub fn by<F: Fn(usize) -> [i32; 2]>(functions: impl Iterator<Item = F> + Clone) -> Self {
        let of = |len: usize| {
            functions.clone().fold([0; 2], |[head, tail]: [i32; 2], lengthens| {
                let now = (len as i32 + head + tail).max(0);
                let [at_head, at_tail] = lengthens(now as usize);
                [head + at_head, tail + at_tail]
            })
        };
        let by_len: Vec<[i32; 2]> = (0..LENS).map(of).collect();
        let is_kept = by_len.iter().all(|both| *both == [0; 2]);
        Self { by_len: if is_kept { Vec::new() } else { by_len } }
    }

    /// Of a frame of `len` bytes.
    pub(crate) fn of(&self, len: usize) -> [i32; 2] {
        let at = if len < LENS { len } else { LENS - PERIOD + len % PERIOD };
        self.by_len.get(at).copied().unwrap_or_default()
    }
}
