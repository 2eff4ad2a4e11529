//! Conversations: what hosts inside, clients of services and strangers send, seeded; and what comes
//! back to them through a chain.

use std::collections::BTreeSet;
use std::net::IpAddr;

use warpline_packet::LinkType;

use super::frames::{Input, MAGIC, Random, START_NANOS, spoil};
use super::ports::Sent;
use super::wire::{ACK, Body, FIN, Packet, RST, SYN, answer, error, frame};

/// So long an answer takes.
const ANSWER_NANOS: u64 = 3_000_000;
/// Requests come at whole multiples of this; answers and errors don't.
const GRID_NANOS: u64 = 1000;

/// Open conversations.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    random: Random,
    nanos: u64,
    /// Begun so far.
    begun: u16,
    talkers: Vec<Talker>,
    payload_max: usize,
}

/// One side of a conversation.
#[derive(Clone, Debug)]
struct Talker {
    number: u16,
    src: IpAddr,
    dst: IpAddr,
    /// With the ports; flags are of each packet.
    body: Body,
    fragmented: bool,
    subject: Subject,
    link: LinkType,
    vlan: bool,
    said: u32,
    says: u32,
    /// Of the next TCP segment.
    seq: u32,
}

/// The subject of a conversation.
#[derive(Clone, Copy, Debug)]
enum Subject {
    /// Words, and where they belong.
    Words,
    /// Pages that others send as well, word for word.
    Pages,
    Noise,
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Talk {
    pub(crate) fn new(seed: u64, talkers: usize, payload_max: usize) -> Self {
        let (random, nanos) = (Random(seed), START_NANOS);
        let mut talk = Self { random, nanos, begun: 0, talkers: Vec::new(), payload_max };
        talk.talkers = (0..talkers).map(|_| talk.begin()).collect();
        talk
    }

    /// At least `count` frames.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Input> {
        let mut inputs = Vec::with_capacity(count + 1);
        while inputs.len() < count {
            self.say(&mut inputs);
        }
        inputs
    }

    fn begin(&mut self) -> Talker {
        let (number, below) = (self.begun, &mut |n| self.random.below(n));
        self.begun += 1;
        let near = 30_000 + number % 20_000;
        let host = 1 + below(40);
        let remote = [1, 2, 3, 130, 200, 241, 249, 253][below(8)];
        let (inside, client) = (format!("10.1.0.{host}"), format!("198.51.100.{}", 1 + below(60)));
        let (inside6, client6) = (format!("fd00:1::{host:x}"), format!("2001:db8:f::{host:x}"));
        let remote4 = format!("198.51.100.{remote}");
        let web = [80, 443, 22][below(3)];
        let tcp = |dst| Body::Tcp { src: near, dst, flags: 0, seq: 0 };
        let udp = |dst| Body::Udp { src: near, dst };
        let kind = below(20);
        let (src, dst, body): (&str, &str, Body) = match kind {
            0..4 => (&inside[..], &remote4[..], tcp(web)),
            4..6 => (&inside, &remote4, udp(53)),
            6 => (&inside, &remote4, Body::Echo { ident: near }),
            7 => (&inside6, "2001:db8:f::7", tcp(443)),
            8 => (&inside6, "2001:db8:f::8", udp(53)),
            9 => (&inside6, "2001:db8:f::9", Body::Echo { ident: near }),
            10..13 => (&client, "192.0.2.10", tcp(web)),
            13 => (&client, "192.0.2.10", udp(53)),
            14 => (&client6, "2001:db8::10", tcp(80)),
            15 => (&client, &remote4, udp(5000)),
            16 => (&client, "203.0.113.1", udp(1024 + near % 500)),
            17 => (&inside, "203.0.113.2", tcp(80)),
            18 => (&inside, "239.1.1.1", udp(5353)),
            _ => (&inside, &remote4, Body::Other([50, 47, 108][below(3)])),
        };
        Talker {
            number,
            src: ip(src),
            dst: ip(dst),
            body,
            fragmented: below(12) == 0,
            subject: [Subject::Words, Subject::Words, Subject::Pages, Subject::Noise][below(4)],
            link: match number % 8 {
                3 => LinkType::RAW,
                5 => LinkType::LINUX_SLL,
                _ => LinkType::ETHERNET,
            },
            vlan: number % 8 == 6,
            said: 0,
            says: 2 + below(14) as u32,
            seq: 1,
        }
    }

