//! Groups of addresses and of ports: `[a,b,![c,$D]]`, variables filled in, each resolved once,
//! equal sets kept once.
//!
//! A group is the union of its members without those after a `!`. One of negations alone is
//! everything except those (manual, "Source and destination"). A group in a group stands for its
//! items, as in Suricata: what it excludes is excluded from the whole. A group after a `!` is a set
//! of its own.

use core::hash::Hash;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::piece::{Fault, Piece, Read, Refusal};
use super::{Addresses, Ports};

/// Groups in groups, and variables in variables, that are followed.
const DEPTH_MAX: usize = 64;

/// Variables of rules: name, without `$`, and text. They may name one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The text of `name`, which has no `$`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The mistakes in the texts of `names`, each of which is of a kind.
    pub fn mistakes<'n>(
        &self,
        names: impl IntoIterator<Item = (&'n str, VariableKind)>,
    ) -> Vec<VariableMistake<'n>> {
        let (mut addresses, mut ports) =
            (Groups::<Addresses>::default(), Groups::<Ports>::default());
        let mut mistakes = Vec::new();
        for (name, kind) in names {
            let text = Piece::new(self.get(name).unwrap_or_default());
            let mut as_addresses = || addresses.field(text, self).err();
            let mut as_ports = || ports.field(text, self).err();
            let refusal = match kind {
                VariableKind::Addresses => as_addresses(),
                VariableKind::Ports => as_ports(),
                VariableKind::Either => {
                    as_addresses().and_then(|refusal| Some(neither(text, &refusal, &as_ports()?)))
                }
            };
            if let Some(Refusal::Broken(fault)) = refusal {
                let Fault { message, help, .. } = *fault;
                mistakes.push(VariableMistake { name, message, help });
            }
        }
        mistakes
    }
}

/// The kind of set that a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// A set of addresses.
    Addresses,
    /// A set of ports.
    Ports,
    /// One of both.
    Either,
}

/// An invalid text of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableMistake<'n> {
    /// The variable.
    pub name: &'n str,
    /// The error.
    pub message: String,
    /// The allowed values, if that helps.
    pub help: Option<String>,
}

impl<N: Into<String>, T: Into<String>> FromIterator<(N, T)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }
}

/// A kind of set that groups consist of: addresses or ports.
pub(super) trait Space: Clone + Default + Eq + Hash {
    /// The noun for its members, for messages.
    const MEMBERS: &'static str;

    /// One member, or a range of them, or `any`.
    fn member(piece: Piece<'_>) -> Read<Self>;

    /// Has `other` as well; [`Space::settle`] is called before anything else.
    fn add(&mut self, other: &Self);

    /// Sorted and merged.
    fn settle(&mut self);

    /// Without `other`. If only `other` has members of a kind, all others of that kind.
    fn without(self, other: &Self) -> Self;

    fn is_empty(&self) -> bool;
}

/// The items of a group.
#[derive(Clone, Default)]
struct Items<S> {
    members: S,
    excluded: S,
}

impl<S: Space> Items<S> {
    fn member(members: S) -> Self {
        Self { members, excluded: S::default() }
    }

    fn add(&mut self, other: &Self) {
        self.members.add(&other.members);
        self.excluded.add(&other.excluded);
    }

    /// The set of `group`, which has these items.
    fn set(&self, group: Piece<'_>) -> Read<S> {
        let Self { mut members, mut excluded } = self.clone();
        members.settle();
        excluded.settle();
        let left = if excluded.is_empty() { members } else { members.without(&excluded) };
        if left.is_empty() {
            return Err(group.broken(format!("no {} are left", S::MEMBERS)));
        }
        Ok(left)
    }
}

/// All sets of a space that rules name.
pub(super) struct Groups<S> {
    fields: HashMap<Box<str>, Arc<S>>,
    sets: HashSet<Arc<S>>,
    variables: HashMap<Box<str>, Result<Items<S>, String>>,
    /// Variables that are being resolved.
    open: Vec<Box<str>>,
}

impl<S> Default for Groups<S> {
    fn default() -> Self {
        Self {
            fields: HashMap::new(),
            sets: HashSet::new(),
            variables: HashMap::new(),
            open: Vec::new(),
        }
    }
}

impl<S: Space> Groups<S> {
    /// The set that a field of a header names.
    pub(super) fn field(&mut self, field: Piece<'_>, variables: &Variables) -> Read<Arc<S>> {
        if let Some(known) = self.fields.get(field.text) {
            return Ok(Arc::clone(known));
        }
        let group = field.trim();
        let set = Arc::new(self.group(group, variables, 0)?.set(group)?);
        let set = match self.sets.get(&set) {
            Some(same) => Arc::clone(same),
            None => {
                self.sets.insert(Arc::clone(&set));
                set
            }
        };
        self.fields.insert(field.text.into(), Arc::clone(&set));
        Ok(set)
    }

