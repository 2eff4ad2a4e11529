//! The two ends that name a connection, whichever of them sends.

use warpline_packet::wire::ip_protocol;
use warpline_tables::keyed::HashKey;

/// Both ends of a connection, in an order that both directions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    /// In halves, which need less alignment than the whole.
    low: [u64; 2],
    high: [u64; 2],
    low_port: u16,
    high_port: u16,
    protocol: u8,
    version: u8,
}

impl FlowKey {
    /// Few products, as it is asked for three times for a packet.
    #[inline]
    pub(super) fn hash(&self, key: HashKey) -> u32 {
        let Self { low, high, low_port, high_port, protocol, version } = *self;
        let address = |[upper, lower]: [u64; 2]| u128::from(upper) << 64 | u128::from(lower);
        let ports = u64::from(low_port) << 16 | u64::from(high_port);
        let kind = u64::from(protocol) << 8 | u64::from(version);
        key.of([address(low), address(high)], ports << 16 | kind)
    }

    /// The key of a packet, and whether its source is the low end. `src` and `dst` are address and
    /// port; 0 where the protocol has no ports.
    pub(super) fn of(
        version: u8,
        protocol: u8,
        src: (u128, u16),
        dst: (u128, u16),
    ) -> (Self, bool) {
        let from_low = src <= dst;
        let (low, high) = if from_low { (src, dst) } else { (dst, src) };
        let halves = |address: u128| [(address >> 64) as u64, address as u64];
        let (low, low_port, high, high_port) = (halves(low.0), low.1, halves(high.0), high.1);
        (Self { low, high, low_port, high_port, protocol, version }, from_low)
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == ip_protocol::TCP
    }

    /// The version and the address of who opened the connection.
    pub(super) fn source(&self, opened_by_low: bool) -> (u8, u128) {
        let [upper, lower] = if opened_by_low { self.low } else { self.high };
        (self.version, u128::from(upper) << 64 | u128::from(lower))
    }

    /// The key of an ICMP echo, and whether the end that asks is the low one: two ends that ask
    /// each other by the same identifier have two connections.
    pub(super) fn of_echo(
        version: u8,
        protocol: u8,
        asks: u128,
        answers: u128,
        ident: u16,
    ) -> (Self, bool) {
        let (key, asks_low) = Self::of(version, protocol, (asks, ident), (answers, ident));
        (Self { high_port: asks_low.into(), ..key }, asks_low)
    }
}
