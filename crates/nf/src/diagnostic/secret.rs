//! What may be a key in a line of a file, so that no message shows it: a file of keys is easily named in the place of another.

/// Digits of a word that may be a key in hexadecimal, or letters of one in base 64.
const DIGITS: usize = 16;
const LETTERS: usize = 24;

/// Whether a line may have a key: a long word of digits, or something behind a word such as `secret`.
pub(super) fn is_in(line: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-');
    // Digits may stand right behind a name, as in `key=...`.
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '_';
    line.contains("-----BEGIN")
        || line.split(|c| !is_digit(c)).any(is_hexadecimal)
        || line.split(|c| !is_letter(c)).any(is_base64)
        || is_named(line)
}

fn is_hexadecimal(row: &str) -> bool {
    let digits = || row.bytes().filter(|byte| *byte != b'_');
    let count = digits().count();
    let is_number = count <= 20 && digits().all(|byte| byte.is_ascii_digit());
    count >= DIGITS && !is_number
}

fn is_base64(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
    word.len() >= LETTERS
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// Whether a word that names a secret stands before `=` or `:` and something more.
fn is_named(line: &str) -> bool {
    const NAMES: [&str; 5] = ["secret", "password", "passphrase", "psk", "private_key"];
    let line = line.to_ascii_lowercase();
    NAMES.iter().any(|name| {
        let behind = line.split_once(name).map(|(_, behind)| behind.trim_start());
        let value = behind.and_then(|behind| behind.strip_prefix(['=', ':']));
        value.is_some_and(|value| value.trim().len() >= 8)
    })
}

/// `message` with `***` for whatever stands in quotes in it.
pub(super) fn without_quotes(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(['`', '"']) {
        let quote = &rest[at..=at];
        shown.push_str(&rest[..at]);
        let Some(end) = rest[at + 1..].rfind(quote) else { return shown + "***" };
        shown.push_str(&format!("{quote}***{quote}"));
        rest = &rest[at + end + 2..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_may_have_a_key() {
        for line in [
            "enc = \"000102030405060708090a0b0c0d0e0f\"",
            "    aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128",
            "AbCdEfGh1234567890AbCdEfGh+/==",
            "psk = hunter2hunter2",
            "Password: correct horse",
            "-----BEGIN RSA PRIVATE KEY-----",
            "key=000102030405060708090a0b0c0d0e0f",
            "zonk-000102030405060708090a0b0c0d0e0f+zonk",
            "enc_000102030405060708090a0b0c0d0e0f",
            "spi1000_xyz000102030405060708090a0b0c0d0e0f",
        ] {
            assert!(is_in(line), "{line}");
        }
        for line in [
            "",
            "functions = [\"firewall\", \"nat\"]",
            "input = \"captures/2024-01-01/day.pcap\"",
            "alert tcp any any -> any any (msg:\"password in clear\"; content:\"password\"; sid:2024001;)",
            "10.0.0.0/8 via 192.168.0.1, 2001:db8:1234:5678:9abc:def0:1234:5678",
            "packets = 1000000000000000000",
            "packets = 1_000_000_000_000_000_000",
            "id = \"123e4567-e89b-12d3-a456-426614174000\"",
        ] {
            assert!(!is_in(line), "{line}");
        }
    }

    #[test]
    fn what_is_quoted_is_left_out() {
        assert_eq!(without_quotes("`a1` is no action"), "`***` is no action");
        assert_eq!(without_quotes("can't read \"a\\\"b\": why"), "can't read \"***\": why");
        assert_eq!(without_quotes("`open"), "***");
        assert_eq!(without_quotes("nothing"), "nothing");
    }
}
