//! Variables of a flow that rules set: [`FlowVars`].

use warpline_nids_rules::Name;

/// Names that can be set at once.
pub const BITS_MAX: usize = 16;
/// Numbers that can be set at once.
pub const INTS_MAX: usize = 6;

/// The `flowbits` and `flowint`s of one flow, in 116 bytes. Those that exceed the room are not set,
/// and are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowVars {
    bits: [Name; BITS_MAX],
    ints: [(Name, u32); INTS_MAX],
    bits_len: u8,
    ints_len: u8,
    lost: u16,
}

impl Default for FlowVars {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FlowVars {
    /// Nothing is set.
    pub const EMPTY: Self = Self {
        bits: [Name(0); BITS_MAX],
        ints: [(Name(0), 0); INTS_MAX],
        bits_len: 0,
        ints_len: 0,
        lost: 0,
    };

    /// The bits that are set, in the order in which they were.
    pub fn bits(&self) -> &[Name] {
        &self.bits[..usize::from(self.bits_len)]
    }

    /// The numbers that are set, in the order in which they were first.
    pub fn ints(&self) -> &[(Name, u32)] {
        &self.ints[..usize::from(self.ints_len)]
    }

    /// Whether a bit is set.
    pub fn has(&self, name: Name) -> bool {
        self.bits().contains(&name)
    }

    /// The number, if it was set.
    pub fn int(&self, name: Name) -> Option<u32> {
        let ints = &self.ints[..usize::from(self.ints_len)];
        ints.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// Sets a bit.
    pub fn set(&mut self, name: Name) {
        if self.has(name) {
            return;
        }
        match self.bits.get_mut(usize::from(self.bits_len)) {
            Some(place) => {
                *place = name;
                self.bits_len += 1;
            }
            None => self.lost = self.lost.saturating_add(1),
        }
    }

    /// Unsets a bit.
    pub fn unset(&mut self, name: Name) {
        let len = usize::from(self.bits_len);
        if let Some(at) = self.bits[..len].iter().position(|other| *other == name) {
            self.bits.copy_within(at + 1..len, at);
            self.bits_len -= 1;
        }
    }

    /// Sets a number.
    pub fn set_int(&mut self, name: Name, value: u32) {
        let len = usize::from(self.ints_len);
        if let Some(int) = self.ints[..len].iter_mut().find(|(other, _)| *other == name) {
            int.1 = value;
            return;
        }
        match self.ints.get_mut(len) {
            Some(place) => {
                *place = (name, value);
                self.ints_len += 1;
            }
            None => self.lost = self.lost.saturating_add(1),
        }
    }

    /// How often something found no room.
    pub fn lost(&self) -> u16 {
        self.lost
    }
}
