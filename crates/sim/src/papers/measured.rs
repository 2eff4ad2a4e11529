//! Tables of numbers in the output of benches.

/// A line of a table: its words up to the first number, and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    /// All of the line.
    pub(super) words: String,
    pub(super) numbers: Vec<f64>,
}

/// The rows with numbers between a line that starts with `title` and the next empty line or title.
pub(super) fn rows(text: &str, title: &str) -> Vec<Row> {
    let mut lines = text.lines().map(str::trim);
    if !lines.by_ref().any(|line| line.starts_with(title)) {
        return Vec::new();
    }
    let is_own = |line: &&str| !line.is_empty() && !line.contains("figure") && *line != "```";
    lines.take_while(is_own).map(row).filter(|row| !row.numbers.is_empty()).collect()
}

fn row(line: &str) -> Row {
    let clean = |word: &str| {
        word.trim_matches(|one: char| !one.is_ascii_digit() && one != '-' && one != '.').to_owned()
    };
    let number = |word: &str| -> Option<f64> {
        let starts =
            word.trim_start_matches(['+', '(', '-']).starts_with(|one: char| one.is_ascii_digit());
        if starts { clean(word).parse().ok() } else { None }
    };
    let words: Vec<&str> = line.split_whitespace().collect();
    let label: Vec<&str> =
        words.iter().copied().take_while(|word| number(word).is_none()).collect();
    let numbers = words.iter().filter_map(|word| number(word)).collect();
    Row { label: label.join(" "), words: line.to_owned(), numbers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_their_title() {
        let text = "figure 6: three kinds\n  mark  Mpps\n vanilla  0.453  49.2 / 0.0 / 0.0 %\n  \
                    2.8   0.456  +0.8 %  48.2 / 0.0 / 0.0 %\n\nfigure 7\n 1 2\n";
        let found = rows(text, "figure 6");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].label.as_str(), &found[0].numbers[..]),
            ("vanilla", &[0.453, 49.2, 0.0, 0.0][..])
        );
        assert_eq!(found[1].numbers, [2.8, 0.456, 0.8, 48.2, 0.0, 0.0]);
        assert_eq!(
            rows("IPsec, figure 3: x\n 1 streams  best 7.2 (100 %) -3.1 %\n", "IPsec, figure 3")[0]
                .numbers,
            [1.0, 7.2, 100.0, -3.1]
        );
        assert!(rows(text, "figure 8").is_empty());
    }
}
