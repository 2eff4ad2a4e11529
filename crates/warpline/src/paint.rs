//! Colours of messages on a terminal: escape sequences of ECMA-48, unless `NO_COLOR` is set.

use std::io::IsTerminal;

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";

/// Whether standard error gets colours.
pub(crate) fn is_wanted() -> bool {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let [none, force, terminal] = ["NO_COLOR", "CLICOLOR_FORCE", "TERM"].map(variable);
    let is_terminal = std::io::stderr().is_terminal() && terminal.as_deref() != Some("dumb");
    decide(none.is_some(), force.is_some_and(|value| value != "0"), is_terminal)
}

/// `NO_COLOR` has precedence over `CLICOLOR_FORCE`, and that over the terminal.
fn decide(is_refused: bool, is_forced: bool, is_terminal: bool) -> bool {
    !is_refused && (is_forced || is_terminal)
}

/// `text` in yellow.
pub(crate) fn yellow(text: &str) -> String {
    format!("{YELLOW}{text}{PLAIN}")
}

/// A summary: the headline in bold, lost packets and warnings in yellow.
pub(crate) fn summary(text: &str) -> String {
    let lost = ["dropped", "malformed", "overload", "unwritten", "warning:"];
    by_line(text, |number, line| {
        let is_lost = line.split_whitespace().next().is_some_and(|word| lost.contains(&word));
        match number {
            0 => format!("{BOLD}{line}{PLAIN}"),
            _ if is_lost => yellow(line),
            _ => line.to_owned(),
        }
    })
}

/// Messages: `error:` in red, `warning:` in yellow, the marks below a quoted line in red.
pub(crate) fn messages(text: &str) -> String {
    by_line(text, |_, line| {
        for (word, colour) in [("error:", RED), ("warning:", YELLOW)] {
            if let Some(rest) = line.strip_prefix(word) {
                return format!("{BOLD}{colour}{word}{PLAIN}{rest}");
            }
        }
        match line.split_once('|') {
            Some((before, marks)) if before.trim().is_empty() && is_marks(marks) => {
                format!("{before}|{RED}{marks}{PLAIN}")
            }
            _ => line.to_owned(),
        }
    })
}

/// Whether a line only marks a part of the one above.
fn is_marks(text: &str) -> bool {
    text.contains('^') && text.chars().all(|letter| letter == ' ' || letter == '^')
}

/// Each line as `painted` makes it of its number and its text.
fn by_line(text: &str, painted: impl Fn(usize, &str) -> String) -> String {
    let lines = text.split_inclusive('\n').enumerate();
    let line = |(number, line): (usize, &str)| match line.strip_suffix('\n') {
        Some(line) => painted(number, line) + "\n",
        None => painted(number, line),
    };
    lines.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_has_precedence_over_force_and_the_terminal() {
        for (is_refused, is_forced, is_terminal, expected) in [
            (false, false, false, false),
            (false, false, true, true),
            (false, true, false, true),
            (true, false, true, false),
            (true, true, true, false),
        ] {
            assert_eq!(decide(is_refused, is_forced, is_terminal), expected);
        }
    }

    #[test]
    fn the_headline_and_lost_packets_stand_out() {
        let expected = "\u{1b}[1mdemo: 3 packets\u{1b}[0m\n  read     3\n\u{1b}[33m  dropped  1  \
                        nat: fragment 1\u{1b}[0m\n";
        let text = "demo: 3 packets\n  read     3\n  dropped  1  nat: fragment 1\n";
        assert_eq!(summary(text), expected);
    }

    #[test]
    fn the_kind_of_a_message_and_the_marks_stand_out() {
        let text = "error: a.rules:2:8: unknown word\n    2 | a | bad\n      |     ^^^\nwarning: w";
        let expected = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m a.rules:2:8: unknown word\n    2 | a | \
                        bad\n      |\u{1b}[31m     ^^^\u{1b}[0m\n\u{1b}[1m\u{1b}[33mwarning:\
                        \u{1b}[0m w";
        assert_eq!(messages(text), expected);
    }
}
