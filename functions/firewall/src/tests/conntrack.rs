//! TCP as Linux tracks it: conversations with the verdicts that a kernel gave, from
//! `tools/conntrack`.

use super::{firewall, reported};
use warpline_testkit::conntrack::{Answer, Mode, Seen, Tracked};
use warpline_verify::Input;

const RECORDED: &str = include_str!("conntrack.txt");

/// A recorded conversation.
struct Conversation<'a> {
    seed: &'a str,
    loose: bool,
    window: &'a str,
    segments: Vec<Segment<'a>>,
}

struct Segment<'a> {
    line: &'a str,
    forth: bool,
    seen: Seen,
    /// Linux lets it pass.
    passes: bool,
}

fn read(text: &str) -> Vec<Conversation<'_>> {
    let mut all: Vec<Conversation<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["conversation", seed, loose, window] => {
                let loose = loose == "loose";
                all.push(Conversation { seed, loose, window, segments: Vec::new() });
            }
            [way, flags, seq, ack, window, len, options, end] => {
                let options = if options == "-" { Vec::new() } else { hex(options) };
                let [seq, ack, len] = [seq, ack, len].map(|number| number.parse().unwrap());
                let (flags, window) = (hex(flags)[0], window.parse().unwrap());
                let seen = Seen { flags, seq, ack, window, len, options, is_fragment: false };
                let own = Segment { line, forth: way == ">", seen, passes: end == "pass" };
                all.last_mut().expect("a conversation first").segments.push(own);
            }
            _ => panic!("{line:?}"),
        }
    }
    all
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

fn frame(segment: &Segment<'_>) -> Input {
    let Seen { flags, seq, ack, window, len, options, .. } = &segment.seen;
    let mut ends = [([10, 0, 0, 5], 4000u16), ([198, 51, 100, 7], 80)];
    if !segment.forth {
        ends.reverse();
    }
    let mut tcp = ends.map(|(_, port)| port.to_be_bytes()).concat();
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    tcp.extend([((20 + options.len() as u8) / 4) << 4, *flags]);
    tcp.extend(window.to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(options);
    tcp.resize(tcp.len() + *len as usize, 0);
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + tcp.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(ends.map(|(address, _)| address).concat());
    frame.extend(tcp);
    Input::at(0, &frame)
}

/// Whether the oracle of the tests lets each segment pass.
fn oracle(conversation: &Conversation<'_>) -> Vec<bool> {
    let liberal = conversation.window == "liberal";
    let mode = Mode { liberal, loose: conversation.loose, one_sided: false };
    let mut tracked: Option<(Tracked, bool)> = None;
    let mut judge = |Segment { forth, seen, .. }: &Segment<'_>| {
        if let Some((own, opener)) = &mut tracked {
            match own.see(seen, forth == opener, mode) {
                Answer::Followed | Answer::Ignored => return true,
                Answer::Invalid | Answer::Outside => return false,
                Answer::Forgotten => {
                    tracked = None;
                    return true;
                }
                Answer::Anew => {}
            }
        }
        tracked = Tracked::new(seen, mode).map(|(own, _)| (own, *forth));
        tracked.is_some()
    };
    conversation.segments.iter().map(&mut judge).collect()
}

fn own(conversation: &Conversation<'_>) -> Vec<bool> {
    let Conversation { loose, window, .. } = conversation;
    let keys = format!("established = true\ntcp_loose = {loose}\ntcp_window = '{window}'\n");
    let mut harness = firewall("accept tcp\n", &keys);
    let inputs: Vec<Input> = conversation.segments.iter().map(frame).collect();
    harness.process(&inputs).iter().map(|outcome| reported(outcome) == "accept").collect()
}

/// Where verdicts differ from Linux's, if they do.
fn differ(name: &str, conversation: &Conversation<'_>, verdicts: &[bool]) -> Option<String> {
    let pairs = conversation.segments.iter().zip(verdicts).enumerate();
    let (at, (segment, _)) = pairs.into_iter().find(|(_, (own, is))| own.passes != **is)?;
    Some(format!("{name}, seed {}, segment {at}: {}", conversation.seed, segment.line))
}

#[test]
fn segments_pass_as_they_pass_linux() {
    let all = read(RECORDED);
    let differing = all.iter().flat_map(|conversation| {
        let own = differ("firewall", conversation, &own(conversation));
        own.into_iter().chain(differ("oracle", conversation, &oracle(conversation)))
    });
    let differing: Vec<String> = differing.collect();
    let (count, all) = (differing.len(), all.len());
    assert!(differing.is_empty(), "{count} of {all} differ\n{}", differing.join("\n"));
}
