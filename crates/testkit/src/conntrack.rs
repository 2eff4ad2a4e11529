//! TCP as connection tracking should see it: an oracle written from the documentation of Linux's
//! tracker, RFC 9293, RFC 7323 and RFC 5961, in tables and distances. It shares no code with the
//! tracker.

/// One segment, by the numbers of its header.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The last byte of flags.
    pub flags: u8,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Not scaled.
    pub window: u16,
    /// Bytes of data.
    pub len: u32,
    /// As the header has them.
    pub options: Vec<u8>,
    /// A first fragment: the rest of its data comes later.
    pub is_fragment: bool,
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepted and followed.
    Followed,
    /// Accepted, but no use of the connection.
    Ignored,
    /// Accepted, and the connection is forgotten.
    Forgotten,
    /// It asks for a new connection by the same name.
    Anew,
    /// Not possible in this state.
    Invalid,
    /// Outside the windows.
    Outside,
}

/// How a tracker is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Windows are not checked, except for resets.
    pub liberal: bool,
    /// An ACK may open.
    pub loose: bool,
    /// Only one side may be seen, so it need not wait for the other.
    pub one_sided: bool,
}

#[derive(Clone, Debug, Default)]
struct Side {
    end: u32,
    limit: u32,
    window: u32,
    acked: Option<u32>,
    /// From its SYN, and as in force.
    scale: Option<u32>,
    shift: u32,
    sack: bool,
    lax: bool,
}

/// A connection; side 0 opened it.
#[derive(Clone, Debug)]
pub struct Tracked {
    state: &'static str,
    sides: [Side; 2],
    /// The last segment that counted: its kind, its side.
    last: (&'static str, usize),
    last_end: u32,
    last_ack: u32,
    /// The opener's SYN that was let through.
    syn: Side,
    challenge: bool,
    both_opened: bool,
    fins: [bool; 2],
    closed: bool,
    answered: bool,
    assured: bool,
}

/// The states in the order of the table's columns.
const STATES: [&str; 9] = ["SS", "S2", "SR", "ES", "FW", "CW", "LA", "TW", "CL"];

/// Where a segment leads, by who sent it and state: `..` lets it through, `!!` refuses it, `NEW`
/// begins anew.
const TABLE: [(&str, [&str; 2]); 5] = [
    ("syn", ["SS S2 .. .. .. .. .. NEW NEW", "S2 S2 !! !! !! !! !! NEW !!"]),
    ("synack", ["!! SR SR !! !! !! !! !! !!", "SR SR .. .. .. .. .. .. .."]),
    ("fin", ["!! !! FW FW LA LA LA TW CL", "!! !! FW FW LA LA LA TW CL"]),
    ("ack", ["!! !! ES ES CW CW TW TW CL", ".. .. SR ES CW CW TW TW CL"]),
    ("rst", ["CL CL CL CL CL CL CL CL CL", "CL CL CL CL CL CL CL CL CL"]),
];

/// How far `a` lies after `b` on the circle of sequence numbers. A number half a circle away lies
/// before.
fn ahead(a: u32, b: u32) -> i64 {
    i64::from(a.wrapping_sub(b) as i32)
}

impl Seen {
    fn kind(&self) -> Option<&'static str> {
        // Urgent data come with SYN alone, FIN with ACK, or ACK.
        Some(match self.flags & 0x37 {
            0x02 | 0x22 => "syn",
            0x12 => "synack",
            0x11 | 0x31 => "fin",
            0x10 | 0x30 => "ack",
            0x04 | 0x14 => "rst",
            _ => return None,
        })
    }

    fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }

    fn end(&self) -> u32 {
        let controls = u32::from(self.has(1)) + u32::from(self.has(2));
        self.seq.wrapping_add(self.len).wrapping_add(controls)
    }

    /// Kind and data of each option.
    fn options(&self) -> Vec<(u8, &[u8])> {
        let (mut rest, mut found) = (&self.options[..], Vec::new());
        loop {
            rest = match *rest {
                [] | [0, ..] => return found,
                [1, ref rest @ ..] => rest,
                [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                    found.push((kind, &rest[2..usize::from(len)]));
                    &rest[usize::from(len)..]
                }
                _ => return found,
            };
        }
    }

    /// The highest right edge, of the acknowledgment or a block.
    fn right_edge(&self) -> u32 {
        let blocks = |data: &[u8]| data.len() >= 8 && data.len().is_multiple_of(8);
        let all = self.options();
        let Some((_, data)) = all.iter().find(|(kind, data)| *kind == 5 && blocks(data)) else {
            return self.ack;
        };
        let word = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
        let edges = data.chunks(8).map(|block| word(&block[4..]));
        edges.fold(self.ack, |most, edge| if ahead(most, edge) < 0 { edge } else { most })
    }
}

impl Side {
    fn greet(&mut self, seen: &Seen) {
        (self.end, self.limit) = (seen.end(), seen.end());
        self.window = u32::from(seen.window).max(1);
        if seen.options.is_empty() {
            return;
        }
        (self.scale, self.shift, self.sack, self.acked) = (None, 0, false, None);
        for (kind, data) in seen.options() {
            match (kind, data) {
                (3, [shift]) => {
                    self.shift = u32::from(*shift).min(14);
                    self.scale = Some(self.shift);
                }
                (4, []) => self.sack = true,
                _ => {}
            }
        }
    }
}

