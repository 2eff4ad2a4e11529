//! Private copies of the files that chains use up (`nonce_state`). Each function that is made for a
//! look starts from the same numbers, and the operator's files stay as they are.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpline_engine::Instance;
use warpline_io_error::plain;
use warpline_nf::{Function, Outputs};

use crate::Failure;
use crate::chain_file::{LoadOptions, Loaded, Setting};

/// The key that names a kept file.
const KEY: &str = "nonce_state";

/// Names that are tried for a folder.
const NAMES_MAX: u32 = 1 << 10;

/// The chains of a file, with private copies of the files that they keep.
pub(super) struct Private<'a> {
    path: &'a Path,
    options: LoadOptions<'a>,
    /// Of the command line, which would use the files up.
    option: &'static str,
    /// Tables that keep a file, and the operator's.
    kept: Vec<(String, PathBuf)>,
    folder: Option<Folder>,
    copies: AtomicU32,
}

impl<'a> Private<'a> {
    /// Of `chains`, which were loaded from `path` with `options`, for `option` of the command line.
    pub(super) fn of(
        chains: &[Loaded],
        path: &'a Path,
        options: LoadOptions<'a>,
        option: &'static str,
    ) -> Result<Self, Failure> {
        let instances = chains.iter().flat_map(|loaded| &loaded.chain().instances);
        let mut kept = Vec::new();
        for instance in instances {
            for file in instance.function.keeps() {
                if !instance.definition.keys.iter().any(|key| key.name == KEY) {
                    let reported =
                        format!("[{}]: {option} would use up {file:?}", instance.table());
                    return Err(Failure::Usage(reported));
                }
                kept.push((instance.table().to_owned(), file));
            }
        }
        let folder = match kept.is_empty() {
            true => None,
            false => Some(Folder::new().map_err(Failure::Run)?),
        };
        Ok(Self { path, options, option, kept, folder, copies: AtomicU32::new(0) })
    }

    /// The chains, with copies of their own.
    pub(super) fn load(&self, device: Option<&str>) -> Result<Vec<Loaded>, Failure> {
        self.load_with(self.options.set.to_vec(), device)
    }

    /// The chain of this number with the function called `name` on the CPU.
    pub(super) fn without_device(
        &self,
        number: usize,
        name: &str,
        device: Option<&str>,
    ) -> Option<Loaded> {
        let mut set = self.options.set.to_vec();
        set.push(Setting { option: self.option, text: format!("{name}.device=cpu") });
        self.load_with(set, device).ok()?.into_iter().nth(number)
    }

    fn load_with(
        &self,
        mut set: Vec<Setting>,
        device: Option<&str>,
    ) -> Result<Vec<Loaded>, Failure> {
        for (table, file) in &self.kept {
            let copy = self.copy(file).map_err(Failure::Run)?;
            let text = format!("{table}.{KEY}={copy:?}");
            set.push(Setting { option: self.option, text });
        }
        let options = LoadOptions { set: &set, device, ..self.options };
        super::load_file(self.path, &options, false)
    }

    /// The function at a position of a chain: `instance` has it, or a new one where it keeps a
    /// file.
    pub(super) fn function(
        &self,
        chain: usize,
        position: usize,
        instance: &Instance,
    ) -> Result<Arc<dyn Function>, String> {
        if instance.function.keeps().is_empty() {
            return Ok(Arc::clone(&instance.function));
        }
        let chains = self.load(Some("cpu")).map_err(|why| why.why().to_owned())?;
        let function = Arc::clone(&chains[chain].chain().instances[position].function);
        // It opens its copy.
        function.report(&Outputs::default())?;
        Ok(function)
    }

    fn copy(&self, file: &Path) -> Result<PathBuf, String> {
        let Some(folder) = &self.folder else { return Err("no folder for copies".into()) };
        let copy = folder.0.join(self.copies.fetch_add(1, Ordering::Relaxed).to_string());
        let reported = |error: std::io::Error| format!("{}: {}", copy.display(), plain(&error));
        match fs::read(file) {
            Ok(bytes) => {
                let mut open = OpenOptions::new();
                let mut to = open.write(true).create_new(true).mode(0o600).open(&copy);
                to.as_mut().map_or(Ok(()), |to| to.write_all(&bytes)).map_err(reported)?;
                to.map_err(reported)?;
            }
            // A first run makes it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {}", file.display(), plain(&error))),
        }
        Ok(copy)
    }
}

/// A folder that is gone when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let all = std::env::temp_dir();
        for number in 0..NAMES_MAX {
            let path = all.join(format!("warpline-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {}", path.display(), plain(&error))),
            }
        }
        Err(format!("{}: no name is free", all.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left over harms no check.
        let _ = fs::remove_dir_all(&self.0);
    }
}
