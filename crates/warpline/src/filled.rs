//! Text in lines of a given width.

/// `text` with its lines broken at 80 columns, by words. Later parts are indented by two more than
/// the line.
pub(crate) fn narrowed(text: &str) -> String {
    const COLUMNS: usize = 80;
    let narrow = |line: &str| {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        match line.chars().count() > COLUMNS {
            true => filled(&" ".repeat(indent), words, indent + 2, COLUMNS),
            false => format!("{line}\n"),
        }
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
