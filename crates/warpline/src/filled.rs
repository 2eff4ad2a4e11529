//! Text in lines of a given width.

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
