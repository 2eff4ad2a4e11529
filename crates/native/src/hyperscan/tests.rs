//! Known hits, errors, threads with scratch of their own, and scans within scans.

use super::*;

fn database(literals: &[(&[u8], bool)]) -> Option<Database> {
    let library = Library::load().inspect_err(|missing| println!("skipped: {missing}")).ok()?;
    let literals: Vec<_> =
        literals.iter().map(|&(bytes, is_caseless)| Literal { bytes, is_caseless }).collect();
    Some(Database::compile(library, &literals).unwrap())
}

fn scan(database: &Database, text: &[u8]) -> Vec<u32> {
    let mut hits = Vec::new();
    let mut on_hit = |hit| {
        hits.push(hit);
        true
    };
    database.scan(text, &mut on_hit).unwrap();
    hits.sort_unstable();
    hits
}

#[test]
fn literals_are_found_once_each() {
    let literals: &[(&[u8], bool)] =
        &[(b"ab", false), (b"AB", true), (b"a.b", false), (b"\0\xff", false), (b"\\x61", true)];
    let Some(database) = database(literals) else { return };
    assert!(database.memory_len() > 0);
    for (text, hits) in [
        (&b""[..], &[][..]),
        (b"xabab", &[0, 1]),
        (b"xAbaB", &[1]),
        (b"a.b a+b", &[2]),
        (b"\0\xff\0\xff", &[3]),
        (b"\\X61", &[4]),
    ] {
        assert_eq!(scan(&database, text), hits, "{text:?}");
    }
}

#[test]
fn a_scan_ends_when_no_more_is_wanted() {
    let Some(database) = database(&[(b"a", false), (b"b", false)]) else { return };
    let mut count = 0;
    let mut on_hit = |_| {
        count += 1;
        false
    };
    assert_eq!(database.scan(b"ab", &mut on_hit), Ok(()));
    assert_eq!(count, 1);
}

#[test]
fn scans_within_scans_are_not_done() {
    let Some(database) = database(&[(b"a", false)]) else { return };
    let mut inner = Ok(());
    let on_hit = |_| {
        inner = database.scan(b"a", |_| true);
        true
    };
    assert_eq!(database.scan(b"a", on_hit), Ok(()));
    assert_eq!(inner, Err(NotScanned));
}

#[test]
fn literals_that_are_not_taken_are_an_error() {
    let Ok(library) = Library::load() else { return };
    let error = Database::compile(library, &[]).unwrap_err();
    assert_eq!(error.to_string(), "Hyperscan: there are no literals");
    for len in [0, LITERAL_LEN_MAX + 1] {
        let long = vec![b'a'; len];
        let literals = [b"a", &long[..]].map(|bytes| Literal { bytes, is_caseless: false });
        let error = Database::compile(library, &literals).unwrap_err();
        assert_eq!(error.literal, Some(1), "{error}");
    }
}

#[test]
fn the_longest_literals_are_taken() {
    let long: Vec<u8> = (0..LITERAL_LEN_MAX as u32).map(|i| ((i * i) >> 3) as u8).collect();
    let Some(database) = database(&[(&long, false), (&long, true)]) else { return };
    assert_eq!(scan(&database, &long), [0, 1]);
    assert_eq!(scan(&database, &long[1..]), []);
}

/// Threads from before a database that needs more scratch, and threads from after it.
#[test]
fn threads_have_scratch_that_fits_every_database() {
    let Some(small) = &database(&[(b"a", false)]) else { return };
    let many: Vec<Vec<u8>> = (0..3000_u32).map(|i| format!("{i}literal").into_bytes()).collect();
    let literals: Vec<_> = many.iter().map(|bytes| (&bytes[..], false)).collect();
    let check = |large: &Database| assert_eq!(scan(large, b"x2999literal").last(), Some(&2999));
    let (give, take) = std::sync::mpsc::channel::<Database>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert_eq!(scan(small, b"a"), [0]);
            let large = take.recv().unwrap();
            check(&large);
            assert_eq!(scan(small, b"a"), [0]);
        });
        scope.spawn(|| check(&database(&literals).unwrap()));
        give.send(database(&literals).unwrap()).unwrap();
    });
}
