//! Instructions of eBPF: RFC 9669.

use std::os::fd::RawFd;

/// `bpf_map_lookup_elem`
const LOOK_UP: i32 = 1;

/// A register of the machine.
#[derive(Clone, Copy)]
pub(super) struct Register(u8);

impl Register {
    pub(super) const RESULT: Self = Self(0);
    pub(super) const ARGUMENT_1: Self = Self(1);
    pub(super) const ARGUMENT_2: Self = Self(2);
    pub(super) const ARGUMENT_3: Self = Self(3);
    /// Calls change these two.
    pub(super) const SCRATCH_1: Self = Self(4);
    pub(super) const SCRATCH_2: Self = Self(5);
    /// Calls keep the rest.
    pub(super) const CONTEXT: Self = Self(6);
    pub(super) const SAVED_1: Self = Self(7);
    pub(super) const SAVED_2: Self = Self(8);
    pub(super) const STACK: Self = Self(10);
}

/// How many bytes are loaded or stored: the bits of an operation.
#[derive(Clone, Copy)]
pub(super) enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
}

/// A place that is jumped to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    V4,
    V6,
    LookUp,
    Pass,
}

/// A place in memory: a register and an offset in bytes.
type Place = (Register, i16);

/// Instructions, the last of which may follow.
#[derive(Default)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
    /// Jumps by the number of their instruction.
    jumps: Vec<(usize, Label)>,
    places: Vec<(usize, Label)>,
}

struct Instruction {
    operation: u8,
    target: u8,
    source: u8,
    offset: i16,
    number: i32,
}

impl Instruction {
    fn encoded(&self) -> u64 {
        let registers = if cfg!(target_endian = "little") {
            self.source << 4 | self.target
        } else {
            self.target << 4 | self.source
        };
        let [low, high] = self.offset.to_ne_bytes();
        let [a, b, c, d] = self.number.to_ne_bytes();
        u64::from_ne_bytes([self.operation, registers, low, high, a, b, c, d])
    }
}

impl Code {
    /// All instructions. Each label that is jumped to was placed.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (from, label) in self.jumps {
            let place = self.places.iter().find(|(_, placed)| *placed == label);
            let (to, _) = place.expect("a label that was placed");
            self.instructions[from].offset = (*to as i64 - from as i64 - 1) as i16;
        }
        self.instructions.iter().map(Instruction::encoded).collect()
    }

    fn push(&mut self, operation: u8, target: Register, source: u8, offset: i16, number: i32) {
        let target = target.0;
        self.instructions.push(Instruction { operation, target, source, offset, number });
    }

    /// `target = number`
    pub(super) fn set(&mut self, target: Register, number: i32) {
        self.push(0xb7, target, 0, 0, number);
    }

    /// `target = source`
    pub(super) fn copy(&mut self, target: Register, source: Register) {
        self.push(0xbf, target, source.0, 0, 0);
    }

    pub(super) fn load(&mut self, width: Width, target: Register, (from, offset): Place) {
        self.push(0x61 | width as u8, target, from.0, offset, 0);
    }

    pub(super) fn store(&mut self, width: Width, (to, offset): Place, number: i32) {
        self.push(0x62 | width as u8, to, 0, offset, number);
    }

    pub(super) fn store_register(&mut self, width: Width, (to, offset): Place, from: Register) {
        self.push(0x63 | width as u8, to, from.0, offset, 0);
    }

    /// Loads the map with this descriptor.
    pub(super) fn map(&mut self, target: Register, map: RawFd) {
        const IS_MAP: u8 = 1;
        self.push(0x18, target, IS_MAP, 0, map);
        self.push(0, Register::RESULT, 0, 0, 0); // the high half of the number
    }

    pub(super) fn call(&mut self, function: i32) {
        self.push(0x85, Register::RESULT, 0, 0, function);
    }

    pub(super) fn exit(&mut self) {
        self.push(0x95, Register::RESULT, 0, 0, 0);
    }

    /// Looks up the key that stands at `key` on the stack. The result is zero if there is none.
    pub(super) fn look_up(&mut self, map: RawFd, key: i16) {
        self.map(Register::ARGUMENT_1, map);
        self.copy(Register::ARGUMENT_2, Register::STACK);
        self.add(Register::ARGUMENT_2, key);
        self.call(LOOK_UP);
    }

    fn add(&mut self, target: Register, number: i16) {
        self.push(0x07, target, 0, 0, number.into());
    }

    /// The next instruction is at `label`.
    pub(super) fn place(&mut self, label: Label) {
        self.places.push((self.instructions.len(), label));
    }

    fn jump_by(&mut self, operation: u8, (left, right): (Register, u8), number: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.push(operation, left, right, 0, number);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jump_by(0x05, (Register::RESULT, 0), 0, to);
    }

    pub(super) fn jump_if_equal(&mut self, left: Register, number: i32, to: Label) {
        self.jump_by(0x15, (left, 0), number, to);
    }

    pub(super) fn jump_unless_equal(&mut self, left: Register, number: i32, to: Label) {
        self.jump_by(0x55, (left, 0), number, to);
    }

    pub(super) fn jump_if_different(&mut self, left: Register, right: Register, to: Label) {
        self.jump_by(0x5d, (left, right.0), 0, to);
    }

    pub(super) fn jump_if_less(&mut self, left: Register, number: i32, to: Label) {
        self.jump_by(0xa5, (left, 0), number, to);
    }

    pub(super) fn jump_unless_more(&mut self, left: Register, number: i32, to: Label) {
        self.jump_by(0xb5, (left, 0), number, to);
    }

    /// Jumps if `start + len` is beyond `end`.
    pub(super) fn jump_beyond(&mut self, start: Register, len: i16, end: Register, to: Label) {
        self.copy(Register::ARGUMENT_2, start);
        self.add(Register::ARGUMENT_2, len);
        self.jump_by(0x2d, (Register::ARGUMENT_2, end.0), 0, to);
    }
}
