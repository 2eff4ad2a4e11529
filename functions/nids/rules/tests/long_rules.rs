//! Files of 100 MB with few valid rules: mistakes are reported, counted and bounded, and so is
//! memory. Runs in a process of its own, whose memory is measured.

use warpline_config::LISTED_MAX;
use warpline_nids_rules::{Configs, Dialect, RuleFile, RuleSet, Variables, read};

const LEN: usize = 100_000_000;
/// The memory that reading may take besides the text.
const MEMORY_MAX_KIB: u64 = 8 << 10;

#[test]
fn very_long_files_are_read_in_little_memory() {
    let (text, count) = mostly_comments();
    let set = read_in_little_memory(&text);
    assert_eq!((set.rules.len(), set.held.count(), set.broken.count()), (count, count, 4 * count));
    assert!(set.broken.iter().count() == LISTED_MAX && count > 1000);
    let messages: Vec<(usize, &str)> =
        set.broken.iter().take(4).map(|broken| (broken.line, broken.message.as_str())).collect();
    let expected = [
        (3, "`;` is missing"),
        (4, "`depth` needs a `content` before it"),
        (5, "the rule is too long"),
        (6, "`70000` is not a port"),
    ];
    assert_eq!(messages, expected);
    drop(text);
    // Nothing in it is a line, or every byte is one.
    for byte in [b'\\', b'\n', b'\xff'] {
        let set = read_in_little_memory(&vec![byte; LEN]);
        assert!(set.rules.is_empty() && set.broken.count() <= 1, "{byte}");
    }
}

/// Text with two valid rules and four invalid ones in each long stretch, and the number of
/// stretches. The first rule of each stretch needs an unsupported buffer.
fn mostly_comments() -> (Vec<u8>, usize) {
    let mut text = Vec::with_capacity(LEN);
    let comment =
        format!("# alert tcp any any -> any any (content:\"{}\"; sid:1;)\n", "x".repeat(200));
    let cut =
        format!("alert tcp any any -> any any (content:\"{}\"; sid:1;)\n", "x".repeat(70_000));
    for count in 0.. {
        let rules = [
            &format!(
                "alert http any any -> any any (http.uri; content:\"a\"; sid:{};)\n",
                2 * count + 1
            ),
            &format!("alert tcp any any -> any any (content:\"a\"; sid:{};)\n", 2 * count + 2),
            "alert tcp any any -> any any (content:\"a\"\n",
            "alert tcp any any -> any any (depth:1; sid:1;)\n",
            &cut,
            "alert tcp any 70000 -> any any (content:\"a\"; sid:1;)\n",
        ];
        if text.len() + cut.len() + 100 * comment.len() + 1000 > LEN {
            return (text, count);
        }
        rules.iter().for_each(|rule| text.extend_from_slice(rule.as_bytes()));
        (0..100).for_each(|_| text.extend_from_slice(comment.as_bytes()));
    }
    unreachable!("it becomes full")
}

fn read_in_little_memory(text: &[u8]) -> RuleSet {
    let before = peak_kib();
    let file = RuleFile { name: "long.rules".into(), bytes: text, dialect: Dialect::Suricata };
    let set = read(&[file], &Variables::default(), &Configs::default());
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        assert!(after - before < MEMORY_MAX_KIB, "{} KiB", after - before);
    }
    set
}

/// The peak memory of the process, if the system reports it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