    /// The next packet of some conversation.
    fn say(&mut self, inputs: &mut Vec<Input>) {
        let pause = if self.random.below(700) == 0 { 90_000_000_000 } else { 40_000_000 };
        self.nanos += self.random.next() % pause / GRID_NANOS * GRID_NANOS + GRID_NANOS;
        if self.random.below(80) == 0 {
            let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0, 1, 8, 0, 6, 4, 0, 1]];
            inputs.push(self.input(arp.concat(), LinkType::ETHERNET));
            return;
        }
        let at = self.random.below(self.talkers.len());
        let mut talker = self.talkers[at].clone();
        let packet = self.packet(&talker);
        let packets = if talker.fragmented { packet.fragments() } else { vec![packet.bytes()] };
        for packet in packets {
            let bytes = frame(talker.link, talker.vlan, &packet);
            inputs.push(self.input(bytes, talker.link));
            self.nanos += GRID_NANOS;
        }
        // No receiver takes bytes of a SYN as data.
        talker.seq += if talker.said == 0 { 1 } else { packet.payload.len() as u32 };
        talker.said += 1;
        self.talkers[at] = if talker.said == talker.says { self.begin() } else { talker };
    }

    fn input(&self, bytes: Vec<u8>, link: LinkType) -> Input {
        let (nanos, wire_len) = (self.nanos, bytes.len() as u32);
        Input { bytes, nanos, wire_len, link, interface: 0 }
    }

    fn packet(&mut self, talker: &Talker) -> Packet {
        let last = talker.said + 1 == talker.says;
        let mut body = talker.body;
        if let Body::Tcp { flags, seq, .. } = &mut body {
            *seq = talker.seq;
            *flags = match talker.said {
                0 => SYN,
                _ if last && talker.number.is_multiple_of(5) => RST,
                _ if last => FIN | ACK,
                _ => ACK,
            };
        }
        let ttl = if self.random.below(30) == 0 { 1 } else { 64 };
        let ident = self.random.next() as u16;
        let payload = self.payload(talker);
        Packet { src: talker.src, dst: talker.dst, ttl, ident, body, payload }
    }

    fn payload(&mut self, talker: &Talker) -> Vec<u8> {
        const WORDS: [&str; 8] =
            ["the ", "packet ", "that ", "was ", "sent ", "came ", "back ", "again.\n"];
        if let Subject::Pages = talker.subject {
            let page = self.random.below(40);
            return format!("page {page:03}: the same words to everyone. ")
                .repeat(2 + page % 7)
                .into();
        }
        let (number, said) = (talker.number.to_be_bytes(), talker.said.to_be_bytes());
        let mut payload = [&MAGIC[..], &number, &said].concat();
        let len = [10, 64, 200, 200, 400, self.payload_max][self.random.below(6)];
        while payload.len() < len.min(self.payload_max) {
            match talker.subject {
                Subject::Noise => payload.extend(self.random.next().to_be_bytes()),
                _ => payload.extend(WORDS[self.random.below(8)].bytes()),
            }
        }
        payload
    }
}

/// `inputs` with replies: for each packet that `through` sends, given the packets so far, an answer
/// or now and then an ICMP error. Repeated `rounds` times, so that packets that an answer allows
/// are answered too.
pub(crate) fn converse(
    mut inputs: Vec<Input>,
    rounds: usize,
    through: impl Fn(&[Input]) -> Vec<Sent>,
) -> Vec<Input> {
    let mut answered = BTreeSet::new();
    for _ in 0..rounds {
        let sent = through(&inputs);
        let fresh = sent
            .iter()
            .filter(|sent| sent.nanos.is_multiple_of(GRID_NANOS) && answered.insert(sent.nanos));
        let replies: Vec<Input> = fresh.filter_map(reply).collect();
        inputs.extend(replies);
        inputs.sort_by_key(|input| input.nanos);
    }
    inputs
}

/// The reply to a packet that was sent.
fn reply(sent: &Sent) -> Option<Input> {
    let mut nanos = sent.nanos + ANSWER_NANOS + 1;
    let bytes = match sent.nanos / GRID_NANOS % 13 {
        0 => None,
        1 => {
            nanos += 1;
            let v6 = error(&sent.bytes, sent.link, ip("2001:db8:f::fe"), 80);
            v6.or_else(|| error(&sent.bytes, sent.link, ip("198.51.100.5"), 36))
        }
        _ => answer(&sent.bytes, sent.link),
    };
    let mut bytes = bytes?;
    if let Some(at) = bytes.windows(4).position(|window| window == MAGIC) {
        // The other direction is a flow of its own; what is quoted is of none.
        match nanos % GRID_NANOS {
            1 => bytes[at + 4] |= 0x80,
            _ => bytes[at..at + 4].fill(0),
        }
    }
    let wire_len = bytes.len() as u32;
    Some(Input { bytes, nanos, wire_len, link: sent.link, interface: 1 })
}

/// `inputs` that are of no flow.
pub(crate) fn without_flows(inputs: &[Input]) -> Vec<Input> {
    let mut inputs = inputs.to_vec();
    for input in &mut inputs {
        if let Some(at) = input.bytes.windows(4).position(|window| window == MAGIC) {
            input.bytes[at..at + 4].fill(0);
        }
    }
    inputs
}

/// `inputs` with some of `copies`, each after its original, `percent` of each hundred: most of them
/// spoiled.
pub(crate) fn with_odd(
    inputs: Vec<Input>,
    copies: Vec<Input>,
    seed: u64,
    percent: usize,
) -> Vec<Input> {
    assert_eq!(inputs.len(), copies.len());
    let mut random = Random(seed);
    let mut all = Vec::with_capacity(inputs.len() * 2);
    for (input, mut copy) in inputs.into_iter().zip(copies) {
        all.push(input);
        if random.below(100) < percent {
            if random.below(5) > 0 {
                spoil(&mut random, &mut copy);
            }
            all.push(copy);
        }
    }
    all
}
