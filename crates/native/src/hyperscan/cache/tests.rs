//! The cache finds stored databases again, and refuses files that are broken or written by others.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;

/// An empty folder, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpline-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn literals(texts: &[&'static str]) -> Vec<Literal<'static>> {
    texts.iter().map(|text| Literal { bytes: text.as_bytes(), is_caseless: true }).collect()
}

fn hits(database: &Database, text: &[u8]) -> Vec<u32> {
    let mut hits = Vec::new();
    let scanned = database.scan(text, |hit| {
        hits.push(hit);
        true
    });
    assert_eq!(scanned, Ok(()));
    hits.sort_unstable();
    hits
}

fn library() -> Option<&'static Library> {
    Library::load().inspect_err(|missing| println!("skipped: {missing}")).ok()
}

#[test]
fn kept_databases_find_what_compiled_ones_do() {
    let Some(library) = library() else { return };
    let folder = Folder::new("cache-kept");
    let cache = Cache::new(folder.0.join("in/it"));
    let literals = literals(&["abc", "BCD", "x"]);
    let made = cache.database(library, &literals).unwrap();
    let key = key(library, &literals);
    assert!(Sealed::read(&cache.path(&key), &key).is_some());
    let kept = cache.database(library, &literals).unwrap();
    for text in [&b"ABCD"[..], b"x", b"", b"abC x"] {
        assert_eq!(hits(&kept, text), hits(&made, text));
    }
    assert_eq!(hits(&kept, b"ABCD"), [0, 1]);
    let mode = fs::metadata(cache.folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn other_literals_are_other_files() {
    let Some(library) = library() else { return };
    let folder = Folder::new("cache-keys");
    let cache = Cache::new(&folder.0);
    let exact = [Literal { bytes: b"ab", is_caseless: false }];
    for literals in [&literals(&["ab"])[..], &literals(&["a", "b"]), &literals(&["abc"]), &exact] {
        cache.database(library, literals).unwrap();
    }
    assert_eq!(folder.files().len(), 4);
}

#[test]
fn broken_and_foreign_files_are_written_anew() {
    let Some(library) = library() else { return };
    let folder = Folder::new("cache-broken");
    let cache = Cache::new(&folder.0);
    let literals = literals(&["needle", "pin"]);
    let key = key(library, &literals);
    cache.database(library, &literals).unwrap();
    let path = cache.path(&key);
    let whole = fs::read(&path).unwrap();
    let last = whole.len() - 1;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let other_key = [&whole[..16], &[7; 32], &whole[48..]].concat();
    let broken =
        [flipped(0), flipped(20), flipped(50), flipped(last), flipped(whole.len() / 2), other_key];
    for bytes in
        broken.into_iter().chain([Vec::new(), whole[..last].to_vec(), whole[..40].to_vec()])
    {
        fs::write(&path, &bytes).unwrap();
        assert!(Sealed::read(&path, &key).is_none());
        assert_eq!(hits(&cache.database(library, &literals).unwrap(), b"a pin"), [1]);
        assert!(fs::read(&path).unwrap() == whole);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(Sealed::read(&path, &key).is_none());
    // Sealed as it should be, and yet nothing that the library takes.
    let draft = path.with_extension("draft");
    seal(&path, &draft, &key, b"no database").unwrap();
    assert!(Sealed::read(&path, &key).is_some());
    assert_eq!(hits(&cache.database(library, &literals).unwrap(), b"a pin"), [1]);
    assert_eq!(folder.files(), [path]);
}

#[test]
fn a_folder_that_can_t_be_written_to_is_as_none() {
    let Some(library) = library() else { return };
    let cache = Cache::new("/dev/null/cache");
    assert_eq!(hits(&cache.database(library, &literals(&["a"])).unwrap(), b"a"), [0]);
}

#[test]
fn the_least_recently_read_file_is_removed() {
    let folder = Folder::new("cache-trim");
    fs::create_dir_all(&folder.0).unwrap();
    for (name, len, age) in
        [("a.hsdb", 10, 3), ("b.hsdb", 10, 9), ("c.4-0.draft", 10, 8), ("other", 99, 50)]
    {
        fs::write(folder.0.join(name), vec![0; len]).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::open(folder.0.join(name)).unwrap().set_modified(time).unwrap();
    }
    Cache::new(&folder.0).trim(15).unwrap();
    assert_eq!(folder.files(), ["a.hsdb", "other"].map(|name| folder.0.join(name)));
}

#[test]
fn a_pipe_is_not_waited_for() {
    let folder = Folder::new("cache-pipe");
    fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    assert!(Sealed::read(&path, &[0; 32]).is_none());
}
