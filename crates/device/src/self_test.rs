//! The test that a device must pass before it gets work: published digests, and results that are
//! computed here as well.

use core::ops::Range;
use core::slice::from_ref;

use crate::sys::self_test::{call, source};
use crate::{Argument, Buffer, Device, Failure, Module, Part, Step, Stream, Work};

use Argument::{Reads, U32, Writes};

/// RFC 1321, A.5: the digests of these messages.
const DIGESTS: [(&str, &str); 7] = [
    ("", "d41d8cd98f00b204e9800998ecf8427e"),
    ("a", "0cc175b9c0f1b6a831c399e269772661"),
    ("abc", "900150983cd24fb0d6963f7d28e17f72"),
    ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
    ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
    (
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        "d174ab98d277d9f5a5611c2c9f419d9f",
    ),
    (
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
        "57edf4a22be3c955ac49da2e2107b67a",
    ),
];

/// Compiles the self-test for `device` and runs it.
///
/// # Errors
/// The device's, or [`Failure::Work`] with the wrong result.
pub fn self_test(device: &dyn Device) -> Result<(), Failure> {
    let module = device.compile(&source())?;
    let mut bench = SelfTest { device, module, stream: device.stream()? };
    bench.digests()?;
    bench.moves()?;
    bench.operations()?;
    bench.groups()
}

struct SelfTest<'a> {
    device: &'a dyn Device,
    module: Module,
    stream: Box<dyn Stream>,
}

