//! Combines SAs and policies: directions, the traffic that SAs may carry, the SA that protects, and
//! forbidden duplicates.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use warpline_packet::Prefix;

use super::Rules;
use super::entry::{Asked, Does, SaEntry, SaFile, Template};
use super::source::Source;
use super::values::{both, overlap};
use crate::cipher::{Auth, Cipher};
use crate::nonce_state::Fingerprint;
use crate::sa::{Action, Carriers, Database, Direction, Inbound, Mode, Policy, Selector};
use crate::traffic::NAT_T_PORT;
use warpline_nf::{Resources, Section};

/// The database of two files that read. Mistakes are noted.
pub(super) fn resolve(
    section: &mut Section<'_>,
    resources: &mut Resources,
    rules: Rules,
    (mut source, file): (Source, SaFile),
    (policies, asked): (Option<Source>, Vec<Asked>),
) -> Database {
    let SaFile { mut entries, left_out } = file;
    let claims = Claims::new(&entries, &asked);
    find_directions(section, &mut source, &rules, &claims, &mut entries);
    give_selectors(section, resources, &mut source, &rules, &claims, &asked, &mut entries);
    check(section, &mut source, &rules, &entries);
    let mut database = Database::default();
    if let Some(mut source) = policies {
        let sas = Sas::new(&entries, left_out);
        sas.policies(section, resources, &mut source, asked, &mut database);
    }
    database.sas = entries.into_iter().map(|entry| entry.sa).collect();
    database
}

/// SAs by ends and reqid, so that those that fit a template are found.
struct Index(HashMap<(IpAddr, IpAddr, u32), Vec<usize>>);

impl Index {
    fn new(entries: &[SaEntry]) -> Self {
        let mut index = HashMap::<_, Vec<usize>>::new();
        for (at, entry) in entries.iter().enumerate() {
            index.entry((entry.sa.src, entry.sa.dst, entry.reqid)).or_default().push(at);
        }
        Self(index)
    }

    /// SAs that fit, ascending.
    fn fitting(
        &self,
        entries: &[SaEntry],
        template: &Template,
        direction: Direction,
        selector: &Selector,
    ) -> Vec<usize> {
        let Template { src, dst, reqid, .. } = *template;
        let fits = |at: &usize| template.fits(&entries[*at], direction, selector);
        if src.is_unspecified() || dst.is_unspecified() || reqid == 0 {
            return (0..entries.len()).filter(fits).collect();
        }
        let own = self.0.get(&(src, dst, reqid)).map_or(&[][..], Vec::as_slice);
        own.iter().copied().filter(fits).collect()
    }
}

/// Which policies name which SA, by the SA's place.
struct Claims {
    out: HashSet<usize>,
    /// With the places of the policies.
    coming: HashMap<usize, Vec<usize>>,
}

impl Claims {
    fn new(entries: &[SaEntry], asked: &[Asked]) -> Self {
        let index = Index::new(entries);
        let names: HashMap<&str, usize> =
            entries.iter().enumerate().map(|(at, own)| (own.sa.name.as_str(), at)).collect();
        let mut claims = Self { out: HashSet::new(), coming: HashMap::new() };
        for (number, policy) in asked.iter().enumerate() {
            let direction = if policy.is_out { Direction::Out } else { Direction::In };
            match &policy.does {
                Does::Named(wanted) => {
                    claims.out.extend(wanted.iter().filter_map(|name| names.get(name.as_str())));
                }
                Does::Template(template) => {
                    for at in index.fitting(entries, template, direction, &policy.selector) {
                        if policy.is_out {
                            claims.out.insert(at);
                        } else {
                            claims.coming.entry(at).or_default().push(number);
                        }
                    }
                }
                Does::Bypass | Does::Discard => {}
            }
        }
        claims
    }
}

fn find_directions(
    section: &mut Section<'_>,
    source: &mut Source,
    rules: &Rules,
    claims: &Claims,
    entries: &mut [SaEntry],
) {
    let is_local = |end: IpAddr| rules.local.iter().any(|prefix| prefix.contains(end));
    for (at, entry) in entries.iter_mut().enumerate() {
        let own = (is_local(entry.sa.dst), is_local(entry.sa.src));
        let asked = (claims.coming.contains_key(&at), claims.out.contains(&at));
        let direction = entry.direction.or(one(own)).or(one(asked));
        let Some(direction) = direction else {
            let reported = format!(
                "whether SA {} is for packets that come in or go out is not reported: `local` \
                 lists addresses of this gateway, a TOML file may say `direction`",
                entry.sa.name
            );
            source.mistake(section, entry.at.clone(), reported);
            continue;
        };
        entry.sa.direction = direction;
        let [received, sent] = entry.sequences;
        (entry.sa.sequence, entry.sa.replay_window) = match direction {
            Direction::In => (received, entry.sa.replay_window),
            Direction::Out => (sent, 0),
        };
    }
}

