//! A finished flow record: what goes from the shards to the report, as a note of fixed length.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::key::{Echo, FlowKey, echo_types};

/// Bytes of a note.
pub(super) const NOTE_LEN: usize = 98;

/// Why a record ended: flowEndReason (RFC 5102, 5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Idle = 1,
    Active = 2,
    /// The connection ended: FIN from both sides, or RST.
    Detected = 3,
    /// The run ended.
    Forced = 4,
    /// The table was full.
    LackOfResources = 5,
}

impl End {
    pub(super) const ALL: [Self; 5] =
        [Self::Idle, Self::Active, Self::Detected, Self::Forced, Self::LackOfResources];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Detected => "end",
            Self::Forced => "forced",
            Self::LackOfResources => "lack-of-resources",
        }
    }
}

/// Which side of the flow a record's source is: biflowDirection (RFC 5103, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The initiator.
    Initiator = 1,
    /// The other: only it sent anything while the record lasted.
    ReverseInitiator = 2,
}

/// Totals of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Half {
    pub(super) packets: u64,
    /// Bytes of the IP packets.
    pub(super) bytes: u64,
    /// When the first packet came, in microseconds since the epoch; 0 if there was none.
    pub(super) first_us: u64,
    /// When the last one came.
    pub(super) last_us: u64,
    /// Every TCP flag that was seen.
    pub(super) tcp_flags: u8,
}

impl Half {
    /// It did nothing.
    const EMPTY: Self = Self { packets: 0, bytes: 0, first_us: 0, last_us: 0, tcp_flags: 0 };
}

/// How records are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One for both directions (RFC 5103).
    Biflow,
    /// One for each direction with packets, for collectors that know no other.
    Uniflow,
}

/// A finished record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowRecord {
    pub(super) key: FlowKey,
    /// From the source.
    pub(super) forward: Half,
    /// To the source.
    pub(super) reverse: Half,
    pub(super) end: End,
    pub(super) direction: Direction,
}

impl FlowRecord {
    /// One of nothing.
    pub(super) const EMPTY: Self = Self {
        key: FlowKey {
            src: 0,
            dst: 0,
            src_port: 0,
            dst_port: 0,
            protocol: 0,
            version: 4,
            echo: Echo::None,
        },
        forward: Half::EMPTY,
        reverse: Half::EMPTY,
        end: End::Forced,
        direction: Direction::Initiator,
    };

    /// The same seen from the other side.
    pub(super) fn reversed(&self) -> Self {
        let mut key = self.key.reversed();
        if key.is_icmp() {
            let ([kind, code], (request, reply)) =
                (key.dst_port.to_be_bytes(), echo_types(key.version));
            // The initiator's side has no replies: a reply's number there means that the packet's
            // type could not be read.
            let kind = match self.direction {
                Direction::Initiator if kind == request => reply,
                Direction::ReverseInitiator if kind == reply => request,
                _ => kind,
            };
            key.dst_port = u16::from_be_bytes([kind, code]);
        }
        let direction = match self.direction {
            Direction::Initiator => Direction::ReverseInitiator,
            Direction::ReverseInitiator => Direction::Initiator,
        };
        Self { key, forward: self.reverse, reverse: self.forward, direction, ..*self }
    }

    /// The records that are exported for it.
    pub(super) fn in_form(&self, form: Form) -> impl Iterator<Item = Self> + use<> {
        let (forward, reverse) = match form {
            Form::Biflow => (*self, None),
            Form::Uniflow => {
                let one_way = |record: Self| Self { reverse: Half::EMPTY, ..record };
                (one_way(*self), self.is_biflow().then(|| one_way(self.reversed())))
            }
        };
        core::iter::once(forward).chain(reverse)
    }

    /// The same seen from the initiator.
    pub(super) fn as_initiator(&self) -> Self {
        if self.direction == Direction::Initiator { *self } else { self.reversed() }
    }

    pub(super) fn is_biflow(&self) -> bool {
        self.reverse.packets > 0
    }

    pub(super) fn src(&self) -> IpAddr {
        address(self.key.version, self.key.src)
    }

    pub(super) fn dst(&self) -> IpAddr {
        address(self.key.version, self.key.dst)
    }

    /// When its last packet came.
    pub(super) fn last_us(&self) -> u64 {
        self.forward.last_us.max(self.reverse.last_us)
    }

