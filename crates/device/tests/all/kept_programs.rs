//! Programs of OpenCL and of the host are taken from the disk cache if they are whole, and compiled
//! otherwise. Every start is a process of its own, with a cache of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::common::{call, devices, do_now, shifting};
use crate::devices::{part, piece_of};
use warpline_device::{Argument, Device, Step, Work, open, self_test};

use Argument::{Reads, U32, U64, Writes};

/// Set in such a process, to the device and what is to be done on it.
const ROLE: &str = "WARPLINE_KEPT_PROGRAM";
const NAME: &str = "kept_programs::binaries_on_disk_are_used_where_they_are_good";

#[test]
fn binaries_on_disk_are_used_where_they_are_good() {
    if let Ok(role) = std::env::var(ROLE) {
        let (id, work) = role.split_once(' ').unwrap();
        return start(&*open(id).unwrap(), work);
    }
    for device in devices() {
        let description = device.description();
        let driver = description.driver.to_ascii_lowercase();
        match ["pocl", "oclgrind"].iter().any(|left_out| driver.contains(left_out)) {
            _ if description.id.starts_with("cuda:") => {}
            true => assert_eq!(Start::new(&description.id, "scale 8 8").kept(), None),
            false => on_device(&description.id),
        }
    }
}

fn on_device(id: &str) {
    let made = ["scale 8 8", "scale 4 4", "self-test"].map(|work| Start::new(id, work));
    let [Some(path), Some(other), Some(lacking)] = made.each_ref().map(Start::kept) else {
        return println!("{id}: the driver gives no binaries");
    };
    let [own, other, lacking] = [&path, &other, &lacking].map(|at| std::fs::read(at).unwrap());
    let cut = own[..own.len() / 2].to_vec();
    let cut_to_page = own[..4096.min(own.len() - 1)].to_vec();
    let mut changed = own.clone();
    changed[own.len() / 2] ^= 1;
    let mut zeroed = own.clone();
    zeroed[4096.min(own.len() / 2)..own.len() - 32].fill(0);
    let undigested = own[..own.len() - 32].to_vec();
    let nonsense = [&b"nonsense"[..], &Sha256::digest("nonsense")].concat();
    for (what, binary, work, is_used) in [
        ("its own", own, "scale 8 8", true),
        ("another text's, which shows that this one is not compiled", other, "scale 8 4", true),
        ("cut off", cut, "scale 8 8", false),
        ("one bit changed", changed, "scale 8 8", false),
        ("zeros from the second page on", zeroed, "scale 8 8", false),
        ("cut to one page", cut_to_page, "scale 8 8", false),
        ("without its digest", undigested, "scale 8 8", false),
        ("nothing", Vec::new(), "scale 8 8", false),
        ("whole, but no binary", nonsense, "scale 8 8", false),
        ("without those kernels", lacking, "scale 8 8", false),
    ] {
        std::fs::write(&path, &binary).unwrap();
        made[0].again(id, work);
        assert_eq!(std::fs::read(&path).unwrap() == binary, is_used, "{id}: {what}");
    }
    // A pipe without a writer would be waited for, and a folder can't be read.
    for made_by in ["mkfifo", "mkdir"] {
        std::fs::remove_file(&path).unwrap();
        assert!(Command::new(made_by).arg(&path).status().unwrap().success());
        made[0].again(id, "scale 8 8");
    }
}

/// "self-test", or "scale" with the shift that the text has and the one that its results are to
/// have.
fn start(device: &dyn Device, work: &str) {
    let Some((_, shifts)) = work.split_once(' ') else {
        return self_test(device).unwrap();
    };
    let (said, seen) = shifts.split_once(' ').unwrap();
    let [said, seen] = [said, seen].map(|shift| shift.parse::<u32>().unwrap());
    let module = device.compile(&shifting(said)).unwrap();
    let [from, to] = [4, 4].map(|bytes| device.allocate(bytes).unwrap());
    let piece = piece_of(device, &0x1000_u32.to_le_bytes());
    let arguments = vec![Reads(from.whole()), Writes(to.whole()), U32(1), U64(1), U32(0)];
    let steps = vec![
        Step::CopyIn { from: part(0, 0..4), to: from.whole() },
        Step::Call(call(&module.kernel("scale").unwrap(), 1, arguments)),
        Step::CopyOut { from: to.whole(), to: part(0, 0..4) },
    ];
    let done = do_now(&mut *device.stream().unwrap(), Work::new(vec![piece], steps));
    assert_eq!(done.work.pieces[0][..], (0x1000_u32 >> seen).to_le_bytes());
}

/// A cache, with the entries of earlier runs.
struct Start(tempfile::TempDir);

impl Start {
    fn new(id: &str, work: &str) -> Self {
        let start = Self(tempfile::tempdir().unwrap());
        start.again(id, work);
        start
    }

    fn again(&self, id: &str, work: &str) {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env(ROLE, format!("{id} {work}"))
            .env("XDG_CACHE_HOME", self.0.path())
            .output()
            .unwrap();
        let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|s| String::from_utf8_lossy(s));
        let is_right = ended.status.success() && stdout.contains("1 passed");
        assert!(is_right, "{id} {work}: {stderr}{stdout}");
    }

    /// The only binary, if there is one.
    fn kept(&self) -> Option<PathBuf> {
        let is_binary =
            |path: &PathBuf| path.extension().is_some_and(|it| it == "clbin" || it == "so");
        let folder: &Path = &self.0.path().join("warpline");
        let files = std::fs::read_dir(folder).into_iter().flatten();
        let mut binaries = files.map(|file| file.unwrap().path()).filter(is_binary);
        let binary = binaries.next();
        assert_eq!(binaries.next(), None, "a second one");
        binary
    }
}
