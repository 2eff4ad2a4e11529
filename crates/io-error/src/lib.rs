//! The text of a system error in messages.

#![forbid(unsafe_code)]

use std::io;

/// The error's text in lower case, without the number that the system gives it.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_shown() {
        for (error, text) in [
            (io::Error::from_raw_os_error(2), "no such file or directory"),
            (io::Error::from_raw_os_error(28), "no space left on device"),
            (io::ErrorKind::UnexpectedEof.into(), "unexpected end of file"),
            (io::Error::other("Damaged at byte 7"), "damaged at byte 7"),
            (io::Error::other(""), ""),
        ] {
            assert_eq!(plain(&error), text);
        }
    }
}