/// The one of in and out that holds.
fn one(holds: (bool, bool)) -> Option<Direction> {
    match holds {
        (true, false) => Some(Direction::In),
        (false, true) => Some(Direction::Out),
        _ => None,
    }
}

/// If an SA has no selectors of its own, policies define its traffic.
fn give_selectors(
    section: &mut Section<'_>,
    resources: &mut Resources,
    source: &mut Source,
    rules: &Rules,
    claims: &Claims,
    asked: &[Asked],
    entries: &mut Vec<SaEntry>,
) {
    let mut kept = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter_mut().enumerate() {
        let own = &mut entry.sa.selectors;
        let is_in = entry.sa.direction == Direction::In;
        if own.is_empty() && is_in {
            let mut seen = HashSet::new();
            let policies = claims.coming.get(&at).map_or(&[][..], Vec::as_slice);
            let selectors = policies.iter().map(|&number| &asked[number].selector);
            own.extend(selectors.filter(|own| seen.insert(row(own))).cloned());
        }
        let needs = is_in && rules.has_xfrm_policies && entry.sa.mode == Mode::Tunnel;
        kept.push(!(own.is_empty() && needs));
        if own.is_empty() && needs {
            let reported = format!("no policy lets in what SA {} carries", entry.sa.name);
            let reported = source.reported(entry.at.clone(), reported);
            source.unsupported(section, resources, reported);
        } else if own.is_empty() {
            own.extend(entry.otherwise.take());
        }
    }
    let mut kept = kept.into_iter();
    entries.retain(|_| kept.next().unwrap_or(true));
}

/// One list of policies that decides as the inbound policies, and then the outbound ones for
/// packets that the former accept.
fn in_turn(inbound: Vec<Policy>, out: Vec<Policy>) -> Vec<Policy> {
    let guarded: Vec<&Policy> = out.iter().filter(|own| own.action != Action::Bypass).collect();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (place, policy) in inbound.iter().enumerate() {
        let overlaps = |other: &Policy| overlap(&other.selector, &policy.selector);
        // Packets that may pass may have to be protected when they leave.
        let is_guarded = policy.action == Action::Bypass && guarded.iter().any(|own| overlaps(own));
        let is_later = |other: &Policy| other.action == Action::Discard && overlaps(other);
        match is_guarded {
            false => first.push(policy.clone()),
            true if !inbound[place + 1..].iter().any(is_later) => last.push(policy.clone()),
            // Later inbound policies must not see its packets.
            true => {
                let own = out.iter().filter(|own| overlaps(own)).map(|own| Policy {
                    selector: both(&own.selector, &policy.selector),
                    action: own.action,
                });
                first.extend(own);
                first.push(policy.clone());
            }
        }
    }
    first.into_iter().chain(out).chain(last).collect()
}

type Row = (Prefix, Prefix, Option<u8>, [u16; 4]);

fn row(own: &Selector) -> Row {
    let (from, to) = (&own.src_ports, &own.dst_ports);
    (own.src, own.dst, own.protocol, [*from.start(), *from.end(), *to.start(), *to.end()])
}

