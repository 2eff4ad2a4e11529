//! The files that chains read and write: what is refused of them, by `check` as by `run`, each at its place in the chain file.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::Instance;
use warpline_nf::SourceText;
use warpline_nf::config::{plain, read_text};

use super::{CHAIN_FILE_LEN_MAX, folder_of};
use crate::Failure;
use crate::chain_file::Loaded;
use crate::ports::{Input, Output};
use crate::writes::{Claims, Refusal};

/// A chain with its ports named.
pub(super) struct Planned {
    pub(super) loaded: Loaded,
    pub(super) input: Input,
    pub(super) output: Output,
}

/// Files that the command line names.
#[derive(Default)]
pub(super) struct Others<'a> {
    pub(super) chain: Option<&'a Path>,
    pub(super) alerts: Option<&'a Path>,
    pub(super) alerts_to_stdout: bool,
    pub(super) stats: Option<&'a Path>,
}

/// Refuses what `run` would of the files that these chains name, and touches none.
pub(super) fn check_ports(chain: &Path, loaded: Vec<Loaded>) -> Result<Vec<Loaded>, Failure> {
    let plan = |mut loaded: Loaded| Planned {
        input: loaded.ports.input.take().unwrap_or(Input::Demo),
        output: loaded.ports.output.take().unwrap_or(Output::None),
        loaded,
    };
    let planned: Vec<Planned> = loaded.into_iter().map(plan).collect();
    check_files(&Others { chain: Some(chain), ..Others::default() }, &planned)?;
    let refuse = |path: &Path, why: String| {
        let refused = Refusal { why, path: path.into() };
        Failure::Usage(located(Some(chain), &refused))
    };
    for Planned { loaded, input, output } in &planned {
        // To open a pipe would take what whoever writes it sends.
        if let Some(path) = input.path().filter(|path| path.is_file()) {
            input.open().map_err(|why| refuse(path, format!("{}: {why}", path.display())))?;
        }
        let tap = loaded.ports.tap.iter().map(|(path, _)| path.clone());
        let written = written_files(loaded).map(|(_, path)| path);
        let outputs = output.path().map(Path::to_owned).into_iter().chain(tap).chain(written);
        for path in outputs {
            could_write(&path)
                .map_err(|why| refuse(&path, format!("{}: {why}", path.display())))?;
        }
    }
    Ok(planned.into_iter().map(|chain| chain.loaded).collect())
}

/// Whether the file at `path` could be written, or be made.
fn could_write(path: &Path) -> Result<(), String> {
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err("is a directory".into());
    }
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err("is a directory".into()),
        Ok(meta) if meta.is_file() => {
            OpenOptions::new().write(true).open(path).map(drop).map_err(|error| plain(&error))
        }
        Ok(_) => Ok(()),
        Err(_) => match fs::metadata(folder_of(path)) {
            Ok(meta) if !meta.is_dir() => Err("not a directory".into()),
            Ok(meta) if meta.permissions().readonly() => Err("its folder can't be written".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(plain(&error)),
        },
    }
}

/// The message of a refusal, at the last place where the chain file names the file, if it does.
pub(super) fn located(chain: Option<&Path>, refused: &Refusal) -> String {
    let Refusal { why, path } = refused;
    let found = chain.and_then(|chain| {
        let text = read_text(chain, CHAIN_FILE_LEN_MAX).ok()?;
        let source = SourceText::new(chain.display().to_string(), text);
        let (table, _) = DeTable::parse_recoverable(&source.text);
        let names = |text: &str| text == path.as_os_str() || folder_of(chain).join(text) == *path;
        let mut strings = Vec::new();
        table.get_ref().values().for_each(|value| texts(value, &mut strings));
        // An input may say how fast it is read.
        let is_it =
            |text: &str| names(text) || text.split_once(',').is_some_and(|(text, _)| names(text));
        let places = strings.into_iter().filter(|(text, _)| is_it(text)).map(|(_, span)| span);
        let last = places.max_by_key(|span| span.start);
        Some(source.mistake(last?, why.clone()).to_string())
    });
    found.unwrap_or_else(|| why.clone())
}

/// All strings in a value, each with its place.
fn texts<'a>(value: &'a Spanned<DeValue<'a>>, all: &mut Vec<(&'a str, std::ops::Range<usize>)>) {
    match value.get_ref() {
        DeValue::String(text) => all.push((text, value.span())),
        DeValue::Array(values) => values.iter().for_each(|value| texts(value, all)),
        DeValue::Table(table) => table.values().for_each(|value| texts(value, all)),
        _ => {}
    }
}

/// No file may be written and be something else as well.
pub(super) fn check_files(others: &Others<'_>, planned: &[Planned]) -> Result<(), Failure> {
    let mut claims = Claims::default();
    let mut check = || {
        if let Some(path) = others.chain {
            claims.claim("chain file", path, false)?;
        }
        for Planned { loaded, .. } in planned {
            // What its functions write or keep is named once for that, and not to be read.
            let mut own: Vec<_> = written_files(loaded).chain(kept_files(loaded)).collect();
            for file in &loaded.files {
                if let Some(at) = own.iter().position(|own| own == file) {
                    own.swap_remove(at);
                    continue;
                }
                claims.claim(&format!("file of [{}]", file.0), &file.1, false)?;
            }
        }
        planned.iter().try_for_each(|chain| claims.read(&chain.input))?;
        planned.iter().try_for_each(|chain| claims.write(&chain.output))?;
        for (table, path) in planned.iter().flat_map(|chain| written_files(&chain.loaded)) {
            claims.claim(&format!("file that [{table}] writes"), &path, true)?;
        }
        for (table, path) in planned.iter().flat_map(|chain| kept_files(&chain.loaded)) {
            claims.claim(&format!("file that [{table}] keeps"), &path, true)?;
        }
        for (path, _) in planned.iter().filter_map(|chain| chain.loaded.ports.tap.as_ref()) {
            claims.claim("tap", path, true)?;
        }
        for (what, path) in [("alerts", others.alerts), ("statistics", others.stats)] {
            path.map_or(Ok(()), |path| claims.claim(what, path, true))?;
        }
        let is_stdout = |chain: &Planned| matches!(chain.output, Output::Stdout);
        let count = planned.iter().filter(|chain| is_stdout(chain)).count();
        if count > 1 || (others.alerts_to_stdout && count > 0) {
            let other = if count > 1 { "another chain's output" } else { "the alerts" };
            let why = format!("standard output is both the output and {other}");
            return Err(Refusal { why, path: "-".into() });
        }
        Ok(())
    };
    check().map_err(|refused| Failure::Usage(located(others.chain, &refused)))
}

/// The files that a chain's functions will create, each with its function's table.
pub(super) fn written_files(loaded: &Loaded) -> impl Iterator<Item = (String, PathBuf)> {
    files_of(loaded, |instance| instance.function.writes())
}

/// The files that a chain's functions go on with from run to run: they must not be emptied.
fn kept_files(loaded: &Loaded) -> impl Iterator<Item = (String, PathBuf)> {
    files_of(loaded, |instance| instance.function.keeps())
}

fn files_of(
    loaded: &Loaded,
    of: impl Fn(&Instance) -> Vec<PathBuf>,
) -> impl Iterator<Item = (String, PathBuf)> {
    loaded.chain.instances.iter().flat_map(move |instance| {
        of(instance).into_iter().map(|path| (instance.name.clone(), path))
    })
}
