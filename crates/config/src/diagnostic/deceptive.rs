//! Characters that disguise text.

/// Whether `c` is a control character, turns the direction of writing (Unicode Standard Annex 9,
/// clause 2), ends a line, or is never seen.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // The direction of writing.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph ends.
            | '\u{2028}' | '\u{2029}'
            // Without a width: spaces, operators, marks, annotations, tags.
            | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_all_scripts_are_plain() {
        assert!(!"aöß→日本 שלום سلام\u{200c}\u{200d}🦀".contains(is_deceptive));
        for c in "\t\n\r\x1b\x7f\u{9b}\u{202e}\u{2067}\u{2028}\u{e0041}\u{feff}".chars() {
            assert!(is_deceptive(c), "{c:?}");
        }
    }
}
