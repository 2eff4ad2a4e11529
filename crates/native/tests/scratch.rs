//! Scratch memory goes back when the databases that need it do. In a process of its own, as all
//! databases of one share it.

use warpline_native::hyperscan::{Database, Library, Literal};

fn database(library: &'static Library, literals: &[String]) -> Database {
    let literals: Vec<Literal<'_>> = literals
        .iter()
        .map(|text| Literal { bytes: text.as_bytes(), is_caseless: false })
        .collect();
    Database::compile(library, &literals).expect("literals that it takes")
}

fn finds(database: &Database, text: &str) -> bool {
    let mut is_found = false;
    let on_hit = |_| {
        is_found = true;
        true
    };
    database.scan(text.as_bytes(), on_hit).expect("memory for scratch");
    is_found
}

#[test]
fn scratch_shrinks_when_a_large_database_goes() {
    let Ok(library) = Library::load() else { return };
    let small = database(library, &["ab".into()]);
    assert!(finds(&small, "ab"));
    let before = library.scratch_lens();
    assert!(before[0] > 0 && before[1] == before[0]);
    let many: Vec<String> = (0..5000).map(|number| format!("{number}literal")).collect();
    let large = database(library, &many);
    let [needed, own] = library.scratch_lens();
    assert!(needed > before[0], "{needed}");
    assert_eq!(own, before[1], "no scan needed more yet");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(finds(&large, "4999literal") && finds(&small, "ab"));
            assert_eq!(library.scratch_lens(), [needed; 2]);
        });
    });
    assert!(finds(&large, "4999literal"));
    assert_eq!(library.scratch_lens(), [needed; 2]);
    // Another that needs as much keeps it.
    let other = database(library, &many);
    drop(large);
    assert!(finds(&other, "1literal") && finds(&small, "ab"));
    assert_eq!(library.scratch_lens(), [needed; 2]);
    drop(other);
    assert_eq!(library.scratch_lens(), [before[0], needed], "no scan came since");
    assert!(finds(&small, "ab") && !finds(&small, "4999literal"));
    assert_eq!(library.scratch_lens(), before);
    // With the last one all goes, and the next is fitted anew.
    drop(small);
    assert_eq!(library.scratch_lens()[0], 0);
    let again = database(library, &many);
    assert!(finds(&again, "4999literal"));
    assert_eq!(library.scratch_lens(), [needed; 2]);
}