impl Tracked {
    /// The connection that a segment opens, if it may, and whether its sender is the opener.
    pub fn new(seen: &Seen, mode: Mode) -> Option<(Self, bool)> {
        let kind = seen.kind()?;
        let may_open = match kind {
            "syn" => true,
            "ack" => mode.loose || mode.one_sided,
            "synack" | "fin" => mode.one_sided,
            _ => false,
        };
        if !may_open {
            return None;
        }
        let side = usize::from(kind == "synack");
        let mut own = Self {
            state: "SS",
            sides: Default::default(),
            last: (kind, side),
            last_end: 0,
            last_ack: 0,
            syn: Side::default(),
            challenge: false,
            both_opened: false,
            fins: [false; 2],
            closed: false,
            answered: false,
            assured: false,
        };
        if kind == "syn" {
            own.sides[0].greet(seen);
        } else {
            own.sides[side].end = seen.end();
            own.sides[side].window = u32::from(seen.window).max(1);
            own.sides[side].limit = seen.end().wrapping_add(own.sides[side].window);
            own.take_for_granted(mode);
        }
        own.windows(seen, kind, side, false);
        let to = if kind == "fin" { "FW" } else { own.state };
        own.arrive(kind, side, to);
        Some((own, side == 0))
    }

    /// It was established before it was seen.
    fn take_for_granted(&mut self, mode: Mode) {
        self.state = "ES";
        self.answered = mode.one_sided;
        for side in &mut self.sides {
            (side.sack, side.lax, side.shift, side.scale) = (true, true, 0, None);
        }
    }

