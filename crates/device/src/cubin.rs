//! Figures from a compiled kernel for NVIDIA's GPUs: registers, stack and spills. They show the
//! cost of a change without a GPU.
//!
//! A cubin is an ELF file. Its section `.nv.info` lists attributes of kernels by their symbols, and
//! `.nv.info.NAME` those of one kernel. NVIDIA doesn't document them: the numbers here are those
//! that its own tools show. NVRTC 12.9 and 13.0 record spills; another version may not.

/// A kernel of a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its name.
    pub kernel: String,
    /// Registers of a work-item.
    pub registers: u32,
    /// Bytes of a work-item's stack: spilled registers, and arrays with an index that is not
    /// constant.
    pub stack: u32,
    /// Instructions that spill registers to the stack, or load them again.
    pub spills: u32,
}

/// The kernels of `cubin`, by name; none where it is not what was expected.
pub fn figures(cubin: &[u8]) -> Vec<Figures> {
    let mut all = read(cubin).unwrap_or_default();
    all.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    all
}

/// `EIATTR_REGCOUNT`.
const REGISTERS: u8 = 0x2f;
/// `EIATTR_FRAME_SIZE`.
const FRAME_SIZE: u8 = 0x11;
/// `EIATTR_ANNOTATIONS`: a kind and a place in the code for each instruction that is one of these.
const ANNOTATIONS: u8 = 0x55;
/// Of a kind: `SpillRefill`.
const SPILL_REFILL: u32 = 1;
/// `EIFMT_SVAL`: the head's last two bytes give the number of bytes that follow it; in other
/// formats none follow.
const WITH_BYTES: u8 = 0x04;
/// Bytes of an entry of an ELF symbol table.
const SYMBOL_LEN: usize = 24;

fn read(elf: &[u8]) -> Option<Vec<Figures>> {
    let symbols = section(elf, ".symtab")?;
    let names = section(elf, ".strtab")?;
    let name_of = |symbol: usize| {
        let at = u32_at(symbols, SYMBOL_LEN.checked_mul(symbol)?)? as usize;
        text_at(names, at)
    };
    let mut all: Vec<Figures> = Vec::new();
    for (attribute, value) in Attributes(section(elf, ".nv.info")?) {
        if ![REGISTERS, FRAME_SIZE].contains(&attribute) {
            continue;
        }
        let kernel = name_of(u32_at(value, 0)? as usize)?;
        let number = u32_at(value, 4)?;
        if !all.iter().any(|one| one.kernel == kernel) {
            let spills = spills(elf, kernel);
            all.push(Figures { kernel: kernel.into(), registers: 0, stack: 0, spills });
        }
        let own = all.iter_mut().find(|one| one.kernel == kernel)?;
        match attribute {
            REGISTERS => own.registers = number,
            _ => own.stack = number,
        }
    }
    Some(all)
}

/// How many instructions of `kernel` spill or refill.
fn spills(elf: &[u8], kernel: &str) -> u32 {
    let own = Attributes(section(elf, &format!(".nv.info.{kernel}")).unwrap_or_default());
    let annotations = own.filter(|(attribute, _)| *attribute == ANNOTATIONS);
    // How long those of other kinds are isn't known; these have a place of four bytes.
    let counts = annotations.map(|(_, value)| {
        let kinds = value.chunks_exact(8).map(|one| u32_at(one, 0));
        kinds.take_while(|kind| *kind == Some(SPILL_REFILL)).count() as u32
    });
    counts.sum()
}

/// Attributes with the bytes that follow them, up to one that is cut short.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [format, attribute, low, high, after @ ..] = self.0 else { return None };
        let len = if *format == WITH_BYTES { u16::from_le_bytes([*low, *high]) } else { 0 };
        let (value, rest) = after.split_at_checked(len.into())?;
        self.0 = rest;
        Some((*attribute, value))
    }
}

/// The bytes of an ELF section.
fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let table = u64_at(elf, 0x28)? as usize;
    let (len, count) = (u16_at(elf, 0x3a)? as usize, u16_at(elf, 0x3c)? as usize);
    let header = |index: usize| elf.get(table.checked_add(index.checked_mul(len)?)?..);
    let body = |header: &[u8]| {
        let (at, len) = (u64_at(header, 24)? as usize, u64_at(header, 32)? as usize);
        elf.get(at..at.checked_add(len)?)
    };
    let names = body(header(u16_at(elf, 0x3e)?.into())?)?;
    let is_it =
        |header: &&[u8]| u32_at(header, 0).and_then(|at| text_at(names, at as usize)) == Some(name);
    (0..count).filter_map(header).find(is_it).and_then(body)
}

fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let len = rest.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&rest[..len]).ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|own| u16::from_le_bytes(*own))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|own| u32::from_le_bytes(*own))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|own| u64::from_le_bytes(*own))
}
