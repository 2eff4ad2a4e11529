//! What the demo capture holds, counted by kind of traffic.

/// What a frame of the demo capture is there for. Each has one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// HTTP and TLS.
    Web,
    /// Name queries and answers over UDP.
    Dns,
    /// Long TCP transfers of full segments.
    Bulk,
    /// RTP: one packet each 20 ms and direction.
    Voip,
    /// ICMP and ICMPv6 echo.
    Echo,
    /// Probes with 1 to 3 hops left, and IPv6 answers to those that die behind the chain.
    Traceroute,
    /// Clock queries and answers.
    Ntp,
    /// SYN and UDP probes of ports in the DMZ where nothing listens.
    Scan,
    /// Answers to 203.0.113.1 that nobody there asked for.
    Backscatter,
    /// From outside, with a source address of the inside.
    Spoofed,
    /// To where no route leads.
    NoRoute,
    /// IPv4 and IPv6 fragments.
    Fragment,
    /// IPv6 with extension headers other than that of a real fragment.
    Extension,
    /// With one 802.1Q tag.
    Vlan,
    /// With an 802.1ad tag around an 802.1Q tag.
    QinQ,
    /// ARP and LLDP.
    NonIp,
    /// Headers that are cut or lie about lengths.
    Malformed,
    /// HTTP to the balanced shop, and what its backends answer.
    Shop,
    /// Text that the branch office fetches from the file server.
    Branch,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub(crate) const ALL: [Self; 19] = [
        Self::Web,
        Self::Dns,
        Self::Bulk,
        Self::Voip,
        Self::Echo,
        Self::Traceroute,
        Self::Ntp,
        Self::Scan,
        Self::Backscatter,
        Self::Spoofed,
        Self::NoRoute,
        Self::Fragment,
        Self::Extension,
        Self::Vlan,
        Self::QinQ,
        Self::NonIp,
        Self::Malformed,
        Self::Shop,
        Self::Branch,
    ];

    /// The name under which it is shown.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Dns => "dns",
            Self::Bulk => "bulk",
            Self::Voip => "voip",
            Self::Echo => "echo",
            Self::Traceroute => "traceroute",
            Self::Ntp => "ntp",
            Self::Scan => "scan",
            Self::Backscatter => "backscatter",
            Self::Spoofed => "spoofed",
            Self::NoRoute => "no-route",
            Self::Fragment => "fragment",
            Self::Extension => "extension",
            Self::Vlan => "vlan",
            Self::QinQ => "qinq",
            Self::NonIp => "non-ip",
            Self::Malformed => "malformed",
            Self::Shop => "shop",
            Self::Branch => "branch",
        }
    }
}

/// Packets, and bytes of their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Number of frames.
    pub(crate) packets: u64,
    /// Bytes of these frames, without what the file adds.
    pub(crate) bytes: u64,
}

/// Packets and bytes of the capture, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    counts: [Count; Kind::ALL.len()],
}

impl Summary {
    /// What there is of each kind.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Kind, Count)> {
        Kind::ALL.into_iter().zip(self.counts)
    }

    /// What there is in all.
    pub(crate) fn total(&self) -> Count {
        self.counts.iter().fold(Count::default(), |all, count| Count {
            packets: all.packets + count.packets,
            bytes: all.bytes + count.bytes,
        })
    }

    /// Counts a frame of `len` bytes.
    pub(super) fn count(&mut self, kind: Kind, len: usize) {
        let count = &mut self.counts[kind as usize];
        count.packets += 1;
        count.bytes += len as u64;
    }
}
