//! The packets that Linux 6.18 delivered from the same fragments. They were written to a TUN device
//! of a network namespace and read from a raw socket, in seconds well below any timeout.

use super::super::{Overlap, Reassembly};
use super::fragments::Fragment;
use super::{Ingress, take};

/// A line is a plan and what came of it with IPv4 and with IPv6. A fragment of a plan is its offset
/// and length in bytes, `m` where more follow, and a letter that all its bytes are. A datagram is
/// shown as a letter of each eight bytes and its length.
const MEASURED: &str = include_str!("linux.txt");

/// Of a fragment like `16+5mb`.
fn fragment(version: u8, text: &str) -> Fragment {
    let (offset, rest) = text.split_once('+').unwrap();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    let (len, rest) = rest.split_at(digits);
    let letter = *rest.as_bytes().last().unwrap();
    let data = vec![letter; len.parse().unwrap()];
    Fragment::new(version, offset.parse().unwrap(), rest.starts_with('m') && rest.len() == 2, &data)
}

/// Of a datagram's data.
fn shown(data: &[u8]) -> String {
    let letters: String = data.chunks(8).map(|unit| char::from(unit[0])).collect();
    format!("{letters}:{}", data.len())
}

#[test]
fn delivers_what_linux_does() {
    for (number, line) in MEASURED.lines().enumerate() {
        let columns: Vec<&str> = line.split('|').collect();
        for (version, column) in [(4, 1), (6, 2)] {
            let mut reassembly = Reassembly::new(2, 2000).with_overlap(Overlap::Linux);
            let mut ingress = Ingress::new();
            let mut delivered = Vec::new();
            for text in columns[0].split(' ') {
                let fragment = fragment(version, text);
                if fragment.offset == 0 && !fragment.more {
                    // It is no fragment, or one alone (RFC 6946).
                    delivered.push(shown(&fragment.data));
                    continue;
                }
                let packet = ingress.packet(&fragment.frame(), fragment.link.kind(), 0, 0);
                if let Ok(Some(frame)) = take(&mut reassembly, &packet) {
                    delivered.push(shown(&frame[fragment.head_len()..]));
                }
            }
            assert_eq!(delivered.join(","), columns[column], "line {}: {line}", number + 1);
        }
    }
    assert!(MEASURED.lines().count() >= 300);
}

/// Fragments with ECN and without do not belong together (RFC 3168, 5.3).
#[test]
fn congestion_marks_at_odds_discard_a_datagram() {
    for version in [4, 6] {
        for ecns in 0..16_u8 {
            let mut reassembly = Reassembly::new(2, 2000).with_overlap(Overlap::Linux);
            let mut ingress = Ingress::new();
            let mut reported = None;
            for (at, ecn) in [(0, ecns & 3), (1, ecns >> 2)] {
                let data = [b'a'; 8];
                let fragment = Fragment { ecn, ..Fragment::new(version, 8 * at, at == 0, &data) };
                let packet = ingress.packet(&fragment.frame(), fragment.link.kind(), 0, 0);
                reported = take(&mut reassembly, &packet).ok().flatten();
            }
            let (one, other) = (ecns & 3, ecns >> 2);
            assert_eq!(reported.is_some(), (one == 0) == (other == 0), "{one} {other}");
        }
    }
}
