//! Several sources as one, in the order of their frames' timestamps.

use core::time::Duration;
use std::os::fd::RawFd;

use warpline_packet::{Instant, LinkType};

use crate::port::{
    Burst, FRAME_LEN_MAX, Frame, Given, InterfaceNames, Live, Next, Source, SourceError,
};

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// By its number, from 0 over the whole capture.
    Number(u16),
    /// By its name.
    Name(String),
}

impl core::fmt::Display for Wanted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// A source and the ports that it feeds.
pub struct PortSource {
    source: Box<dyn Source>,
    /// Its name in messages.
    name: String,
    /// The port that an interface feeds. `None` takes all interfaces.
    ports: Vec<(Option<Wanted>, u16)>,
}

impl PortSource {
    /// All frames of `source`, called `name` in messages, come in at port `port`.
    pub fn whole(source: Box<dyn Source>, name: impl Into<String>, port: u16) -> Self {
        Self { source, name: name.into(), ports: vec![(None, port)] }
    }

    /// Frames of these interfaces come in at these ports; those of other interfaces are skipped.
    pub fn by_interface(
        source: Box<dyn Source>,
        name: impl Into<String>,
        ports: impl IntoIterator<Item = (Wanted, u16)>,
    ) -> Self {
        let ports = ports.into_iter().map(|(wanted, port)| (Some(wanted), port)).collect();
        Self { source, name: name.into(), ports }
    }
}

/// Frames of several sources in the order of their timestamps.
///
/// Of frames with equal timestamps, the one of the feed that was listed first comes first. A source
/// whose own timestamps go backwards keeps its order. A frame is copied once: each source's last
/// burst is held, of [`FRAME_LEN_MAX`] bytes. While a source has none for now, the others wait for
/// it, as its next frame may be the earliest. If one of them is [`Live`], none waits: the frames at
/// hand continue, the earliest first.
pub struct Merged {
    legs: Vec<Leg>,
    /// Frames of each leg that were given last.
    given: Vec<usize>,
    names: InterfaceNames,
    is_live: bool,
    ended: bool,
}

/// A source with its frames that wait.
struct Leg {
    source: Box<dyn Source>,
    name: String,
    interfaces: Interfaces,
    bytes: Vec<u8>,
    heads: Vec<Head>,
    /// Frames of interfaces that feed no port.
    skipped: u64,
    state: SourceState,
}

/// The interfaces of a source and the ports that they feed.
struct Interfaces {
    ports: Vec<(Option<Wanted>, u16)>,
    names: InterfaceNames,
    /// By interface, the port that it feeds, as far as frames came from it.
    known: Vec<Option<Known>>,
}

/// An interface that gave a frame.
#[derive(Clone, Copy)]
enum Known {
    Port(u16),
    NoPort,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceState {
    Open,
    Idle(Duration),
    Ended,
}

/// A frame that waits.
#[derive(Clone, Copy)]
struct Head {
    start: usize,
    len: usize,
    timestamp: Instant,
    wire_len: u32,
    link: LinkType,
    port: u16,
}

/// Bursts without a frame for any port that are read before others get their turn.
const SKIPPED_BURSTS_MAX: usize = 64;

impl Merged {
    /// The frames of `feeds`, whose interfaces are called as `names` has the ports.
    pub fn new(feeds: Vec<PortSource>, names: impl IntoIterator<Item = String>) -> Self {
        let interfaces = InterfaceNames::default();
        names.into_iter().for_each(|name| interfaces.push(Some(name)));
        let mut legs: Vec<Leg> = feeds.into_iter().map(Leg::new).collect();
        let given = vec![0; legs.len()];
        let is_live = legs.iter_mut().any(|leg| leg.source.live().is_some());
        Self { legs, given, names: interfaces, is_live, ended: false }
    }

