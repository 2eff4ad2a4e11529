//! Whether an input was captured before its checksums were filled in: on a host whose network card
//! does that.
//!
//! The first [`SAMPLE`] TCP packets decide for the whole input. A host leaves checksums to its card
//! if all of its checksums are wrong and it gets answers. If more than a tenth of the packets come
//! from such hosts, wrong checksums are believed. A host that mixes wrong checksums with right ones
//! is not one of them: it may send decoys. Segments without data and resets don't count, as some
//! systems always fill in their checksums.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use warpline_streams::Offload;

use warpline_packet::{Headers, Instant, LinkType};

use warpline_nf::Sampler;
use warpline_streams::flows::FlowPacket;

/// TCP packets that are looked at.
const SAMPLE: usize = 1000;
/// One in so many packets makes an input one without checksums.
const SHARE: u64 = 10;

/// Looks at packets and decides.
pub(super) struct Judge {
    decision: Arc<Offload>,
    packets: usize,
    hosts: HashMap<IpAddr, Host>,
}

/// Packets of a host by their checksums, and whether it got any.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    right: u64,
    wrong: u64,
    is_answered: bool,
}

impl Judge {
    /// One that decides anew.
    pub(super) fn new(decision: &Arc<Offload>) -> Self {
        decision.set(false);
        Self { decision: Arc::clone(decision), packets: 0, hosts: HashMap::new() }
    }

    /// Packets that count, and those of them of hosts that leave checksums to their cards.
    fn counts(&self) -> (u64, u64) {
        self.hosts.values().fold((0, 0), |(all, unfilled), host| {
            let is_unfilled = host.right == 0 && host.is_answered;
            let own = if is_unfilled { host.wrong } else { 0 };
            (all + host.right + host.wrong, unfilled + own)
        })
    }

    fn is_usual(&self) -> bool {
        let (all, unfilled) = self.counts();
        unfilled * SHARE > all
    }
}

impl Sampler for Judge {
    fn take(&mut self, frame: &[u8], link: LinkType, wire_len: usize) -> bool {
        let headers = Headers::parse(frame, link, wire_len);
        let packet = FlowPacket::new(frame, &headers, false, [Instant::ZERO; 2], 0);
        if let Some((packet, sent)) = packet.and_then(|packet| Some((packet, packet.sent()?))) {
            self.packets += 1;
            let [src, dst] = packet.addresses();
            if let Some(is_right) = sent {
                let host = self.hosts.entry(src).or_default();
                *(if is_right { &mut host.right } else { &mut host.wrong }) += 1;
            }
            self.hosts.entry(dst).or_default().is_answered = true;
        }
        self.packets < SAMPLE
    }

    fn decide(&mut self) {
        self.decision.set(self.is_usual());
    }

    fn reported(&self) -> Option<String> {
        let (all, unfilled) = self.counts();
        self.is_usual().then(|| {
            format!(
                "{unfilled} of {all} TCP packets at the start were captured before their checksums \
                 were filled in: TCP checksums are not checked (`checksum = \"check\"` checks them)"
            )
        })
    }
}
