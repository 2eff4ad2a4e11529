//! `requires`: a rule for engines of some version only, or with some keyword or feature (manual,
//! "requires").

use super::keywords;
use super::piece::{Piece, Read, Refusal};

/// The Suricata whose rules are read, as `requires` compares it.
const VERSION: [u8; 3] = [8, 0, 0];

/// Whether the rule is for us; [`Refusal::Skipped`] where it is not.
pub(super) fn check(value: Piece<'_>) -> Read<()> {
    let mut has_version = false;
    for requirement in value.list().filter(|r| !r.is_empty()) {
        let (name, rest) = requirement.word();
        let is_met = match name.text {
            "version" if has_version => return Err(name.broken("the version is repeated")),
            "version" => {
                has_version = true;
                version(rest)?
            }
            "keyword" => keywords::is_known(&rest.text.to_ascii_lowercase()),
            // None of Suricata's optional features, and nothing that is not known.
            _ => false,
        };
        if !is_met {
            return Err(Refusal::Skipped(requirement.text.into()));
        }
    }
    Ok(())
}

/// `>= 7.0.4 < 8 | >= 8.0.3`: all of one side.
fn version(expression: Piece<'_>) -> Read<bool> {
    let mut rest = expression;
    let (mut is_met, mut side) = (false, true);
    if rest.is_empty() {
        return Err(expression.expected("a version is missing", "version >= 8.0.0"));
    }
    while !rest.is_empty() {
        if let Some(next) = rest.strip("|") {
            is_met |= side;
            (side, rest) = (true, next);
            continue;
        }
        let (operator, behind) = operator(rest)?;
        let end = behind.text.find([' ', '|', '<', '>']).unwrap_or(behind.text.len());
        let required = numbers(behind.part(0..end))?;
        side &= operator(&VERSION, &required);
        rest = behind.behind(end).trim();
    }
    Ok(is_met | side)
}

type Compared = fn(&[u8; 3], &[u8; 3]) -> bool;

fn operator(rest: Piece<'_>) -> Read<(Compared, Piece<'_>)> {
    let operators: [(&str, Compared); 4] =
        [(">=", |a, b| a >= b), ("<=", |a, b| a <= b), (">", |a, b| a > b), ("<", |a, b| a < b)];
    let mut found = operators.iter().filter_map(|(name, is)| Some((*is, rest.strip(name)?)));
    found.next().ok_or_else(|| rest.expected("no comparison of versions", "one of >= <= > <"))
}

fn numbers(version: Piece<'_>) -> Read<[u8; 3]> {
    let mut numbers = [0; 3];
    let no_version = || version.expected("this is not a version", "1 to 3 numbers, as in 8.0.1");
    let mut parts = version.text.split('-').next().unwrap_or_default().split('.');
    for (number, part) in numbers.iter_mut().zip(&mut parts) {
        *number = part.parse().map_err(|_| no_version())?;
    }
    if parts.next().is_some() { Err(no_version()) } else { Ok(numbers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_as_the_manual_has_them() {
        for (text, is_met) in [
            ("version >= 7.0.0", Some(true)),
            ("version >= 7.0.4 < 8", Some(false)),
            ("version >= 7.0.4 < 8 | >= 8.0.0", Some(true)),
            ("version >= 7.0.10 < 8 | >= 8.0.5 < 9 | >= 9.0.3", Some(false)),
            ("version >7.0.3<8.0.1, keyword content", Some(true)),
            ("version >= 8.0.0-beta1", Some(true)),
            ("feature geoip, version >= 7.0.0, keyword foobar", Some(false)),
            ("keyword foobar", Some(false)),
            ("keyword http.uri", Some(true)),
            ("keyword Content, keyword tag", Some(true)),
            ("moon full", Some(false)),
            ("version 8", None),
            ("version >= 8.x", None),
            ("version >= 1.2.3.4", None),
            ("version", None),
            ("version >= 7, version < 9", None),
        ] {
            let found = match check(Piece::new(text)) {
                Ok(()) => Some(true),
                Err(Refusal::Skipped(_)) => Some(false),
                Err(_) => None,
            };
            assert_eq!(found, is_met, "{text}");
        }
    }
}
