//! Reads route files: lines of `prefix next-hop`, and what `ip route` and `ip -6 route` print.
//!
//! [`read`] reports every mistake with its line and column and gives the routes of the other lines.
//! The function's manual describes the format of the lines.

use std::collections::HashMap;
use std::net::IpAddr;

use warpline_packet::Prefix;

use warpline_nf::{Diagnostic, Ports, SourceText};
use warpline_rule_files::words::shorten;

use super::route_line::{Fault, Parsed, default_prefix, parse};

/// Routes that a file may hold; the Internet has 1.2 million. They bound the tables' memory.
pub const ROUTES_MAX: usize = 1 << 21;
/// Different next hops that a file may name. The router takes a few numbers for itself.
pub const HOPS_MAX: usize = u16::MAX as usize - 8;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// To a router.
    Via {
        /// Its address; of either family, whatever the prefix's.
        address: IpAddr,
        /// The interface of a link-local address, if the file names it.
        device: Option<&'a str>,
    },
    /// To the destination itself: the prefix is connected.
    Direct {
        /// The interface, where the file names it.
        device: Option<&'a str>,
    },
    /// To nowhere, silently.
    Blackhole,
    /// To nowhere: the host can't be reached.
    Unreachable,
    /// To nowhere: forbidden.
    Prohibit,
    /// To nowhere: the router can't do all that the file asks. Packets of such a route must not
    /// follow a route with a shorter prefix.
    Unsupported,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations that it leads to.
    pub prefix: Prefix,
    /// The number of its target, from 1.
    pub hop: u16,
    /// Of two routes to a prefix, the one with the lower metric holds.
    pub metric: u32,
    /// Its line, from 1.
    pub line: u32,
}

/// The content of a file of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes<'a> {
    /// One route a prefix, sorted by family, address and length.
    pub routes: Vec<Route>,
    /// Targets; number `n` is at `n - 1`.
    pub targets: Vec<Target<'a>>,
    /// By target, the port by which its packets leave; none in a chain without ports.
    pub ports: Vec<Option<u16>>,
    /// Routes that the router can't do.
    pub skipped: usize,
    /// The line of the first of them, if they have lines.
    pub first_skipped: Option<&'a str>,
    /// Routes of other tables, which are left out.
    pub of_other_tables: usize,
}

impl Routes<'_> {
    /// That routes are not supported, with the first of them.
    pub(super) fn skipped_text(&self) -> String {
        let first =
            |what: &str| self.first_skipped.map(|line| format!("{what}`{}`", shorten(line)));
        match self.skipped {
            1 => format!(
                "1 route is not supported: its packets are dropped as `unsupported-route`{}",
                first(": ").unwrap_or_default()
            ),
            count => format!(
                "{count} routes are not supported: their packets are dropped as \
                 `unsupported-route`{}",
                first("; the first is ").unwrap_or_default()
            ),
        }
    }
}

/// The treatment of routes that the router can't do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// They are mistakes.
    Error,
    /// Their packets are dropped.
    Skip,
    /// As [`Unsupported::Skip`], in the kernel's own table. Its routes can't be mistakes: one that
    /// doesn't read is not supported, and of two that clash the first holds.
    Kernel,
}

/// Reads a file for a chain with these ports; every mistake goes to `note`.
///
/// Without ports, the interfaces that routes name have no meaning. With them they are ports, and a
/// route by an interface that is no port is not supported.
pub fn read<'a>(
    source: &'a SourceText,
    unsupported: Unsupported,
    ports: &Ports,
    note: &mut dyn FnMut(Diagnostic),
) -> Routes<'a> {
    let mut reader = Reader {
        source,
        unsupported,
        ports,
        note,
        found: Routes::default(),
        numbers: HashMap::new(),
        multipath: false,
    };
    let mut lines = source.text.lines().enumerate().peekable();
    while let Some((index, text)) = lines.next() {
        let next = lines.peek().map(|&(_, text)| text).filter(|text| is_nexthop(text));
        if !reader.line(Line { number: index + 1, text }, next) {
            break;
        }
    }
    reader.settle_duplicates();
    reader.settle_ports();
    reader.found
}

/// Whether a line, indented, adds a next hop to the line before it.
fn is_nexthop(text: &str) -> bool {
    text.starts_with([' ', '\t']) && text.split_ascii_whitespace().next() == Some("nexthop")
}

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