    fn group(&mut self, group: Piece<'_>, variables: &Variables, depth: usize) -> Read<Items<S>> {
        if depth > DEPTH_MAX {
            return Err(group.broken(format!("groups are more than {DEPTH_MAX} deep")));
        }
        let mut all = Items::<S>::default();
        for item in items(group)? {
            match item.strip("!") {
                Some(item) => {
                    all.excluded.add(&self.item(item, variables, depth)?.set(item)?);
                }
                None => all.add(&self.item(item, variables, depth)?),
            }
        }
        Ok(all)
    }

    fn item(&mut self, item: Piece<'_>, variables: &Variables, depth: usize) -> Read<Items<S>> {
        if item.is_empty() {
            return Err(item.broken(format!("{} are missing here", S::MEMBERS)));
        }
        if item.starts_with('[') {
            let inner = item.part(1..item.text.len() - 1).trim();
            return self.group(inner, variables, depth + 1);
        }
        match item.strip("$") {
            Some(name) => self.variable(item, name.text, variables, depth),
            None => S::member(item).map(Items::member),
        }
    }

    fn variable(
        &mut self,
        place: Piece<'_>,
        name: &str,
        variables: &Variables,
        depth: usize,
    ) -> Read<Items<S>> {
        if !self.variables.contains_key(name) {
            let Some(text) = variables.get(name) else {
                return Err(place.broken(format!("`${name}` is not defined")));
            };
            if let Some(start) = self.open.iter().position(|open| **open == *name) {
                let way: String = self.open[start..].iter().map(|n| format!("${n} -> ")).collect();
                return Err(place.broken(format!("`${name}` names itself: {way}${name}")));
            }
            self.open.push(name.into());
            let text = Piece::new(text).trim();
            let items = self.group(text, variables, depth + 1);
            self.open.pop();
            // A variable whose own set is empty is a mistake wherever it stands.
            let items = items.and_then(|items| items.set(text).map(|_| items));
            self.variables.insert(name.into(), items.map_err(|refusal| reported(&refusal)));
        }
        match self.variables.get(name) {
            Some(Ok(items)) => Ok(items.clone()),
            Some(Err(message)) => Err(place.broken(format!("in `${name}`: {message}"))),
            None => Err(place.broken(format!("`${name}` is not defined"))),
        }
    }
}

/// The refusal of a text that is neither addresses nor ports.
fn neither(text: Piece<'_>, addresses: &Refusal, ports: &Refusal) -> Refusal {
    let (addresses, ports) = (reported(addresses), reported(ports));
    if addresses == ports {
        return text.broken(addresses);
    }
    text.broken(format!("neither addresses nor ports: {addresses}, and {ports}"))
}

fn reported(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Broken(fault) => fault.message.clone(),
        Refusal::Held(need) => need.to_string(),
        Refusal::Skipped(why) => why.clone(),
    }
}

/// The items between commas outside brackets. An item that starts with `[`, perhaps after `!`, ends
/// with its `]`.
fn items(group: Piece<'_>) -> Read<Vec<Piece<'_>>> {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, byte) in group.text.bytes().enumerate() {
        match byte {
            b'[' if depth > 0
                || group.part(start..at).trim().text.trim_start_matches('!').trim().is_empty() =>
            {
                depth += 1;
            }
            b'[' => return Err(group.part(at..at + 1).broken("`[` in the middle")),
            b']' => {
                let too_many = || group.part(at..at + 1).broken("`]` without its `[`");
                depth = depth.checked_sub(1).ok_or_else(too_many)?;
                let rest = group.behind(at + 1).text.trim_start();
                if depth == 0 && !(rest.is_empty() || rest.starts_with(',')) {
                    return Err(group
                        .behind(at + 1)
                        .expected("unexpected after `]`", "`,` or the end"));
                }
            }
            b',' if depth == 0 => {
                items.push(group.part(start..at).trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(group.expected("`]` is missing", "each `[` has its `]`"));
    }
    items.push(group.behind(start).trim());
    Ok(items)
}
