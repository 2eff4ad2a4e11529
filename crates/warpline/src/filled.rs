//! Text in lines of a given width.

/// `text` with its lines broken at 80 columns, by words. The last column of a row is broken, and
/// later parts stand below it; those of other lines are indented by two more than the line.
pub(crate) fn narrowed(text: &str) -> String {
    const COLUMNS: usize = 80;
    let narrow = |line: &str| {
        if line.chars().count() <= COLUMNS {
            return format!("{line}\n");
        }
        let (head, words) = line.split_at(line.rfind("  ").map_or(0, |at| at + 2));
        let indent = head.chars().count() + if head.trim().is_empty() { 2 } else { 0 };
        filled(head, words, indent, COLUMNS)
    };
    let narrowed: String = text.lines().map(narrow).collect();
    narrowed.trim_end().to_owned()
}

/// `words` after `first`, in lines of at most `columns`; later lines are indented by `indent`.
pub(crate) fn filled(first: &str, words: &str, indent: usize, columns: usize) -> String {
    let mut text = first.trim_end().to_owned();
    let mut width = text.chars().count();
    let mut gap = first.chars().count() - width;
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let len = word.chars().count();
        if width + gap + len > columns && width > indent {
            text.push('\n');
            (width, gap) = (0, indent);
        }
        text.extend(core::iter::repeat_n(' ', gap));
        text += word;
        width += gap + len;
        gap = 1;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::narrowed;

    #[test]
    fn rows_are_broken_in_their_last_column() {
        let words = "word ".repeat(20);
        let text = format!("{:<28} {:<10}  {words}\n  rule: {words}\nshort   row", "id", "verdict");
        let lines = narrowed(&text);
        let lines: Vec<&str> = lines.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
        assert_eq!(lines[0].find("word"), Some(41));
        assert_eq!((lines[1].trim_start().len(), lines[1].find("word")), (39, Some(41)));
        assert!(lines.iter().any(|line| line.starts_with("  rule: word")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("    word")), "{lines:#?}");
        assert_eq!(lines.last(), Some(&"short   row"));
        assert_eq!(lines.concat().matches("word").count(), 40);
    }
}
