//! Checks of dropped packets: the sink sees each as it was when the function that dropped it got
//! it.

use std::collections::{BTreeMap, BTreeSet};

use super::forms::{FORMS, Form, NARROW};
use super::frames::Input;
use super::run::Outcome;

/// Fails if a packet that `form`, alone in its chain, dropped is not one of `inputs`, byte for
/// byte. Fails also if one of the reasons that the form is there to show did not occur.
pub(crate) fn check_as_they_came(form: &Form, inputs: &[Input], outcome: &Outcome) {
    let mut by_time: BTreeMap<u64, BTreeSet<&[u8]>> = BTreeMap::new();
    for input in inputs {
        by_time.entry(input.nanos).or_default().insert(&input.bytes);
    }
    let mut reasons = BTreeSet::new();
    for (at, (dropped, why)) in outcome.dropped.iter().enumerate() {
        let came = by_time.get(&dropped.nanos).is_some_and(|all| all.contains(&*dropped.bytes));
        assert!(came, "{}: packet {at}, {why}: {dropped:?} is not as it came", form.name);
        reasons.insert(why.rsplit(": ").next().unwrap_or_default());
    }
    let shown = form.shows.iter().filter_map(|name| name.strip_prefix('!'));
    let missing: Vec<_> = shown.filter(|name| !reasons.contains(name)).collect();
    assert!(missing.is_empty(), "{}: {missing:?} of {reasons:?}", form.name);
}

/// Every form that drops packets.
pub(crate) fn dropping() -> impl Iterator<Item = &'static Form> {
    FORMS.iter().chain(NARROW).filter(|form| form.shows.iter().any(|name| name.starts_with('!')))
}