    /// Which timeout it has.
    pub fn stage(&self) -> &'static str {
        match self.state {
            "ES" if self.last.0 == "rst" => "doubted",
            "ES" if self.answered => "established",
            "SS" | "S2" | "SR" | "ES" => "opening",
            "CL" => "closed",
            _ if self.fins == [true; 2] => "closed",
            _ => "finishing",
        }
    }

    /// A segment of the opener or the other; after a refusal the connection is as it was.
    pub fn see(&mut self, seen: &Seen, opener: bool, mode: Mode) -> Answer {
        let before = self.clone();
        let goes_ahead = matches!(seen.kind(), Some("ack" | "fin")) && opener;
        if mode.one_sided && self.state == "SS" && goes_ahead {
            self.take_for_granted(mode);
        }
        let answer = self.look(seen, usize::from(!opener), mode.liberal);
        if !matches!(answer, Answer::Followed | Answer::Ignored) {
            *self = before;
        }
        answer
    }

    fn look(&mut self, seen: &Seen, side: usize, liberal: bool) -> Answer {
        let Some(kind) = seen.kind() else { return Answer::Invalid };
        let column = STATES.iter().position(|state| *state == self.state).expect("a state");
        let row = TABLE.iter().find(|(own, _)| *own == kind).expect("a kind").1[side];
        let mut to = row.split(' ').nth(column).expect("as many columns");
        if to == "!!" {
            return Answer::Invalid;
        }
        if to == "NEW" {
            if self.closed || self.last == ("rst", side) {
                return Answer::Anew;
            }
            to = "..";
        }
        if to == ".." {
            let answers = kind == "synack" && self.last == ("syn", 1 - side);
            if !(answers && seen.ack == self.last_end) {
                return self.let_through(seen, kind, side);
            }
            // Both ends are in step, this tracker is not: it takes up what it let through.
            self.sides[1 - side] = self.syn.clone();
            self.sides[side] = Side { lax: self.sides[side].lax, ..Side::default() };
            (self.challenge, self.closed, self.fins) = (false, false, [false; 2]);
            to = "SR";
        }
        if (self.state, kind) == ("LA", "ack") && self.challenge && self.last == ("syn", 1 - side) {
            self.challenge = false;
            self.answered |= side == 1;
            return Answer::Ignored;
        }
        self.both_opened |= to == "S2";
        if to == "SR" && kind == "ack" && side == 1 && self.both_opened {
            to = "ES";
        }
        if kind == "rst" {
            match self.reset(seen, side) {
                Ok((state, true)) => to = state,
                Ok((state, false)) => return self.arrive(kind, side, state),
                Err(answer) => return answer,
            }
        }
        match self.windows(seen, kind, side, liberal) {
            Some(true) => self.arrive(kind, side, to),
            None => {
                self.answered |= side == 1;
                Answer::Ignored
            }
            Some(false) => Answer::Outside,
        }
    }

    fn let_through(&mut self, seen: &Seen, kind: &'static str, side: usize) -> Answer {
        self.last = (kind, side);
        (self.last_end, self.last_ack) = (seen.end(), seen.ack);
        if kind == "syn" && side == 0 {
            self.syn = Side::default();
            self.syn.greet(seen);
            (self.challenge, self.both_opened) = (self.state == "LA", false);
        }
        self.answered |= side == 1;
        Answer::Ignored
    }

    fn arrive(&mut self, kind: &'static str, side: usize, to: &'static str) -> Answer {
        let from = std::mem::replace(&mut self.state, to);
        self.last = (kind, side);
        self.closed |= to == "FW" && from != "FW";
        self.fins[side] |= kind == "fin";
        if kind == "rst" && !self.answered {
            return Answer::Forgotten;
        }
        self.assured |= self.answered && to == "ES" && (from == "SR" || from == "ES");
        self.answered |= side == 1;
        Answer::Followed
    }

    /// The state that a reset leads to, and whether windows are checked.
    fn reset(&self, seen: &Seen, side: usize) -> Result<(&'static str, bool), Answer> {
        if ["FW", "CW", "LA", "TW", "CL"].contains(&self.state) {
            return Ok(("CL", false));
        }
        let sure = self.state == "ES" && self.assured;
        let mut to = "CL";
        if let (Some(expected), true) = (self.sides[1 - side].acked, self.last.0 != "syn") {
            if seen.seq == 0 && !sure {
                return Ok(("CL", true));
            }
            if ahead(seen.seq, expected) < 0 {
                return Err(Answer::Outside);
            }
            let follows_data = self.last == ("ack", side) && seen.seq == self.last_end;
            if !sure || seen.seq == expected || follows_data {
                return Ok(("CL", true));
            }
            to = self.state;
        }
        let answers_syn = self.answered && self.last.0 == "syn";
        let answers_ack = !self.assured && self.last.0 == "ack";
        let answers_challenge =
            self.state == "SS" && self.last == ("ack", 1) && seen.seq == self.last_ack;
        let answers = (answers_syn || answers_ack) && seen.ack == self.last_end;
        Ok((to, !(answers || answers_challenge)))
    }

    /// Whether a segment lies in the windows; `None` for one that is let through unlearned.
    fn windows(
        &mut self,
        seen: &Seen,
        kind: &'static str,
        side: usize,
        liberal: bool,
    ) -> Option<bool> {
        let (syn, state) = (seen.has(2), self.state);
        let [first, second] = &mut self.sides;
        let (own, other) = if side == 0 { (first, second) } else { (second, first) };
        let mut edge = if other.sack { seen.right_edge() } else { seen.ack };
        let silent = own.window == 0;
        let later = ahead(own.end, seen.end()) < 0 && ["SS", "SR"].contains(&state);
        if syn && (silent || later) {
            own.greet(seen);
            if side == 1 && (own.scale.is_none() || other.scale.is_none()) {
                (own.shift, other.shift) = (0, 0);
            }
            if !seen.has(16) && (silent || side == 1) {
                return Some(true);
            }
        } else if silent {
            own.end = seen.end();
            own.window = (u32::from(seen.window) << own.shift).max(1);
            own.limit = own.end.wrapping_add(own.window);
            if other.window == 0 {
                (other.end, other.limit) = (edge, edge);
            } else if ahead(edge, other.end) == 1 {
                other.end = edge;
            }
        }
        let (mut seq, mut end, mut ack) = (seen.seq, seen.end(), seen.ack);
        if !seen.has(16) || kind == "rst" && ack == 0 {
            (ack, edge) = (other.end, other.end);
        }
        if kind == "rst" && seq == 0 && state == "SS" {
            (seq, end) = (own.end, own.end);
        }
        let lag = own.window.max(66_000);
        let upper_data = ahead(own.limit, seq) >= 0;
        let lower_data = ahead(end, own.end.wrapping_sub(other.window)) >= 0;
        let upper_ack = ahead(other.end, edge) >= 0;
        let lower_ack = ahead(edge, other.end.wrapping_sub(lag)) >= 0;
        let lax = liberal || own.lax;
        if !upper_data {
            let excess = end.wrapping_sub(own.limit).wrapping_add(1);
            let slight = other.window > 0 && excess <= other.window;
            if slight && lower_data && upper_ack && lower_ack {
                own.end = end;
                return lax.then_some(true);
            }
            return Some(lax);
        }
        if !upper_ack {
            return Some(lax);
        }
        if other.window > 0 && !lower_data || !lower_ack {
            return lax.then_some(true);
        }
        let window = u32::from(seen.window) << if syn { 0 } else { own.shift };
        own.window = own.window.max(window.wrapping_add(edge.wrapping_sub(ack)));
        own.end = if ahead(own.end, end) < 0 { end } else { own.end };
        if seen.has(16) && own.acked.is_none_or(|acked| ahead(acked, ack) < 0) {
            own.acked = Some(ack);
        }
        if other.window > 0 && ahead(own.limit, end) < 0 {
            other.window = other.window.wrapping_add(end.wrapping_sub(own.limit));
        }
        if ahead(edge.wrapping_add(window), other.limit) >= 0 {
            other.limit = edge.wrapping_add(window.max(1));
        }
        if seen.is_fragment {
            (own.lax, other.lax) = (true, true);
        }
        if kind == "ack" {
            (self.last_end, self.last_ack) = (end, seen.ack);
        }
        Some(true)
    }
}
