//! A function without state that makes every frame longer, at both ends where it can.

use warpline_nf::{Function, Growth};
use warpline_packet::{Access, Batch, FieldSet, LinkType, PacketMut, ReadWrite, Reason};

/// The end of every frame.
pub(crate) const TRAILER: [u8; 3] = [0xee, 0x0f, 0xf0];
const TAG: [u8; 4] = [0x81, 0x00, 0x00, 0x2a];
const OUTER_LEN: usize = 20;

/// Puts a VLAN tag in Ethernet frames and an IPv4 header before IPv4 packets without a link header;
/// puts [`TRAILER`] after every frame.
pub(crate) struct Grow {
    access: Access,
}

impl Grow {
    pub(crate) fn new() -> Self {
        Self { access: Access::run_only(ReadWrite::new(FieldSet::ALL, FieldSet::ALL)) }
    }
}

impl Function for Grow {
    fn access(&self) -> &Access {
        &self.access
    }

    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(work);
    }

    fn growth(&self) -> Growth {
        Growth { head: OUTER_LEN, tail: TRAILER.len() }
    }
}

fn work(packet: &mut PacketMut<'_>) {
    let head = head_of(packet.link(), packet.frame());
    let head = head.bytes();
    if !packet.reshape(-(head.len() as isize), TRAILER.len() as isize) {
        packet.drop(Reason(0));
        return;
    }
    let frame = packet.frame_mut();
    let end = frame.len() - TRAILER.len();
    frame[end..].copy_from_slice(&TRAILER);
    if head == TAG {
        frame.copy_within(4..16, 0);
        frame[12..16].copy_from_slice(head);
    } else {
        frame[..head.len()].copy_from_slice(head);
    }
    packet.reparse();
}

fn head_of(link: LinkType, frame: &[u8]) -> Head {
    match link {
        LinkType::ETHERNET if frame.len() >= 14 => Head::new(&TAG),
        LinkType::IPV4 if frame.len() < 60_000 => {
            let mut outer = [0; OUTER_LEN];
            outer[0] = 0x45;
            outer[2..4].copy_from_slice(&((OUTER_LEN + frame.len()) as u16).to_be_bytes());
            outer[8] = 64;
            outer[9] = 4;
            outer[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
            Head::new(&outer)
        }
        _ => Head::new(&[]),
    }
}

/// A few bytes without an allocation.
struct Head([u8; OUTER_LEN], usize);

impl Head {
    fn new(bytes: &[u8]) -> Self {
        let mut head = [0; OUTER_LEN];
        head[..bytes.len()].copy_from_slice(bytes);
        Self(head, bytes.len())
    }

    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// The frame that [`Grow`] makes of `frame`, written independently: for the tests.
pub(crate) fn expected(link: LinkType, frame: &[u8]) -> Vec<u8> {
    let mut grown = match link {
        LinkType::ETHERNET if frame.len() >= 14 => {
            [&frame[..12], &[0x81, 0, 0, 0x2a], &frame[12..]].concat()
        }
        LinkType::IPV4 if frame.len() < 60_000 => {
            let [high, low] = (20 + frame.len() as u16).to_be_bytes();
            let outer = [0x45, 0, high, low, 0, 0, 0, 0, 64, 4, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
            [&outer[..], frame].concat()
        }
        _ => frame.to_vec(),
    };
    grown.extend([0xee, 0x0f, 0xf0]);
    grown
}