/// Finds what must not be there, or not twice.
fn check(section: &mut Section<'_>, source: &mut Source, rules: &Rules, entries: &[SaEntry]) {
    let mut names = HashSet::new();
    let mut spis = HashMap::new();
    let mut nonces = HashMap::<Fingerprint, Vec<&SaEntry>>::new();
    for entry in entries {
        let sa = &entry.sa;
        let mut reported = Vec::new();
        if !names.insert(sa.name.as_str()) {
            reported.push(format!("another SA is called {}", sa.name));
        }
        if sa.direction == Direction::In
            && let Some(other) = spis.insert((sa.dst, sa.spi), &sa.name)
        {
            reported.push(format!("SA {other} has the same SPI at {}", sa.dst));
        }
        if sa.auth == Auth::None && sa.cipher != Cipher::Gcm && !rules.insecure {
            let name = &sa.name;
            reported
                .push(format!("SA {name} has no authentication, which requires insecure = true"));
        }
        if sa.direction == Direction::In
            && let Some(port) = sa.encap.map(|own| own.dst_port).filter(|own| *own != NAT_T_PORT)
        {
            reported.push(format!(
                "SA {} receives ESP in UDP at port {port}; only {NAT_T_PORT} is supported",
                sa.name
            ));
        }
        if sa.mode == Mode::Transport
            && sa.selectors.iter().any(|own| own.src.address().is_ipv4() != sa.src.is_ipv4())
        {
            reported.push(format!(
                "SA {} in transport mode has selectors of another IP version",
                sa.name
            ));
        }
        if sa.cipher.is_counter() {
            let users = nonces.entry(Fingerprint::of(&sa.enc_key.0)).or_default();
            if let Some(other) = users.iter().find(|other| repeats(other, entry)) {
                let other = &other.sa.name;
                reported.push(format!(
                    "SA {} has the key and salt of SA {other}: nonces would repeat",
                    sa.name
                ));
            }
            // More of them would only say the same of more.
            if users.len() < 8 {
                users.push(entry);
            }
        }
        for reported in reported {
            source.mistake(section, entry.at.clone(), reported);
        }
        if source.is_hopeless() {
            return;
        }
    }
}

/// Whether two SAs seal with one key: two outbound ones, or one of each direction that are not the
/// two ends of one SA.
fn repeats(a: &SaEntry, b: &SaEntry) -> bool {
    let ends = |own: &SaEntry| (own.sa.src, own.sa.dst, own.sa.spi);
    match (a.sa.direction, b.sa.direction) {
        (Direction::Out, Direction::Out) => true,
        (Direction::In, Direction::In) => false,
        _ => ends(a) != ends(b),
    }
}

/// The index by which policies find their SAs.
struct Sas<'a> {
    entries: &'a [SaEntry],
    index: Index,
    names: HashMap<&'a str, usize>,
    left_out: HashSet<String>,
}

impl<'a> Sas<'a> {
    fn new(entries: &'a [SaEntry], left_out: Vec<String>) -> Self {
        let names = entries.iter().enumerate().map(|(at, own)| (own.sa.name.as_str(), at));
        let (names, left_out) = (names.collect(), left_out.into_iter().collect());
        Self { entries, index: Index::new(entries), names, left_out }
    }

