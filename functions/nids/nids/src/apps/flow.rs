//! Combines the two directions of a flow into its protocol.

use super::app::{App, DetectedApp, SIDE_BITS};
use super::{Guess, datagrams, streams};
use warpline_streams::flows::Direction;

/// A flow's application protocol, and those of its directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apps {
    /// Of the whole flow: the first protocol that a direction showed.
    pub flow: DetectedApp,
    /// By [`Direction`].
    pub sides: [DetectedApp; 2],
    /// Which direction of a stream had data first.
    first: Option<Direction>,
}

/// [`Apps`] as a flow keeps them: a byte for each direction, a fourth of it for how they combine.
///
/// From the lowest bit: both sides, the side that the flow follows, the side with the first data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedApps(u16);

const SIDE_MASK: u16 = (1 << SIDE_BITS) - 1;
const FLOW_AT: u32 = 2 * SIDE_BITS;
const FIRST_AT: u32 = FLOW_AT + 2;

impl PackedApps {
    /// As with [`Apps::is_settled`].
    #[inline]
    pub fn is_settled(self, direction: Direction) -> bool {
        self.0 >> (SIDE_BITS * direction as u32) & SIDE_MASK != 0
    }

    /// The protocols that were packed.
    pub fn unpack(self) -> Apps {
        let side = |at: u32| DetectedApp::from_byte((self.0 >> (SIDE_BITS * at) & SIDE_MASK) as u8);
        let sides = [side(0), side(1)];
        let flow = match self.0 >> FLOW_AT & 3 {
            0 => DetectedApp::Unknown,
            1 => DetectedApp::Failed,
            2 => sides[0],
            _ => sides[1],
        };
        let first = match self.0 >> FIRST_AT {
            0 => None,
            1 => Some(Direction::ToServer),
            _ => Some(Direction::ToClient),
        };
        Apps { flow, sides, first }
    }
}

impl Apps {
    /// In two bytes. The flow is unknown, has failed, or is what a side is.
    pub fn pack(self) -> PackedApps {
        let [client, server] = self.sides.map(|side| u16::from(side.to_byte()));
        let flow = match self.flow {
            DetectedApp::Unknown | DetectedApp::Greeting => 0,
            DetectedApp::Failed => 1,
            DetectedApp::Known(_) if self.flow == self.sides[0] => 2,
            DetectedApp::Known(_) => 3,
        };
        let first = self.first.map_or(0, |first| 1 + first as u16);
        PackedApps(client | server << SIDE_BITS | flow << FLOW_AT | first << FIRST_AT)
    }

    /// Of bytes written by [`Apps::to_bytes`].
    pub fn from_bytes([flow, client, server]: [u8; 3]) -> Self {
        let sides = [client, server].map(DetectedApp::from_byte);
        Self { flow: DetectedApp::from_byte(flow), sides, first: None }
    }

    /// All that a report needs of it.
    pub fn to_bytes(self) -> [u8; 3] {
        [self.flow, self.sides[0], self.sides[1]].map(DetectedApp::to_byte)
    }

    /// Whether more bytes of a direction change nothing.
    #[inline]
    pub fn is_settled(&self, direction: Direction) -> bool {
        self.sides[direction as usize] != DetectedApp::Unknown
    }

    /// Takes in all that a direction's stream had so far, `None` where its start is lost. `port`
    /// is the server's.
    pub fn take_stream(&mut self, direction: Direction, port: u16, bytes: Option<&[u8]>) {
        if self.is_settled(direction) {
            return;
        }
        let (own, other) = (direction as usize, direction.reversed() as usize);
        self.first.get_or_insert(direction);
        let guess = match (self.sides[other], bytes) {
            (DetectedApp::Known(app), _) if app.settles_later_data() => Guess::Is(app),
            (_, Some(bytes)) => streams::guess(direction, port, bytes),
            (_, None) => Guess::Nothing,
        };
        match guess {
            Guess::More => {}
            Guess::Is(app) => self.found_in_stream(own, other, app),
            Guess::Greeting => {
                self.sides[own] = match self.sides[other] {
                    DetectedApp::Known(app) if greets(app) => DetectedApp::Known(app),
                    DetectedApp::Unknown => DetectedApp::Greeting,
                    _ => DetectedApp::Failed,
                };
            }
            Guess::Nothing => self.sides[own] = DetectedApp::Failed,
        }
        self.give_up();
    }

    /// Takes in a datagram. `port` is the server's.
    pub fn take_datagram(&mut self, direction: Direction, port: u16, payload: &[u8]) {
        if self.is_settled(direction) {
            return;
        }
        let (own, other) = (direction as usize, direction.reversed() as usize);
        self.sides[own] = match (datagrams::guess(direction, port, payload), self.sides[other]) {
            (Some(app), _) => DetectedApp::Known(app),
            (None, DetectedApp::Known(app)) => DetectedApp::Known(app),
            (None, _) => DetectedApp::Failed,
        };
        if !matches!(self.flow, DetectedApp::Known(_)) {
            self.flow = self.sides[own];
        }
    }

    fn found_in_stream(&mut self, own: usize, other: usize, app: App) {
        self.sides[own] = DetectedApp::Known(app);
        // TLS servers never speak first.
        let is_refused = app == App::Tls && self.first == Some(Direction::ToClient);
        if !matches!(self.flow, DetectedApp::Known(_)) {
            self.flow = if is_refused { DetectedApp::Failed } else { DetectedApp::Known(app) };
        }
        match self.sides[other] {
            DetectedApp::Greeting if greets(app) => self.sides[other] = DetectedApp::Known(app),
            DetectedApp::Greeting => self.sides[other] = DetectedApp::Failed,
            DetectedApp::Failed if app.settles_earlier_data() => {
                self.sides[other] = DetectedApp::Known(app)
            }
            _ => {}
        }
    }

    /// A flow fails once both directions did.
    fn give_up(&mut self) {
        if let [DetectedApp::Failed, DetectedApp::Failed | DetectedApp::Greeting] = self.sides {
            self.sides[1] = DetectedApp::Failed;
            if self.flow == DetectedApp::Unknown {
                self.flow = DetectedApp::Failed;
            }
        }
    }
}

/// Whether its servers greet with a line that begins with 220 (RFC 5321, 3.1; RFC 959, 5.4).
fn greets(app: App) -> bool {
    matches!(app, App::Smtp | App::Ftp)
}