    /// As a note.
    pub(super) fn encode(&self) -> [u8; NOTE_LEN] {
        let mut note = [0; NOTE_LEN];
        let mut rest = &mut note[..];
        let key = &self.key;
        put(&mut rest, key.src.to_be_bytes());
        put(&mut rest, key.dst.to_be_bytes());
        put(&mut rest, key.src_port.to_be_bytes());
        put(&mut rest, key.dst_port.to_be_bytes());
        put(&mut rest, [key.protocol, key.version, self.end as u8, self.direction as u8]);
        for half in [&self.forward, &self.reverse] {
            // A shard counts no more than 2^32 - 1 packets in a record.
            put(&mut rest, (half.packets as u32).to_be_bytes());
            put(&mut rest, half.bytes.to_be_bytes());
            put(&mut rest, half.first_us.to_be_bytes());
            put(&mut rest, half.last_us.to_be_bytes());
            put(&mut rest, [half.tcp_flags]);
        }
        note
    }

    /// From a note; `None` for what [`FlowRecord::encode`] doesn't make.
    pub(super) fn decode(note: &[u8]) -> Option<Self> {
        if note.len() != NOTE_LEN {
            return None;
        }
        let rest = &mut &note[..];
        let (src, dst) = (u128::from_be_bytes(take(rest)?), u128::from_be_bytes(take(rest)?));
        let (src_port, dst_port) =
            (u16::from_be_bytes(take(rest)?), u16::from_be_bytes(take(rest)?));
        let [protocol, version, end, direction] = take(rest)?;
        let key = FlowKey { src, dst, src_port, dst_port, protocol, version, echo: Echo::None };
        let end = End::ALL.into_iter().find(|known| *known as u8 == end)?;
        let direction = match direction {
            1 => Direction::Initiator,
            2 => Direction::ReverseInitiator,
            _ => return None,
        };
        let (forward, reverse) = (take_half(rest)?, take_half(rest)?);
        matches!(version, 4 | 6).then_some(Self { key, forward, reverse, end, direction })
    }
}

pub(super) fn address(version: u8, bits: u128) -> IpAddr {
    match version {
        4 => Ipv4Addr::from_bits(bits as u32).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

fn put<const N: usize>(rest: &mut &mut [u8], bytes: [u8; N]) {
    if let Some((head, tail)) = std::mem::take(rest).split_first_chunk_mut::<N>() {
        *head = bytes;
        *rest = tail;
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_half(rest: &mut &[u8]) -> Option<Half> {
    Some(Half {
        packets: u32::from_be_bytes(take(rest)?).into(),
        bytes: u64::from_be_bytes(take(rest)?),
        first_us: u64::from_be_bytes(take(rest)?),
        last_us: u64::from_be_bytes(take(rest)?),
        tcp_flags: take::<1>(rest)?[0],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_all_of_a_record() {
        let half = |n: u64| Half {
            packets: n,
            bytes: n << 40,
            first_us: n + 2,
            last_us: u64::MAX - n,
            tcp_flags: n as u8,
        };
        let (src, dst) = (u128::MAX - 3, 7);
        let key = FlowKey {
            src,
            dst,
            src_port: 1,
            dst_port: 0xff02,
            protocol: 58,
            version: 6,
            echo: Echo::None,
        };
        for end in End::ALL {
            for direction in [Direction::Initiator, Direction::ReverseInitiator] {
                let (forward, reverse) = (half(0xffff_ffff), half(9));
                let record = FlowRecord { key, forward, reverse, end, direction };
                assert_eq!(FlowRecord::decode(&record.encode()), Some(record));
            }
        }
        assert_eq!(FlowRecord::decode(&[0; NOTE_LEN]), None);
        assert_eq!(FlowRecord::decode(&[]), None);
    }

    #[test]
    fn an_echo_seen_from_the_other_side_is_a_reply() {
        let key = FlowKey {
            src: 1,
            dst: 2,
            src_port: 77,
            dst_port: 0x0800,
            protocol: 1,
            version: 4,
            echo: Echo::Asks,
        };
        let (forward, reverse) = (Half::default(), Half { packets: 1, ..Half::default() });
        let record =
            FlowRecord { key, forward, reverse, end: End::Idle, direction: Direction::Initiator };
        let seen = record.reversed();
        assert_eq!((seen.key.src, seen.key.src_port, seen.key.dst_port), (2, 77, 0));
        assert_eq!((seen.forward.packets, seen.direction), (1, Direction::ReverseInitiator));
        assert_eq!((seen.as_initiator(), record.as_initiator()), (record, record));
    }
}