    /// The policies in the order of evaluation. As in the kernel, the inbound policies must let a
    /// packet through before the outbound ones decide on it. Of a packet that an SA opened, they
    /// decide when it is opened.
    fn policies(
        &self,
        section: &mut Section<'_>,
        resources: &mut Resources,
        source: &mut Source,
        asked: Vec<Asked>,
        database: &mut Database,
    ) {
        let (out, coming): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|policy| policy.is_out);
        let out: Vec<Policy> = out
            .into_iter()
            .map(|policy| {
                let action = self.action(section, resources, source, &policy);
                Policy { selector: policy.selector, action }
            })
            .collect();
        let (mut seen, mut lists) = (HashSet::new(), HashSet::new());
        let mut inbound = Vec::new();
        for policy in coming {
            let is_bypass = matches!(policy.does, Does::Bypass);
            let action = if is_bypass { Action::Bypass } else { Action::Discard };
            let carriers = self.carriers(&policy, &mut lists);
            let selector = policy.selector;
            if seen.insert(row(&selector)) {
                database.inbound.push(Inbound { selector: selector.clone(), carriers });
                inbound.push(Policy { selector, action });
            }
        }
        database.policies_of_opened = (!seen.is_empty()).then(|| out.clone());
        database.policies = in_turn(inbound, out);
    }

    /// The SAs that may carry the packets of an inbound policy. A list is shared with `lists`.
    fn carriers(&self, policy: &Asked, lists: &mut HashSet<Arc<[usize]>>) -> Carriers {
        let own = match &policy.does {
            Does::Bypass => return Carriers::Any,
            Does::Template(template) => {
                let selector = &policy.selector;
                self.index.fitting(self.entries, template, Direction::In, selector)
            }
            Does::Discard | Does::Named(_) => Vec::new(),
        };
        if let Some(same) = lists.get(&own[..]) {
            return Carriers::These(Arc::clone(same));
        }
        let own: Arc<[usize]> = own.into();
        lists.insert(Arc::clone(&own));
        Carriers::These(own)
    }

    fn action(
        &self,
        section: &mut Section<'_>,
        resources: &mut Resources,
        source: &mut Source,
        policy: &Asked,
    ) -> Action {
        let found = match &policy.does {
            Does::Bypass => return Action::Bypass,
            Does::Discard => return Action::Discard,
            Does::Named(names) => {
                names.iter().find_map(|name| self.names.get(name.as_str())).copied()
            }
            Does::Template(template) => {
                let selector = &policy.selector;
                let fitting = self.index.fitting(self.entries, template, Direction::Out, selector);
                let out = fitting.into_iter().filter(|&at| self.is_out(at));
                out.max_by_key(|&at| (&self.entries[at].added, Reverse(at)))
            }
        };
        let Some(at) = found else {
            self.lacks_sa(section, resources, source, policy);
            return Action::Discard;
        };
        let sa = &self.entries[at].sa;
        let of_v4 = policy.selector.src.address().is_ipv4();
        if !self.is_out(at) {
            let reported = format!("SA {} is inbound and cannot protect packets", sa.name);
            source.mistake(section, policy.at.clone(), reported);
        } else if sa.mode == Mode::Transport && of_v4 != sa.src.is_ipv4() {
            let reported = format!("SA {} in transport mode is of another IP version", sa.name);
            source.mistake(section, policy.at.clone(), reported);
        }
        Action::Protect(at)
    }

    fn is_out(&self, at: usize) -> bool {
        self.entries[at].sa.direction == Direction::Out
    }

    fn lacks_sa(
        &self,
        section: &mut Section<'_>,
        resources: &mut Resources,
        source: &mut Source,
        policy: &Asked,
    ) {
        let at = policy.at.clone();
        let Does::Named(names) = &policy.does else {
            let reported = source.reported(
                at,
                "no SA fits the policy's template: packets that it matches are dropped",
            );
            source.unsupported(section, resources, reported);
            return;
        };
        let listed = names.join(", ");
        if names.iter().any(|name| self.left_out.contains(name)) {
            let reported =
                format!("its SA was skipped ({listed}): packets that it matches are dropped");
            let reported = source.reported(at, reported);
            source.unsupported(section, resources, reported);
        } else {
            source.mistake(section, at, format!("no SA is called {listed}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Packets of two hosts each, to ports 1 to 3.
    type Packet = (u8, u8, u16);

    fn selector() -> impl Strategy<Value = Selector> {
        let prefix = |net: u8| {
            (31u8..=32, 0u8..2).prop_map(move |(len, host)| {
                let host = if len == 32 { host } else { 0 };
                format!("10.{net}.0.{host}/{len}").parse::<Prefix>().expect("a prefix")
            })
        };
        let ports = (1u16..=3, 0u16..3).prop_map(|(first, more)| first..=(first + more).min(3));
        (prefix(1), prefix(2), ports).prop_map(|(src, dst, dst_ports)| Selector {
            src,
            dst,
            protocol: None,
            src_ports: 0..=u16::MAX,
            dst_ports,
        })
    }

    fn policies(actions: &'static [Action]) -> impl Strategy<Value = Vec<Policy>> {
        let one = (selector(), prop::sample::select(actions))
            .prop_map(|(selector, action)| Policy { selector, action });
        prop::collection::vec(one, 0..6)
    }

    fn first(list: &[Policy], (src, dst, port): Packet) -> Option<Action> {
        let matches = |own: &&Policy| {
            own.selector.src.contains([10, 1, 0, src].into())
                && own.selector.dst.contains([10, 2, 0, dst].into())
                && own.selector.dst_ports.contains(&port)
        };
        list.iter().find(matches).map(|own| own.action)
    }

    proptest! {
        /// The outbound policies decide on packets that the inbound ones accept, or do not match.
        #[test]
        fn one_list_decides_as_both(
            inbound in policies(&[Action::Bypass, Action::Discard]),
            out in policies(&[Action::Bypass, Action::Discard, Action::Protect(0)]),
        ) {
            let both = in_turn(inbound.clone(), out.clone());
            for src in 0..2 {
                for dst in 0..2 {
                    for port in 1..4 {
                        let packet = (src, dst, port);
                        let coming = first(&inbound, packet);
                        let expected = match coming {
                            Some(Action::Discard) => coming,
                            _ => first(&out, packet).or(coming),
                        };
                        prop_assert_eq!(first(&both, packet), expected, "{:?}", packet);
                    }
                }
            }
        }
    }
}
