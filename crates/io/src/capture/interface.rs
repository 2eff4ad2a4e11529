//! A pcapng interface: its link type, its snap length, and what its timestamps mean
//! (draft-ietf-opsawg-pcapng, Interface Description Block and its options).

use warpline_packet::{Instant, LinkType};

use super::byte_order::ByteOrder;

/// The contents of an interface description block.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) link: LinkType,
    /// Bytes of the frame check sequence at the end of each packet.
    pub(super) fcs_len: u32,
    /// The most bytes of a packet that are captured; 0 for all.
    pub(super) snap_len: u32,
    /// The interface's name, cut to [`NAME_LEN_MAX`].
    pub(super) name: Option<String>,
    resolution: Resolution,
    /// Added to each timestamp, in seconds.
    offset_s: i64,
}

/// An option that can't be read: its place in the block's body and what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadOption {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

impl Interface {
    /// Reads the body of the block: 8 bytes at least, a multiple of 4.
    pub(super) fn parse(order: ByteOrder, body: &[u8]) -> Result<Self, BadOption> {
        let mut interface = Self {
            link: LinkType::from_file(order.u16(body, 0)),
            fcs_len: 0,
            snap_len: order.u32(body, 4),
            name: None,
            resolution: Resolution::MICROS,
            offset_s: 0,
        };
        let mut at = FIXED_LEN;
        while at + OPTION_HEADER_LEN <= body.len() {
            let code = order.u16(body, at);
            if code == OPT_END {
                break;
            }
            let start = at + OPTION_HEADER_LEN;
            let end = start + usize::from(order.u16(body, at + 2));
            let Some(value) = body.get(start..end) else {
                return Err(BadOption { at, what: "option runs past the end of its block" });
            };
            interface.set(code, order, value).map_err(|what| BadOption { at, what })?;
            at = end.next_multiple_of(4);
        }
        Ok(interface)
    }

    /// The moment that a timestamp names; the first or the last one where it can't be named.
    #[inline]
    pub(super) fn instant(&self, units: u64) -> Instant {
        let nanos = self.resolution.nanos(units);
        if self.offset_s == 0 {
            return Instant::from_nanos(nanos);
        }
        let moved = i128::from(nanos) + i128::from(self.offset_s) * 1_000_000_000;
        Instant::from_nanos(u64::try_from(moved.max(0)).unwrap_or(u64::MAX))
    }

    fn set(&mut self, code: u16, order: ByteOrder, value: &[u8]) -> Result<(), &'static str> {
        match (code, value.len()) {
            (IF_NAME, _) => self.name = name(value),
            (IF_TSRESOL, 1) => self.resolution = Resolution::parse(value[0]),
            (IF_TSRESOL, _) => return Err("option if_tsresol is not 1 byte long"),
            (IF_FCSLEN, 1) => self.fcs_len = fcs_len(value[0]),
            (IF_FCSLEN, _) => return Err("option if_fcslen is not 1 byte long"),
            (IF_TSOFFSET, 8) => self.offset_s = order.i64(value, 0),
            (IF_TSOFFSET, _) => return Err("option if_tsoffset is not 8 bytes long"),
            _ => {}
        }
        Ok(())
    }
}

/// Bytes of a frame check sequence. The option counts bits; some writers count bytes, and no
/// sequence has fewer than 16 bits.
fn fcs_len(value: u8) -> u32 {
    let value = u32::from(value);
    if value < 16 { value } else { value / 8 }
}

/// "The if_name option is a UTF-8 string containing the name of the device". An empty one is none.
fn name(value: &[u8]) -> Option<String> {
    // Some writers end it as C does.
    let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
    let value = &value[..value.len().min(NAME_LEN_MAX)];
    (!value.is_empty()).then(|| String::from_utf8_lossy(value).into_owned())
}

/// How units of a timestamp become nanoseconds.
#[derive(Debug, PartialEq, Eq)]
enum Resolution {
    /// A unit is this many nanoseconds.
    Times(u64),
    /// A nanosecond is this many units.
    Divide(u128),
    /// A second is two to this power of units.
    Binary(u8),
}

impl Resolution {
    const MICROS: Self = Self::Times(1000);

