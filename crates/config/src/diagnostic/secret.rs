//! Recognises files and lines that assign keys, so that no message shows them. Users easily name a
//! file of keys in place of another. Text that only looks like a key, such as hexadecimal digits in
//! a rule, is shown.

/// Letters of the shortest value that counts as a secret.
const VALUE_LEN_MIN: usize = 8;

/// Digits of the shortest key after `0x`, and of the shortest value of a plain `key`.
const DIGITS_MIN: usize = 16;

/// Words in the names of secret values, besides a `key` at the end.
const NAMES: [&str; 4] = ["secret", "password", "passphrase", "psk"];

/// Whether a file with this text may have keys: security associations in TOML or in the form of
/// `ip xfrm` and `setkey`, `ipsec.secrets`, `swanctl.conf`, a tunnel's private key, PEM.
pub(crate) fn may_have_keys(text: &str) -> bool {
    text.lines().any(|line| is_sa_table(line) || is_in(line))
}

/// Whether a line gives a key.
pub(super) fn is_in(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("-----BEGIN") || is_assigned(line) || is_option(line) || is_ike_secret(line)
}

/// `[sa]`, `[[sa]]` or `[sa.one]`.
fn is_sa_table(line: &str) -> bool {
    let name = line.trim_start().trim_start_matches('[');
    name.len() < line.trim_start().len() && (name.starts_with("sa]") || name.starts_with("sa."))
}

/// `enc_key = "..."`, at the start of the line or of an inline table's entry. Rules quote such text
/// elsewhere.
fn is_assigned(line: &str) -> bool {
    if line.starts_with('#') || line.contains("sid:") {
        return false;
    }
    line.split(['{', ',']).any(|entry| {
        let entry = entry.trim_start().trim_start_matches(['"', '\'']);
        let end = entry.find(|c: char| !is_of_name(c)).unwrap_or(entry.len());
        let (name, rest) = entry.split_at(end);
        let rest = rest.trim_start_matches(['"', '\'']).trim_start();
        let value = rest.strip_prefix(['=', ':']).map(str::trim);
        let unquoted = value.unwrap_or(rest).trim_start_matches(['"', '\'']);
        let is_key = name.eq_ignore_ascii_case("key");
        // The `key` of JSON may name a field.
        let is_plain = is_key && rest.starts_with(':');
        let len = match value {
            Some(_) if is_plain => base64_digits(unquoted),
            Some(_) if is_key && is_file_name(unquoted) => 0,
            Some(_) => unquoted.len(),
            // The sign itself may be missing.
            None => digits(unquoted),
        };
        is_secret(name) && len >= if is_plain { DIGITS_MIN } else { VALUE_LEN_MIN }
    })
}

