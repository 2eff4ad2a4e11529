//! Which inputs were captured before their checksums were filled in.

use std::sync::Arc;

use warpline_packet::LinkType;

use super::super::offload::Judge;
use super::frames::{ACK, Frame, RST, SYN, Talk};
use warpline_nf::Sampler;
use warpline_streams::Offload;

/// Of connections from so many clients: what each end does with checksums (of the n-th frame, from
/// 0), and whether wrong ones are believed then.
type Case = (&'static str, usize, fn(usize, usize) -> bool, bool);

const CASES: &[Case] = &[
    ("all right", 40, |_, _| false, false),
    ("the capturing host is the client", 40, |end, _| end == 0, true),
    ("it is the server", 40, |end, _| end == 1, true),
    ("both are on one machine", 40, |_, _| true, true),
    ("a few packets only", 1, |end, _| end == 0, true),
    ("decoys in a small capture", 1, |end, at| end == 0 && at % 3 == 1, false),
    ("mostly decoys", 40, |end, at| end == 0 && at > 2, false),
];

fn judged(frames: impl IntoIterator<Item = Frame>) -> (bool, usize) {
    let decision = Arc::new(Offload::default());
    let mut judge = Judge::new(&decision);
    let mut taken = 0;
    for frame in frames {
        let bytes = frame.bytes();
        taken += 1;
        if !judge.take(&bytes, LinkType::ETHERNET, bytes.len()) {
            break;
        }
    }
    assert!(!decision.is_usual(), "before it is decided");
    judge.decide();
    assert_eq!(judge.reported().is_some(), decision.is_usual());
    (decision.is_usual(), taken)
}

fn talk(client: u8, is_v6: bool) -> Vec<Frame> {
    let like = Frame { hosts: [client, 2], is_v6, ..Frame::udp(b"") };
    let mut talk = Talk::new(&like);
    for _ in 0..5 {
        talk.client(b"question");
        talk.server(b"answer");
    }
    talk.frames
}

#[test]
fn hosts_decide() {
    for &(name, clients, is_wrong, expected) in CASES {
        for is_v6 in [false, true] {
            let frames = (0..clients).flat_map(|client| talk(10 + client as u8, is_v6));
            let frames = frames.enumerate().map(|(at, frame)| {
                let end = usize::from(frame.hosts[0] == 2);
                let own = at % 13;
                Frame { is_corrupt: is_wrong(end, own), ..frame }
            });
            assert_eq!(judged(frames).0, expected, "{name}, {is_v6}");
        }
    }
}

#[test]
fn whom_nobody_answers_decides_nothing() {
    let spoofed =
        (0..200).map(|at| Frame { hosts: [at, 2], is_corrupt: true, ..Frame::tcp(SYN, b"") });
    assert!(!judged(spoofed).0);
    // Nor do resets and what has no data.
    let bare = [ACK, RST, RST | ACK].map(|flags| Frame::tcp(flags, b""));
    let wrong = bare.map(|frame| Frame { is_corrupt: true, ..frame });
    assert!(!judged(wrong.into_iter().chain([Frame::tcp(ACK, b"x").back()])).0);
}

#[test]
fn a_thousand_packets_are_enough() {
    let (_, taken) = judged((0..200).flat_map(|client| talk(client, false)));
    assert_eq!(taken, 1000);
    let (_, taken) = judged(vec![Frame::udp(b"x"); 3000]);
    assert_eq!(taken, 3000, "no TCP");
}
