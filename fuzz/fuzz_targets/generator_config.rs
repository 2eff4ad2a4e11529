//! The settings of the generator and of `impair`, and frames made by them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_io::generator::{Generator, GeneratorConfig, ParseProblem};
use warpline_io::middleware::{Impair, ImpairConfig};
use warpline_io::{FRAME_LEN_MAX, Next, Source};

fuzz_target!(|text: &str| {
    let (own, worse) = text.split_once('\0').unwrap_or((text, ""));
    let config = checked(own, GeneratorConfig::parse(own));
    let impair = checked(worse, ImpairConfig::parse(worse));
    let Some(config) = config else { return };
    // A table of many flows takes long to make; waiting in real time takes longer.
    if config.flows() > 4096 || config.has_rates() {
        return;
    }
    let longest = config.frame_len_max();
    let again = config.clone();
    let frames = frames(Generator::new(config), 50, longest);
    assert_eq!(
        frames,
        self::frames(Generator::new(again.clone()), 50, longest),
        "it is a function"
    );
    if let Some(impair) = impair {
        self::frames(Impair::new(Generator::new(again), impair), 50, longest);
    }
});

fn checked<T>(text: &str, parsed: Result<T, Vec<ParseProblem>>) -> Option<T> {
    match parsed {
        Ok(config) => Some(config),
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(problem.column >= 1 && problem.column <= text.len() + 1);
                assert!(!problem.to_string().is_empty());
            }
            None
        }
    }
}

fn frames(mut source: impl Source, count: usize, longest: usize) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    // One that holds frames back may say more often that there is none.
    for _ in 0..4 * count {
        match source.next().expect("nothing to fail") {
            Next::Frame(frame) => {
                assert!(frame.bytes.len() <= longest.min(FRAME_LEN_MAX));
                assert!(frame.bytes.len() <= frame.wire_len as usize);
                found.push((frame.timestamp.as_nanos(), frame.bytes.to_vec()));
            }
            Next::Idle(_) => {}
            Next::End => break,
        }
        if found.len() == count {
            break;
        }
    }
    found
}