    /// Brings every source's next frame here. Says what to do where that can't be.
    fn prepare(&mut self) -> Result<Option<Given>, SourceError> {
        if self.ended {
            return Ok(Some(Given::End));
        }
        let mut wait = None;
        for (leg, given) in self.legs.iter_mut().zip(&mut self.given) {
            leg.forget(core::mem::take(given));
            if let Err(error) = leg.fill() {
                self.ended = true;
                let (of, error) = (leg.name.clone(), Box::new(error));
                return Err(SourceError::Of { of, error });
            }
            if let (SourceState::Idle(own), true) = (leg.state, leg.heads.is_empty()) {
                wait = Some(wait.map_or(own, |wait: Duration| wait.min(own)));
            }
        }
        let has_none = self.legs.iter().all(|leg| leg.heads.is_empty());
        if let Some(wait) = wait.filter(|_| has_none || !self.is_live) {
            return Ok(Some(Given::Idle(wait)));
        }
        self.ended = has_none;
        Ok(self.ended.then_some(Given::End))
    }
}

/// The leg whose next frame is the earliest; none where a source has to be asked first.
fn earliest(legs: &[Leg], given: &[usize], is_live: bool) -> Option<usize> {
    let mut first: Option<(Instant, usize)> = None;
    for (number, (leg, &given)) in legs.iter().zip(given).enumerate() {
        match leg.heads.get(given) {
            None if is_live || leg.state == SourceState::Ended => {}
            None => return None,
            Some(head) if first.is_none_or(|(earliest, _)| head.timestamp < earliest) => {
                first = Some((head.timestamp, number));
            }
            Some(_) => {}
        }
    }
    first.map(|(_, number)| number)
}

impl Source for Merged {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        match self.prepare()? {
            Some(Given::Idle(wait)) => return Ok(Next::Idle(wait)),
            Some(_) => return Ok(Next::End),
            None => {}
        }
        let Some(number) = earliest(&self.legs, &self.given, self.is_live) else {
            return Ok(Next::Idle(Duration::ZERO));
        };
        self.given[number] = 1;
        Ok(Next::Frame(self.legs[number].frame(0)))
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        if let Some(given) = self.prepare()? {
            return Ok(given);
        }
        let Self { legs, given, is_live, .. } = self;
        let legs: &'a [Leg] = legs;
        let mut room = FRAME_LEN_MAX;
        while let Some(number) = earliest(legs, given, *is_live) {
            let frame = legs[number].frame(given[number]);
            // The first one always fits.
            if frame.bytes.len() > room || !burst.push(frame) {
                break;
            }
            room -= frame.bytes.len();
            given[number] += 1;
        }
        Ok(Given::Frames)
    }

    fn warnings(&self) -> Vec<String> {
        let of = |leg: &Leg| {
            let mut all = leg.source.warnings();
            if leg.skipped > 0 {
                all.push(format!("{} frames of interfaces without a port", leg.skipped));
            }
            all.into_iter().map(|why| format!("{}: {why}", leg.name)).collect::<Vec<_>>()
        };
        self.legs.iter().flat_map(of).collect()
    }

    fn finish(&mut self) -> Vec<String> {
        let of = |leg: &mut Leg| {
            let mut all = leg.source.finish();
            all.extend(leg.missing());
            all.into_iter().map(|why| format!("{}: {why}", leg.name)).collect::<Vec<_>>()
        };
        self.legs.iter_mut().flat_map(of).collect()
    }

    /// One that can wait makes the others wait with it, so that none loses frames.
    fn drops_when_full(&self) -> bool {
        !self.legs.is_empty() && self.legs.iter().all(|leg| leg.source.drops_when_full())
    }

    fn loses_when_full(&self) -> bool {
        self.legs.iter().any(|leg| leg.source.loses_when_full())
    }

    fn is_paced(&self) -> bool {
        !self.legs.is_empty() && self.legs.iter().all(|leg| leg.source.is_paced())
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        for Leg { source, interfaces, .. } in &mut self.legs {
            source.take_lost(&mut |interface, count| {
                interfaces.port(interface).into_iter().for_each(|port| lost(port, count));
            });
        }
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        if self.is_live { Some(self) } else { None }
    }