impl SelfTest<'_> {
    fn digests(&mut self) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        let mut starts = vec![0];
        for (message, _) in DIGESTS {
            bytes.extend_from_slice(message.as_bytes());
            starts.push(bytes.len() as u32);
        }
        let count = DIGESTS.len() as u32;
        let inputs = [bytes, bytes_of(&starts)];
        let got = self.run("md5", 1, &inputs, &[vec![0; DIGESTS.len() * 16]], Some(count))?;
        for ((message, digest), got) in DIGESTS.iter().zip(got[0].chunks(16)) {
            let text: String = got.iter().map(|byte| format!("{byte:02x}")).collect();
            expect(text == *digest, || format!("MD5 of {message:?} is {text}"))?;
        }
        Ok(())
    }

    /// Copies and a kernel at every offset of a word, with lengths around a line of memory.
    fn moves(&mut self) -> Result<(), Failure> {
        const AREA: usize = 1024;
        let from = self.device.allocate(AREA)?;
        let to = self.device.allocate(AREA)?;
        for (start, length) in
            (0..5).flat_map(|start| [1, 3, 127, 128, 129, 501].map(|len| (start, len)))
        {
            let bytes = pattern(length, start as u32);
            let got = self.there_and_back(&bytes, &from, &to, start)?;
            expect(got == bytes, || format!("{length} bytes moved from address {start}"))?;
        }
        Ok(())
    }

    fn there_and_back(
        &mut self,
        bytes: &[u8],
        from: &Buffer,
        to: &Buffer,
        start: usize,
    ) -> Result<Vec<u8>, Failure> {
        let length = bytes.len();
        let mut piece = self.device.host_memory(2 * 1024)?;
        piece[start..start + length].copy_from_slice(bytes);
        let kernel = self.module.kernel("move")?;
        let end = start + length;
        let bounds = [start, end].map(|bound| U32(bound as u32));
        let arguments = [Reads(from.whole()), Writes(to.whole())].into_iter().chain(bounds);
        let back = 1024 + 2 * start + 1;
        let steps = vec![
            Step::CopyIn { from: part(start..end), to: from.at(start..end) },
            Step::Call(call(&kernel, 3, arguments.collect())),
            Step::CopyOut { from: to.at(start..end), to: part(back..back + length) },
        ];
        let work = self.finish(Work::new(vec![piece], steps))?;
        Ok(work.pieces[0][back..back + length].to_vec())
    }

    fn operations(&mut self) -> Result<(), Failure> {
        const COUNT: usize = 100;
        let words: Vec<u32> = pattern(4 * (COUNT + 1), 9)
            .chunks_exact(4)
            .enumerate()
            .map(|(i, word)| {
                u32::from_le_bytes([word[0], word[1], word[2], word[3]]) >> (i % 33).min(31)
            })
            .collect();
        let bytes = bytes_of(&words);
        let outputs = [vec![0; 6 * 4 * COUNT], vec![0; 8]];
        let got = self.run("operations", 2, from_ref(&bytes), &outputs, Some(COUNT as u32))?;
        let mut want = Vec::new();
        for (i, &x) in words[..COUNT].iter().enumerate() {
            let near = u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
            let high = ((u64::from(x) * u64::from(x)) >> 32) as u32;
            let turned = x.rotate_left(i as u32 % 32);
            want.extend([turned, x.swap_bytes(), x.count_ones(), x.leading_zeros(), near, high]);
        }
        expect(got[0] == bytes_of(&want), || "an operation of the dialect".into())?;
        let ones = words[..COUNT].iter().map(|word| word.count_ones()).sum();
        let any = words[..COUNT].iter().fold(0, |all, word| all | word);
        expect(got[1] == bytes_of(&[ones, any]), || "atomic operations".into())
    }

    fn groups(&mut self) -> Result<(), Failure> {
        const GROUPS: usize = 3;
        let bytes = pattern(GROUPS * 1024, 4);
        let got = self.run(
            "turn_around",
            GROUPS as u32,
            from_ref(&bytes),
            &[vec![0; bytes.len()]],
            None,
        )?;
        let mut want = Vec::new();
        for (number, group) in bytes.chunks(1024).enumerate() {
            for piece in group.rchunks(16) {
                let word = |i: usize| {
                    u32::from_le_bytes([piece[i], piece[i + 1], piece[i + 2], piece[i + 3]])
                };
                want.extend([word(12).wrapping_add(number as u32), word(8), word(4), word(0)]);
            }
        }
        expect(got[0] == bytes_of(&want), || "what items of a group see of each other".into())
    }

    /// Runs a kernel that takes inputs, outputs (with their initial values) and a count; returns
    /// the outputs.
    fn run(
        &mut self,
        name: &str,
        groups: u32,
        inputs: &[Vec<u8>],
        outputs: &[Vec<u8>],
        count: Option<u32>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut work = Work::default();
        let (mut arguments, mut backs) = (Vec::new(), Vec::new());
        for (index, bytes) in inputs.iter().chain(outputs).enumerate() {
            let mut piece = self.device.host_memory(bytes.len().max(1))?;
            piece[..bytes.len()].copy_from_slice(bytes);
            let all = self.device.allocate(piece.len())?.whole();
            let whole = Part { piece: index, range: 0..piece.len() };
            work.steps.push(Step::CopyIn { from: whole.clone(), to: all.clone() });
            if index < inputs.len() {
                arguments.push(Reads(all));
            } else {
                backs.push(Step::CopyOut { from: all.clone(), to: whole });
                arguments.push(Writes(all));
            }
            work.pieces.push(piece);
        }
        arguments.extend(count.map(U32));
        work.steps.push(Step::Call(call(&self.module.kernel(name)?, groups, arguments)));
        work.steps.extend(backs);
        let done = self.finish(work)?;
        Ok(done.pieces[inputs.len()..].iter().map(|piece| piece.to_vec()).collect())
    }

    fn finish(&mut self, work: Work) -> Result<Work, Failure> {
        self.stream.submit(work).map_err(|refused| refused.why)?;
        let done = self.stream.wait().ok_or_else(|| Failure::Work("work went away".into()))?;
        done.outcome.map(|()| done.work)
    }
}

fn expect(right: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    match right {
        true => Ok(()),
        false => Err(Failure::Work(format!("the self-test gives a wrong result: {}", what()))),
    }
}

fn part(range: Range<usize>) -> Part {
    Part { piece: 0, range }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// xorshift32 (Marsaglia 2003) from `seed`.
fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