/// Whether a value, up to its quote, is one word with a short extension.
fn is_file_name(value: &str) -> bool {
    let word = value.split(['"', '\'']).next().unwrap_or_default();
    let is_short = |end: &str| end.len() <= 6 && end.bytes().all(|c| c.is_ascii_lowercase());
    !word.contains([' ', '\t']) && word.rsplit_once('.').is_some_and(|(_, end)| is_short(end))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_secret(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_key = name.ends_with("Key") || name.ends_with("KEY");
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(['_', '-', '.']);
    is_key || parts.clone().next_back() == Some("key") || parts.any(|part| NAMES.contains(&part))
}

/// `enc cbc(aes) 0x...` of `ip xfrm state`, `add ... -E rijndael-cbc 0x...` of `setkey`.
fn is_option(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let names = ["enc", "auth", "auth-trunc", "aead", "comp"];
    let is_setkey = first == "add" && words.clone().any(|word| matches!(word, "-E" | "-A"));
    // Of a key with a wrong digit the rest is one all the same.
    let is_long = |word: &str| word.starts_with("0x") && word.len() >= 2 + DIGITS_MIN;
    let is_key = |word: &str| digits(word) >= DIGITS_MIN || is_long(word);
    (names.contains(&first) || is_setkey) && words.any(is_key)
}

/// Hexadecimal digits that `word` begins with, after `0x` or without.
fn digits(word: &str) -> usize {
    let word = word.strip_prefix("0x").unwrap_or(word);
    word.bytes().take_while(u8::is_ascii_hexdigit).count()
}

/// Digits of base64 that `text` begins with, those of hexadecimal numbers among them. Colons may
/// separate them.
fn base64_digits(text: &str) -> usize {
    let is_digit = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
    text.bytes().filter(|c| *c != b':').take_while(is_digit).count()
}

/// `@a @b : PSK "..."` of `ipsec.secrets`.
fn is_ike_secret(line: &str) -> bool {
    let (owners, value) = line.split_once(':').unwrap_or_default();
    let mut words = value.split_whitespace();
    let is_kind = matches!(words.next(), Some("PSK" | "EAP" | "XAUTH" | "NTLM" | "RSA"));
    is_kind && words.next().is_some() && !owners.contains(['(', '"', '#'])
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
    fn lines_that_give_a_key() {
        for line in [
            "enc_key = \"000102030405060708090a0b0c0d0e0f\"",
            "  'enc-key' = '000102030405060708090a0b0c0d0e0f'",
            "enc_key \"0x000102030405060708090a0b0c0d0e0f\"",
            "sa = [{ spi = 5, enc_key = \"0001020304050607\" }]",
            "    aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128",
            "\tauth-trunc hmac(sha256) 0x000102030405060708090a0b0c0d0e0f 128",
            "auth 0x001122334455z6778899aabbccddeeff",
            "add 10.0.0.1 10.0.0.2 esp 0x201 -E rijndael-cbc 0x000102030405060708090a0b0c0d0e0f;",
            "psk = hunter2hunter2",
            "Password: correct horse",
            "secret-1 = 0sAbCdEfGh1234",
            "PrivateKey = AbCdEfGh1234567890AbCdEfGh+/==",
            "key = \"000102030405060708090a0b0c0d0e0f\"",
            "key = \"00:11:22:33:44:55:66:77\"",
            "key = \"correct horse battery staple\"",
            "key = \"hunter2hunter2\"",
            "{\"spi\": 5, \"key\": \"AbCdEfGh12345678+/==\"}",
            "{\"spi\": 5, \"key\": \"00:11:22:33:44:55:66:77\"}",
            "Key 0x0001020304050607",
            "192.0.2.1 %any : PSK \"correct horse\"",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            assert!(is_in(line), "{line}");
        }
    }

    #[test]
    fn text_that_anyone_may_see() {
        for line in [
            "",
            "00112233445566778899aabbccddeeff",
            "functions = [\"firewall\", \"nat\"]",
            "input = \"captures/2024-01-01/day.pcap\"",
            "alert tcp any any -> any any (msg:\"password in clear\"; content:\"password\"; \
             sid:2024001;)",
            "alert tcp any any -> any any (content:\"|00112233445566778899aabbccddeeff|\"; sid:1;)",
            "alert tcp any any -> any any (content:\", enc_key = 0011223344556677\"; sid:1;)",
            "alert tcp any any -> any any (content:\"-----BEGIN RSA PRIVATE KEY-----\"; sid:1;)",
            "alert tcp any any -> any any (msg:\"x: PSK sent\"; content:\"psk=hunter2hunter2\"; \
             sid:1",
            "-A INPUT -m comment --comment AbCdEfGh1234567890AbCdEfGh -j ACCEPT",
            "accept tcp from 00112233445566778899aabbccddeeff",
            "# key: what the columns mean",
            "10.0.0.0/8 via 192.168.0.1, 2001:db8:1234:5678:9abc:def0:1234:5678",
            "packets = 1000000000000000000",
            "id = \"123e4567-e89b-12d3-a456-426614174000\"",
            "keys = \"out.sas\"",
            "key = \"link.key\"",
            "key = \"/etc/warpline/edge-1.key\"",
            "{\"match\": {\"left\": {\"meta\": {\"key\": \"l4proto\"}}, \"right\": \"tcp\"}}",
            "{\"key\": \"00:11:22:33:44:55\"}",
            "key internationalization",
            "    \"key\": \"expiration\"",
            "monkey = \"00112233445566778899aabbccddeeff\"",
        ] {
            assert!(!is_in(line) && !may_have_keys(line), "{line}");
        }
    }

    #[test]
    fn files_that_may_have_keys() {
        for text in ["\n [[sa]]\nname = 1\n", "[sa.one]\n", "x\nenc_key = \"0011223344\"\n"] {
            assert!(may_have_keys(text), "{text}");
        }
        assert!(!may_have_keys("[same]\n[chain]\nsa = 1\nsa]\n"));
    }

    #[test]
    fn quoted_text_is_removed() {
        assert_eq!(without_quotes("`a1` is no action"), "`***` is no action");
        assert_eq!(without_quotes("can't read \"a\\\"b\": why"), "can't read \"***\": why");
        assert_eq!(without_quotes("`open"), "***");
        assert_eq!(without_quotes("nothing"), "nothing");
    }
}
