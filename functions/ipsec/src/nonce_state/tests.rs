//! Reservations, refusals, and the file after a crash.

use std::collections::HashMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// An empty folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("warpline-nonce-state-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn state(&self) -> PathBuf {
        self.0.join("nonces")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(number: u8) -> NonceKey {
    let fingerprint = Fingerprint::of(&[number; 20]);
    NonceKey { fingerprint, first: 1, last: u64::from(u32::MAX) }
}

fn one(state: &NonceState, key: NonceKey) -> Reserve {
    state.add(&[key]).unwrap().remove(0)
}

#[test]
fn a_fingerprint_is_of_the_key() {
    // `printf 'warpline nonce' | cat - <(head -c 20 /dev/zero) | sha256sum`
    let zero = Fingerprint::of(&[0; 20]).to_string();
    assert_eq!(zero, "8acbe2dcce644fda6984b7bfd2ee9b0d");
    assert_ne!(Fingerprint::of(&[0; 28]).to_string(), zero);
}

#[test]
fn an_orderly_end_keeps_the_exact_numbers() {
    let folder = Folder::new("orderly");
    for (round, start) in [(0, 1), (1, 101), (2, 201)] {
        let state = NonceState::open_by_blocks(&folder.state(), 64).unwrap();
        let reserves = state.add(&[key(1), key(2)]).unwrap();
        for reserve in &reserves {
            assert_eq!(reserve.start(), start, "round {round}");
            assert!((start..start + 100).all(|number| reserve.covers(number)));
        }
        // Either may go first. A process may end without closing the state.
        if round == 1 {
            drop(reserves);
            let written = fs::read(folder.state()).unwrap();
            state.close().unwrap();
            assert_eq!(written, fs::read(folder.state()).unwrap());
        } else {
            state.close().unwrap();
            drop(reserves);
        }
    }
    let mode = fs::metadata(folder.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_number_is_given_once() {
    let folder = Folder::new("once");
    let state = NonceState::open_by_blocks(&folder.state(), 8).unwrap();
    let reserve = one(&state, NonceKey { first: 5, ..key(1) });
    let asked =
        [(4, false), (5, true), (5, false), (9, true), (7, false), (1000, true), (1001, true)];
    for (number, given) in asked {
        assert_eq!(reserve.covers(number), given, "{number}");
    }
    drop(reserve);
    // The file's number is higher than that of the SA's own file.
    assert_eq!(one(&state, key(1)).start(), 1002);
    assert_eq!(one(&state, NonceKey { first: 5000, ..key(1) }).start(), 5000);
}

#[test]
fn numbers_end() {
    let folder = Folder::new("end");
    let state = NonceState::open_by_blocks(&folder.state(), 8).unwrap();
    for (at, last) in [(1, u64::from(u32::MAX)), (2, u64::MAX - 1), (3, u64::MAX)] {
        let own = NonceKey { first: last - 20, last, ..key(at) };
        let reserve = one(&state, own);
        let end = last.min(u64::MAX - 1);
        assert!((last - 20..=end).all(|number| reserve.covers(number)));
        assert!(!reserve.covers(end.saturating_add(1)));
        drop(reserve);
        let again = state.add(&[own]);
        assert_eq!(again.is_err(), last < u64::MAX, "{last}");
    }
}

#[test]
fn keys_come_and_go_and_are_kept() {
    let folder = Folder::new("keys");
    let state = NonceState::open_by_blocks(&folder.state(), 8).unwrap();
    let [first, second] = <[Reserve; 2]>::try_from(state.add(&[key(1), key(2)]).unwrap()).unwrap();
    assert!(state.is_held(key(1).fingerprint) && !state.is_held(key(3).fingerprint));
    let reported = state.add(&[key(3), key(1)]).unwrap_err();
    assert_eq!(reported, format!("key {} is in use already", key(1).fingerprint));
    let reported = state.add(&[key(3), key(3)]).unwrap_err();
    assert_eq!(reported, format!("key {} is in use already", key(3).fingerprint));
    assert!(!state.is_held(key(3).fingerprint), "all or none");
    assert!((1..=30).all(|number| first.covers(number)));
    drop((first, second));
    let third = one(&state, key(3));
    assert!(third.covers(3));
    drop(third);
    state.close().unwrap();
    let state = NonceState::open(&folder.state()).unwrap();
    let starts: Vec<u64> =
        state.add(&[key(3), key(2), key(1)]).unwrap().iter().map(Reserve::start).collect();
    assert_eq!(starts, [4, 1, 31]);
}

#[test]
fn a_file_has_so_many_keys() {
    let folder = Folder::new("many");
    let name = |number: u32| Fingerprint(u128::from(number).to_be_bytes());
    let keys: Vec<NonceKey> =
        (0..=RECORDS_MAX as u32).map(|n| NonceKey { fingerprint: name(n), ..key(0) }).collect();
    let state = NonceState::open(&folder.state()).unwrap();
    let reported = state.add(&keys).unwrap_err();
    assert!(
        reported.ends_with("more than 65536 keys; start a new file only with new keys"),
        "{reported}"
    );
    assert_eq!(state.add(&keys[1..]).unwrap().len(), RECORDS_MAX);
    state.close().unwrap();
    assert!(NonceState::open(&folder.state()).is_ok());
}

#[test]
fn one_process_has_the_file() {
    let folder = Folder::new("lock");
    let state = NonceState::open(&folder.state()).unwrap();
    let reserve = one(&state, key(1));
    let path = folder.state();
    let refused = || NonceState::open(&path).unwrap_err();
    let reported =
        format!("{}: it is in use: one running chain at a time may have it", path.display());
    assert_eq!(refused(), reported);
    drop(state);
    assert_eq!(refused(), reported, "a lane has numbers yet");
    drop(reserve);
    assert!(NonceState::open(&path).is_ok());
}

#[test]
fn others_must_not_read_or_write_it() {
    let folder = Folder::new("mode");
    drop(NonceState::open(&folder.state()).unwrap());
    for (mode, opens) in [(0o600, true), (0o400, true), (0o640, false), (0o602, false)] {
        fs::set_permissions(folder.state(), Permissions::from_mode(mode)).unwrap();
        let reported = NonceState::open(&folder.state()).err();
        assert_eq!(reported.is_none(), opens, "{mode:o} {reported:?}");
        assert!(reported.is_none_or(|reported| reported.ends_with("`chmod 600` it")));
    }
    fs::remove_file(folder.state()).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.state()).unwrap();
    assert!(NonceState::open(&folder.state()).unwrap_err().ends_with("not a plain file"));
}

#[test]
fn where_nothing_can_be_written_nothing_is_given() {
    let folder = Folder::new("full");
    let state = NonceState::open_by_blocks(&folder.state(), 8).unwrap();
    let reserve = one(&state, key(1));
    // The folder is gone: as with a full disk, no file can be made.
    fs::remove_dir_all(&folder.0).unwrap();
    assert!((1..=8).all(|number| reserve.covers(number)), "these were reserved");
    assert!((9..20).all(|number| !reserve.covers(number)));
    assert!(state.trouble().unwrap().contains("can't be written"));
    assert!(state.add(&[key(2)]).is_err());
    fs::create_dir_all(&folder.0).unwrap();
    assert!((9..100).all(|number| reserve.covers(number)), "there is room again");
    assert_eq!(state.trouble(), None);
}

#[test]
fn torn_or_edited_files_are_refused() {
    let folder = Folder::new("torn");
    let path = folder.state();
    let with = |numbers: u64| {
        let state = NonceState::open_by_blocks(&path, 8).unwrap();
        let reserve = one(&state, key(1));
        assert!((reserve.start()..reserve.start() + numbers).all(|number| reserve.covers(number)));
        drop((reserve, state));
        fs::read(&path).unwrap()
    };
    let (old, new) = (with(50), with(60));
    let start = |state: &[u8], temporary: &[u8]| {
        fs::remove_file(&path).unwrap();
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.write(true).create_new(true).open(&path).unwrap().write_all(state).unwrap();
        fs::write(folder.0.join("nonces.new"), temporary).unwrap();
        NonceState::open(&path).map(|state| one(&state, key(1)).start())
    };
    for len in 0..=new.len() {
        // Before the new one took its place, none of its numbers was used.
        assert_eq!(start(&old, &new[..len]), Ok(51));
        let found = start(&new[..len], b"");
        match found {
            Ok(start) => assert_eq!((start, len), (111, new.len())),
            Err(reported) => assert!(reported.contains("torn or was changed"), "{reported}"),
        }
    }
    for at in 0..new.len() {
        let mut edited = new.clone();
        edited[at] ^= 1;
        assert!(start(&edited, b"").is_err(), "byte {at}");
    }
    assert!(start(&[&new[..], b"\n"].concat(), b"").is_err());
}

/// The part of [`a_crash_repeats_nothing`] that is killed: every thread uses numbers of its key and
/// notes each before it takes the next.
#[test]
fn child_that_is_killed() {
    let Some(folder) = std::env::var_os("WARPLINE_NONCE_STATE_CHILD").map(PathBuf::from) else {
        return;
    };
    let state = NonceState::open_by_blocks(&folder.join("nonces"), 16).unwrap();
    let reserves = state.add(&[key(1), key(2), key(3)]).unwrap();
    let log = OpenOptions::new().append(true).create(true).open(folder.join("log")).unwrap();
    std::thread::scope(|scope| {
        for (number, reserve) in reserves.into_iter().enumerate() {
            let mut log = &log;
            scope.spawn(move || {
                for sequence in reserve.start().. {
                    assert!(reserve.covers(sequence));
                    // One write, so that lines of threads don't mix. It may be cut when the process
                    // is killed: a whole line ends with a full stop, and none is continued by the
                    // next.
                    log.write_all(format!("\n{number} {sequence}.\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_crash_repeats_nothing() {
    let folder = Folder::new("crash");
    let log = folder.0.join("log");
    let own = std::env::current_exe().unwrap();
    let module = module_path!().split_once("::").unwrap().1;
    let mut random = 12_345_u64;
    for _ in 0..40 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let enough = fs::metadata(&log).map_or(0, |meta| meta.len()) + 1 + (random >> 50);
        let mut child = Command::new(&own)
            .args(["--exact", &format!("{module}::child_that_is_killed")])
            .env("WARPLINE_NONCE_STATE_CHILD", &folder.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while fs::metadata(&log).map_or(0, |meta| meta.len()) < enough {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = HashMap::new();
    let text = fs::read_to_string(&log).unwrap();
    for line in text.lines().filter_map(|line| line.strip_suffix('.')) {
        let (key, sequence) = line.split_once(' ').unwrap();
        let sequence: u64 = sequence.parse().unwrap();
        let before = last.insert(key, sequence).unwrap_or(0);
        assert!(before < sequence, "key {key}: {sequence} after {before}");
    }
    assert_eq!(last.len(), 3);
}