    fn progress(&self) -> Option<f64> {
        let known = self.legs.iter().filter_map(|leg| leg.source.progress());
        let (sum, count) = known.fold((0.0, 0), |(sum, count), own| (sum + own, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    fn interfaces(&self) -> InterfaceNames {
        self.names.clone()
    }
}

impl Live for Merged {
    fn descriptors(&mut self, all: &mut Vec<RawFd>) {
        let lives = self.legs.iter_mut().filter_map(|leg| leg.source.live());
        lives.for_each(|live| live.descriptors(all));
    }

    fn now(&mut self) -> Instant {
        let mut lives = self.legs.iter_mut().filter_map(|leg| leg.source.live());
        lives.next().map_or(Instant::ZERO, |live| live.now())
    }

    fn losses(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        for leg in &mut self.legs {
            let Leg { source, interfaces, .. } = leg;
            let Some(live) = source.live() else { continue };
            live.losses(&mut |interface, count| {
                if let Some(port) = interfaces.port(interface) {
                    lost(port, count);
                }
            });
        }
    }

    fn events(&mut self, report: &mut dyn FnMut(String)) {
        for leg in &mut self.legs {
            let Some(live) = leg.source.live() else { continue };
            live.events(&mut |event| report(format!("{}: {event}", leg.name)));
        }
    }

    fn emptied(&mut self) -> u64 {
        let (mut empty, mut others) = (0, 0);
        for (leg, &given) in self.legs.iter().zip(&self.given) {
            let bit = |port: u16| 1u64.checked_shl(port.into()).unwrap_or(0);
            let ports = leg.interfaces.ports.iter().fold(0, |all, (_, port)| all | bit(*port));
            let is_empty = leg.state != SourceState::Open && leg.heads.len() <= given;
            *(if is_empty { &mut empty } else { &mut others }) |= ports;
        }
        empty & !others
    }
}

impl Leg {
    fn new(PortSource { source, name, ports }: PortSource) -> Self {
        let interfaces = Interfaces { ports, names: source.interfaces(), known: Vec::new() };
        let (bytes, heads, skipped, state) = (Vec::new(), Vec::new(), 0, SourceState::Open);
        Self { source, name, interfaces, bytes, heads, skipped, state }
    }

    fn frame(&self, number: usize) -> Frame<'_> {
        let Head { start, len, timestamp, wire_len, link, port } = self.heads[number];
        let bytes = &self.bytes[start..start + len];
        Frame { bytes, timestamp, wire_len, link, interface: port }
    }

    /// Forgets the first `count` frames.
    fn forget(&mut self, count: usize) {
        self.heads.drain(..count);
        if self.heads.is_empty() {
            self.bytes.clear();
        }
    }

    /// Takes the source's next burst if none of its frames waits.
    fn fill(&mut self) -> Result<(), SourceError> {
        for _ in 0..SKIPPED_BURSTS_MAX {
            if self.state == SourceState::Ended || !self.heads.is_empty() {
                return Ok(());
            }
            let mut burst = Burst::new();
            match self.source.burst(&mut burst) {
                Ok(Given::Frames) => self.state = SourceState::Open,
                Ok(Given::Idle(wait)) => {
                    self.state = SourceState::Idle(wait);
                    return Ok(());
                }
                Ok(Given::End) => self.state = SourceState::Ended,
                Err(error) => {
                    self.state = SourceState::Ended;
                    return Err(error);
                }
            }
            for frame in burst.frames() {
                let Some(port) = self.interfaces.port(frame.interface) else {
                    self.skipped += 1;
                    continue;
                };
                let (start, Frame { timestamp, wire_len, link, .. }) = (self.bytes.len(), *frame);
                self.bytes.extend_from_slice(frame.bytes);
                let len = frame.bytes.len();
                self.heads.push(Head { start, len, timestamp, wire_len, link, port });
            }
        }
        if self.heads.is_empty() && self.state == SourceState::Open {
            self.state = SourceState::Idle(Duration::ZERO);
        }
        Ok(())
    }

    /// The interfaces that the source, which was read to its end, does not have.
    fn missing(&self) -> Vec<String> {
        if self.state != SourceState::Ended {
            return Vec::new();
        }
        let missing = self.interfaces.missing();
        missing.map(|wanted| format!("there is no interface {wanted}")).collect()
    }
}

impl Interfaces {
    #[inline]
    fn port(&mut self, interface: u16) -> Option<u16> {
        match self.known.get(usize::from(interface)) {
            Some(Some(Known::Port(port))) => Some(*port),
            Some(Some(Known::NoPort)) => None,
            _ => self.look_up(interface),
        }
    }

    #[cold]
    fn look_up(&mut self, interface: u16) -> Option<u16> {
        let name = self.names.name(interface);
        let is_it = |wanted: &Option<Wanted>| match wanted {
            None => true,
            Some(Wanted::Number(number)) => *number == interface,
            Some(Wanted::Name(wanted)) => name.as_ref() == Some(wanted),
        };
        let port = self.ports.iter().find(|(wanted, _)| is_it(wanted)).map(|&(_, port)| port);
        let at = usize::from(interface);
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        self.known[at] = Some(port.map_or(Known::NoPort, Known::Port));
        port
    }

    fn missing(&self) -> impl Iterator<Item = &Wanted> {
        let is_there = |wanted: &Wanted| match wanted {
            // A pcap has one interface and no list of them.
            Wanted::Number(number) => *number == 0 || usize::from(*number) < self.names.len(),
            Wanted::Name(name) => self.names.has(name),
        };
        let wanted = self.ports.iter().filter_map(|(wanted, _)| wanted.as_ref());
        wanted.filter(move |wanted| !is_there(wanted))
    }
}
