//! An SA and a policy as a file describes them, before the two are combined.

use core::net::IpAddr;
use core::ops::Range;

use crate::sa::{Direction, Mode, Sa, Selector};

/// An SA and what is needed to find its direction and its policies.
pub(super) struct SaEntry {
    /// Its direction counts for nothing before it was found.
    pub(super) sa: Sa,
    /// As the file says it.
    pub(super) direction: Option<Direction>,
    /// By which policies of `ip xfrm` find it.
    pub(super) reqid: u32,
    /// When it was added, in the format of `ip -s xfrm state`: later is greater. Empty if missing.
    pub(super) added: String,
    /// The last number that was received, and the last that was sent.
    pub(super) sequences: [u64; 2],
    /// The traffic that it may carry if neither `sa.selectors` nor a policy defines it.
    pub(super) otherwise: Option<Selector>,
    /// Its place in the file.
    pub(super) at: Range<usize>,
}

/// The contents of a file of SAs.
#[derive(Default)]
pub(super) struct SaFile {
    pub(super) entries: Vec<SaEntry>,
    /// Names of those that were left out.
    pub(super) left_out: Vec<String>,
}

/// A policy.
pub(super) struct Asked {
    pub(super) selector: Selector,
    /// Whether it is for packets that leave; otherwise for those that came in.
    pub(super) is_out: bool,
    pub(super) priority: u32,
    pub(super) does: Does,
    /// Its place in the file.
    pub(super) at: Range<usize>,
}

/// The action of a policy.
pub(super) enum Does {
    Bypass,
    Discard,
    /// By the first SA of these names that there is.
    Named(Vec<String>),
    /// By the SA that fits.
    Template(Template),
}

/// The requirements of a policy for its SA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) spi: u32,
    pub(super) reqid: u32,
    pub(super) mode: Mode,
}

impl Template {
    /// Whether an SA in `direction` fits, for packets that `selector` matches.
    ///
    /// Zero addresses mean any address in a tunnel, and otherwise those of the packet. For received
    /// packets, zero means any reqid; for packets that leave it is a reqid like others.
    pub(super) fn fits(&self, entry: &SaEntry, direction: Direction, selector: &Selector) -> bool {
        let sa = &entry.sa;
        let address = |own: IpAddr, of_sa: IpAddr, prefix: warpline_packet::Prefix| {
            own == of_sa
                || own.is_unspecified()
                    && own.is_ipv4() == of_sa.is_ipv4()
                    && (self.mode == Mode::Tunnel || prefix.contains(of_sa))
        };
        let any_reqid = direction == Direction::In && self.reqid == 0;
        self.mode == sa.mode
            && (self.reqid == entry.reqid || any_reqid)
            && (self.spi == sa.spi || self.spi == 0)
            && address(self.src, sa.src, selector.src)
            && address(self.dst, sa.dst, selector.dst)
    }
}