struct Reader<'a, 'n> {
    source: &'a SourceText,
    unsupported: Unsupported,
    ports: &'n Ports,
    note: &'n mut dyn FnMut(Diagnostic),
    found: Routes<'a>,
    numbers: HashMap<(Target<'a>, Option<u16>), u16>,
    /// Whether the lines before belong to a route of several next hops.
    multipath: bool,
}

impl<'a> Reader<'a, '_> {
    /// Reads a line. Returns whether to continue.
    fn line(&mut self, line: Line<'a>, next: Option<&'a str>) -> bool {
        let text = line.text.split('#').next().unwrap_or("");
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return true };
        if first == "nexthop" && self.multipath {
            return true;
        }
        self.multipath = next.is_some();
        let read = parse(first, words, next).and_then(|mut parsed| {
            if let Some(word) = parsed.unsupported {
                self.skip(line, word, next.is_some());
            } else if let Some(device) = self.strange(&parsed) {
                parsed.target = Target::Unsupported;
                self.skip_port(line, device);
            }
            self.keep(line, first, &parsed)
        });
        match read {
            Ok(()) | Err(Fault::Unused) => true,
            Err(Fault::Wrong(word, message)) => {
                let has_room =
                    self.found.routes.len() < ROUTES_MAX && self.found.targets.len() < HOPS_MAX;
                if has_room && self.unsupported == Unsupported::Kernel {
                    return self.hold_prefix(line);
                }
                self.mistake(line, word, message);
                has_room
            }
            Err(Fault::OtherTable(word)) => {
                self.leave_out(line, word);
                true
            }
        }
    }

    /// Keeps packets for a line that doesn't read from following a shorter prefix.
    fn hold_prefix(&mut self, line: Line<'a>) -> bool {
        self.count_skipped(line);
        // A kind may stand before the prefix.
        let mut words = line.text.split_ascii_whitespace().take(2);
        let place = words.find_map(|word| match word {
            "default" => Some((word, default_prefix(false), true)),
            _ => word.parse().ok().map(|prefix| (word, prefix, false)),
        });
        let Some((word, prefix, is_of_both)) = place else { return true };
        let target = Target::Unsupported;
        let unsupported = Some(word);
        let held = Parsed { prefix, target, metric: 0, device: None, unsupported, is_of_both };
        self.keep(line, word, &held).is_ok()
    }

    fn count_skipped(&mut self, line: Line<'a>) {
        self.found.skipped += 1;
        self.found.first_skipped.get_or_insert(line.text.trim());
    }

    fn skip(&mut self, line: Line<'a>, word: &'a str, multipath: bool) {
        self.count_skipped(line);
        if self.unsupported != Unsupported::Error {
            return;
        }
        let message = if multipath {
            "routes of several next hops are not supported".into()
        } else {
            format!("routes with `{word}` are not supported")
        };
        let help = "unsupported = \"skip\" drops packets for such routes";
        self.refuse(line, word, message, help.into());
    }

    fn leave_out(&mut self, line: Line<'a>, word: &'a str) {
        self.found.of_other_tables += 1;
        if self.unsupported == Unsupported::Error {
            let help = "unsupported = \"skip\" leaves out routes of tables other than `main`";
            self.refuse(line, word, "routes of this table are not supported".into(), help.into());
        }
    }

    fn refuse(&mut self, line: Line<'a>, word: &str, message: String, help: String) {
        let at = offset(line.text, word);
        let reported = self.source.in_line(line.number, line.text, at, word.len(), message);
        (self.note)(reported.help(help));
    }

    /// The interface by which packets for a route would leave, if it is no port.
    fn strange(&self, parsed: &Parsed<'a>) -> Option<&'a str> {
        let forwards = matches!(parsed.target, Target::Via { .. } | Target::Direct { .. });
        let has_ports = forwards && !self.ports.is_empty();
        parsed.device.filter(|device| has_ports && self.ports.number(device).is_none())
    }

    fn skip_port(&mut self, line: Line<'a>, device: &'a str) {
        self.count_skipped(line);
        if self.unsupported != Unsupported::Error {
            return;
        }
        let message = format!("`{}` is no port of this chain", shorten(device));
        let help = format!(
            "ports: {}; unsupported = \"skip\" drops packets for such routes",
            self.ports.names()
        );
        self.refuse(line, device, message, help);
    }

    fn mistake(&mut self, line: Line<'a>, word: &str, message: String) {
        let at = offset(line.text, word);
        (self.note)(self.source.in_line(line.number, line.text, at, word.len(), message));
    }

    fn keep(
        &mut self,
        line: Line<'a>,
        first: &'a str,
        parsed: &Parsed<'a>,
    ) -> Result<(), Fault<'a>> {
        if self.found.routes.len() >= ROUTES_MAX {
            return Err(Fault::Wrong(first, format!("more than {ROUTES_MAX} routes")));
        }
        let forwards = matches!(parsed.target, Target::Via { .. } | Target::Direct { .. });
        let port = parsed.device.filter(|_| forwards).and_then(|device| self.ports.number(device));
        let hop = match self.numbers.get(&(parsed.target, port)) {
            Some(&hop) => hop,
            None if self.found.targets.len() >= HOPS_MAX => {
                return Err(Fault::Wrong(first, format!("more than {HOPS_MAX} next hops")));
            }
            None => {
                self.found.targets.push(parsed.target);
                self.found.ports.push(port);
                let hop = self.found.targets.len() as u16;
                self.numbers.insert((parsed.target, port), hop);
                hop
            }
        };
        let Parsed { prefix, metric, .. } = *parsed;
        let line = line.number as u32;
        self.found.routes.push(Route { prefix, hop, metric, line });
        if parsed.is_of_both {
            self.found.routes.push(Route { prefix: default_prefix(true), hop, metric, line });
        }
        Ok(())
    }

    /// Leaves one route a prefix: that of the lowest metric. Two of one metric must agree; one that
    /// the router can't do goes before others.
    fn settle_duplicates(&mut self) {
        let mut routes = std::mem::take(&mut self.found.routes);
        let unsupported = self.numbers.get(&(Target::Unsupported, None)).copied();
        let is_done = |route: &Route| Some(route.hop) != unsupported;
        routes.sort_by_key(|route| {
            (route.prefix.address(), route.prefix.len(), route.metric, is_done(route))
        });
        let mut clashes = Vec::new();
        routes.dedup_by(|later, kept| {
            let same = later.prefix == kept.prefix;
            if same && later.metric == kept.metric && later.hop != kept.hop && is_done(kept) {
                clashes.push((kept.line, *later));
            }
            same
        });
        if self.unsupported == Unsupported::Kernel {
            clashes.clear();
        }
        clashes.sort_by_key(|(_, later)| later.line);
        self.found.routes = routes;
        self.report_clashes(&clashes);
    }

    /// Gives next hops without an interface the port of the connected prefix that they are in. In a
    /// chain with more than two ports, or that forwards by routes, every next hop needs one.
    fn settle_ports(&mut self) {
        if self.ports.is_empty() {
            return;
        }
        let Routes { routes, targets, ports, .. } = &mut self.found;
        let at = |route: &Route| usize::from(route.hop) - 1;
        let is_direct = |route: &&Route| matches!(targets[at(route)], Target::Direct { .. });
        let connected = routes.iter().filter(is_direct);
        let connected: HashMap<Prefix, u16> =
            connected.filter_map(|route| Some((route.prefix, ports[at(route)]?))).collect();
        for (target, port) in targets.iter().zip(&mut *ports) {
            if let Target::Via { address, .. } = *target
                && port.is_none()
            {
                let prefixes = (0..=128).rev().filter_map(|len| Prefix::new(address, len));
                *port = prefixes.filter_map(|prefix| connected.get(&prefix).copied()).next();
            }
        }
        let lacks = |route: &Route| {
            let forwards = matches!(targets[at(route)], Target::Via { .. } | Target::Direct { .. });
            forwards && ports[at(route)].is_none()
        };
        let mut lacking: Vec<Route> = match self.ports.len() {
            0..=2 if !self.ports.are_routed() => Vec::new(),
            _ => routes.iter().filter(|route| lacks(route)).copied().collect(),
        };
        lacking.sort_by_key(|route| route.line);
        self.report_lacking(&lacking);
    }

    fn report_lacking(&mut self, lacking: &[Route]) {
        let mut lines = self.source.text.lines().enumerate();
        for route in lacking {
            let number = route.line as usize;
            let Some((_, text)) = lines.find(|(index, _)| index + 1 == number) else { return };
            let word = text.split_ascii_whitespace().next().unwrap_or("");
            let message = format!("the route to {} names no port", route.prefix);
            let (at, names) = (offset(text, word), self.ports.names());
            let reported = self.source.in_line(number, text, at, word.len(), message);
            (self.note)(reported.help(format!("write `dev PORT` at its end; ports: {names}")));
        }
    }

    fn report_clashes(&mut self, clashes: &[(u32, Route)]) {
        let mut lines = self.source.text.lines().enumerate();
        for (first, route) in clashes {
            let number = route.line as usize;
            let Some((_, text)) = lines.find(|(index, _)| index + 1 == number) else { return };
            let message = format!("{} has another next hop in line {first}", route.prefix);
            let word = text.split_ascii_whitespace().next().unwrap_or("");
            self.mistake(Line { number, text }, word, message);
        }
    }
}

/// Where a word that was cut out of `text` begins.
fn offset(text: &str, word: &str) -> usize {
    (word.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}