    /// "If the Most Significant Bit is equal to zero, the remaining bits indicate the resolution
    /// of the timestamp as a negative power of 10 [...]. If the Most Significant Bit is equal to
    /// one, [...] as a negative power of 2".
    fn parse(value: u8) -> Self {
        let power = value & 0x7f;
        match power {
            _ if value != power => Self::Binary(power),
            0..=9 => Self::Times(10_u64.pow(u32::from(9 - power))),
            // Units of 1e-47 s and smaller: 64 bits of them are less than a nanosecond.
            _ => Self::Divide(10_u128.checked_pow(u32::from(power - 9)).unwrap_or(u128::MAX)),
        }
    }

    #[inline]
    fn nanos(&self, units: u64) -> u64 {
        match *self {
            Self::Times(factor) => units.saturating_mul(factor),
            Self::Divide(divisor) => (u128::from(units) / divisor) as u64,
            Self::Binary(power) => {
                let nanos = (u128::from(units) * 1_000_000_000) >> power;
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Link type, two reserved bytes, snap length.
const FIXED_LEN: usize = 8;
const OPTION_HEADER_LEN: usize = 4;
pub(super) const OPT_END: u16 = 0;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
/// The longest name that is kept, in bytes, so that 65,536 interfaces don't fill the memory.
const NAME_LEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(options: &[u8]) -> Result<Interface, BadOption> {
        let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0];
        body.extend_from_slice(options);
        Interface::parse(ByteOrder::Little, &body)
    }

    fn nanos(resolution: u8, units: u64) -> u64 {
        interface(&[9, 0, 1, 0, resolution, 0, 0, 0]).unwrap().instant(units).as_nanos()
    }

    #[test]
    fn resolutions() {
        assert_eq!(interface(&[]).unwrap().instant(3).as_nanos(), 3000);
        for (resolution, units, expected) in [
            (0, 2, 2_000_000_000),
            (3, 1_234, 1_234_000_000),
            (6, 1_234, 1_234_000),
            (9, 1_234, 1_234),
            (12, 1_234_567, 1_234),
            (47, u64::MAX, 0),
            (127, u64::MAX, 0),
            (0x80, 3, 3_000_000_000),
            (0x80 | 1, 3, 1_500_000_000),
            (0x80 | 32, 1 << 31, 500_000_000),
            (0x80 | 64, 1 << 63, 500_000_000),
            (0xff, u64::MAX, 0),
            (0, u64::MAX, u64::MAX),
            (0x80, u64::MAX, u64::MAX),
        ] {
            assert_eq!(nanos(resolution, units), expected, "{resolution:#x} {units}");
        }
    }

    #[test]
    fn offsets() {
        let at = |seconds: i64, units| {
            let mut option = vec![14, 0, 8, 0];
            option.extend_from_slice(&seconds.to_le_bytes());
            interface(&option).unwrap().instant(units).as_nanos()
        };
        assert_eq!(at(5, 7), 5_000_007_000);
        assert_eq!(at(-5, 6_000_000), 1_000_000_000);
        assert_eq!(at(-5, 7), 0);
        assert_eq!(at(i64::MIN, u64::MAX), 0);
        assert_eq!(at(i64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn other_options_are_passed_over() {
        // A name of 5 bytes with its padding, the resolution, the end, and what follows the end.
        let options = [
            &[2, 0, 5, 0, b'e', b't', b'h', b'1', b'0', 0, 0, 0][..],
            &[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 3, 0, 0, 0],
        ];
        assert_eq!(interface(&options.concat()).unwrap().instant(7).as_nanos(), 7);
    }

    #[test]
    fn bad_options_are_named_by_their_place() {
        for (options, at) in [
            (&[2, 0, 9, 0, 1, 2, 3, 4][..], 8),
            (&[2, 0, 0, 0, 9, 0, 0xff, 0xff], 12),
            (&[9, 0, 2, 0, 6, 0, 0, 0], 8),
            (&[14, 0, 4, 0, 6, 0, 0, 0], 8),
        ] {
            assert_eq!(interface(options).unwrap_err().at, at, "{options:?}");
        }
    }
}
