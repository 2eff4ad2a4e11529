//! Suggestions for mistyped names.

/// A question for the name that a user may have meant, to begin a list of all `names`; empty if
/// none is close.
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    similar(typed, names).map_or_else(String::new, |name| format!("did you mean {name:?}? "))
}

/// The one of `names` that `typed` is most likely a mistake for, if one is close: at most one edit
/// in three letters.
fn similar<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |name: &'a str| (strsim::osa_distance(typed, name), name);
    let closest = names.into_iter().filter(|name| name.len() <= 2 * typed.len()).map(edits);
    let (count, name) = closest.min_by_key(|(count, _)| *count)?;
    (count > 0 && 3 * count <= name.chars().count().max(3)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_found_and_others_not() {
        let names = ["inside", "outside", "rules", "device"];
        for (typed, expected) in [
            ("insde", Some("inside")),
            ("outsied", Some("outside")),
            ("rule", Some("rules")),
            ("devise", Some("device")),
            ("x", None),
            ("lanes", None),
            ("inside", None),
            ("", None),
        ] {
            assert_eq!(similar(typed, names), expected, "{typed:?}");
        }
    }
}
