//! The files that chains read and write: what is refused of them, by `check` as by `run`, each at
//! its place in the chain file.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use warpline_engine::Instance;
use warpline_io_error::plain;
use warpline_nf::config::read_text;
use warpline_nf::{Diagnostic, Diagnostics, STDOUT, SourceText};

use super::{CHAIN_FILE_LEN_MAX, folder_of};
use crate::Failure;
use crate::chain_file::Loaded;
use crate::claims::{Claims, Refusal};
use crate::ports::{Input, Output};

/// A chain with its ports named.
pub(super) struct Planned {
    pub(super) loaded: Loaded,
    pub(super) input: Input,
    pub(super) output: Output,
}

impl Planned {
    /// The outputs of its packets.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &Output> {
        let own = &self.loaded.ports.outputs;
        let is_shared = own.is_empty() || own.iter().any(Option::is_none);
        is_shared.then_some(&self.output).into_iter().chain(own.iter().flatten())
    }
}

/// Refuses an input of the command line for a chain whose ports have theirs.
pub(super) fn refuse_input(loaded: &Loaded, input: Option<&str>) -> Result<(), Failure> {
    let ports = loaded.chain().ports();
    match (input, ports.iter().next()) {
        (Some(text), Some(port)) => Err(Failure::Usage(format!(
            "chain {:?}: --input conflicts with [[port]]; for a port, write --set \
             port.{}.device={text}",
            loaded.chain().name,
            port.name
        ))),
        _ => Ok(()),
    }
}

/// Files that the command line names.
#[derive(Default)]
pub(super) struct Others<'a> {
    pub(super) chain: Option<&'a Path>,
    pub(super) alerts: Option<&'a Path>,
    pub(super) alerts_to_stdout: bool,
    pub(super) stats: Option<&'a Path>,
    /// A file of the command itself, and its name in messages.
    pub(super) result: Option<(&'static str, &'a Path)>,
}

/// Refuses what `run` would of the files that these chains name, with `input` in place of theirs
/// where it is given, and touches none.
pub(super) fn check_ports(
    chain: &Path,
    loaded: Vec<Loaded>,
    input: Option<&str>,
) -> Result<Vec<Loaded>, Failure> {
    let given = input.map(|text| Input::parse(text, Path::new(""))).transpose();
    let given = given.map_err(|why| Failure::Usage(format!("--input: {}", why.join("\n"))))?;
    loaded.iter().try_for_each(|loaded| refuse_input(loaded, input))?;
    let plan = |mut loaded: Loaded| {
        let own = loaded.ports.input.take();
        let input = given.clone().or(own).unwrap_or(Input::Demo);
        let output = loaded.ports.output.take().unwrap_or(Output::None);
        Planned { loaded, input, output }
    };
    let planned: Vec<Planned> = loaded.into_iter().map(plan).collect();
    check_files(&Others { chain: Some(chain), ..Others::default() }, &planned)?;
    let refuse =
        |path: &Path, why: String| located(Some(chain), &Refusal { why, path: path.into() });
    for Planned { loaded, input, output } in &planned {
        for part in input.parts() {
            // Opening a pipe would take bytes from it.
            if let Some(path) = part.path().filter(|path| path.is_file()) {
                part.open().map_err(|failed| refuse(path, failed.why))?;
            }
        }
        let own = loaded.ports.outputs.iter().flatten().filter_map(Output::path);
        let tap = loaded.ports.tap.iter().map(|tap| tap.path.clone());
        let written = written_files(loaded).map(|(_, path)| path);
        let outputs = output.path().into_iter().chain(own).map(Path::to_owned);
        let outputs = outputs.chain(tap).chain(written);
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

/// Warnings about the interfaces that this machine lacks now or that are no port, each once.
pub(super) fn missing_interfaces(chain: &Path, chains: &[Loaded]) -> Diagnostics {
    let mut found: Vec<(String, String)> = Vec::new();
    for ports in chains.iter().map(|loaded| &loaded.ports) {
        let inputs = ports.input.iter().flat_map(Input::parts).filter_map(Input::interface);
        let outputs = ports.output.iter().chain(ports.outputs.iter().flatten());
        for interface in inputs.chain(outputs.filter_map(Output::interface)) {
            let name = interface.name();
            let why = if !interface.exists() {
                format!("there is no interface {name:?} now; `run` refuses it until it exists")
            } else if interface.is_unsuitable() {
                format!("{name:?} is not an Ethernet interface; `run` refuses it")
            } else {
                continue;
            };
            let warning = (interface.to_string(), why);
            if !found.contains(&warning) {
                found.push(warning);
            }
        }
    }
    let mut all = Diagnostics::default();
    for (path, why) in found {
        all.push(diagnostic(Some(chain), &Refusal { why, path: path.into() }));
    }
    all
}

/// The message of a refusal, at the last place where the chain file names the file, if it does.
pub(super) fn located(chain: Option<&Path>, refused: &Refusal) -> Failure {
    Failure::mistake(diagnostic(chain, refused))
}

fn diagnostic(chain: Option<&Path>, refused: &Refusal) -> Diagnostic {
    let Refusal { why, path } = refused;
    // A pipe gives its text only once.
    let found = chain.filter(|chain| chain.is_file()).and_then(|chain| {
        let text = read_text(chain, CHAIN_FILE_LEN_MAX).ok()?;
        let source = SourceText::new(chain.display().to_string(), text);
        let (table, _) = DeTable::parse_recoverable(&source.text);
        let names = |text: &str| text == path.as_os_str() || folder_of(chain).join(text) == *path;
        let mut strings = Vec::new();
        table.get_ref().values().for_each(|value| texts(value, &mut strings));
        // An input may have its pace after a comma.
        let is_it =
            |text: &str| names(text) || text.split_once(',').is_some_and(|(text, _)| names(text));
        let places = strings.into_iter().filter(|(text, _)| is_it(text)).map(|(_, span)| span);
        let last = places.max_by_key(|span| span.start);
        Some(source.mistake(last?, why.clone()))
    });
    found.unwrap_or_else(|| Diagnostic::bare(why.clone()))
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

/// A chain and its ports, as far as they are known.
struct Used<'a> {
    loaded: &'a Loaded,
    input: Option<&'a Input>,
    output: Option<&'a Output>,
}

impl<'a> Used<'a> {
    fn of_plan(planned: &'a Planned) -> Self {
        let Planned { loaded, input, output } = planned;
        Self { loaded, input: Some(input), output: Some(output) }
    }

    /// The places in the chain file.
    fn of_file(loaded: &'a Loaded) -> Self {
        let ports = &loaded.ports;
        Self { loaded, input: ports.input.as_ref(), output: ports.output.as_ref() }
    }
}

/// No file may be written and be something else as well.
pub(super) fn check_files(others: &Others<'_>, planned: &[Planned]) -> Result<(), Failure> {
    let used: Vec<Used<'_>> = planned.iter().map(Used::of_plan).collect();
    claim_all(others, &used).map_err(|refused| located(others.chain, &refused))
}

/// The same for a file that is made of these chains, and its name in messages.
pub(super) fn check_written(
    chain: &Path,
    chains: &[Loaded],
    result: (&'static str, &Path),
) -> Result<(), Failure> {
    let used: Vec<Used<'_>> = chains.iter().map(Used::of_file).collect();
    let others = Others { chain: Some(chain), result: Some(result), ..Others::default() };
    claim_all(&others, &used).map_err(|refused| located(Some(chain), &refused))
}

fn claim_all(others: &Others<'_>, chains: &[Used<'_>]) -> Result<(), Refusal> {
    let mut claims = Claims::default();
    if let Some(path) = others.chain {
        claims.claim("chain file", path, false)?;
    }
    for Used { loaded, .. } in chains {
        // A file that its functions write or keep is in the list once for that.
        let mut own: Vec<_> = written_files(loaded).chain(kept_files(loaded)).collect();
        for file in &loaded.files {
            if let Some(at) = own.iter().position(|own| own == file) {
                own.swap_remove(at);
                continue;
            }
            claims.claim(&format!("file of [{}]", file.0), &file.1, false)?;
        }
    }
    chains.iter().filter_map(|used| used.input).try_for_each(|input| claims.read(input))?;
    let own = chains.iter().flat_map(|used| used.loaded.ports.outputs.iter().flatten());
    let outputs = chains.iter().filter_map(|used| used.output).chain(own);
    outputs.into_iter().try_for_each(|output| claims.write(output))?;
    for (table, path) in chains.iter().flat_map(|used| written_files(used.loaded)) {
        claims.claim(&format!("file that [{table}] writes"), &path, true)?;
    }
    for (table, path) in chains.iter().flat_map(|used| kept_files(used.loaded)) {
        claims.claim(&format!("file that [{table}] keeps"), &path, true)?;
    }
    for tap in chains.iter().filter_map(|used| used.loaded.ports.tap.as_ref()) {
        claims.claim("tap", &tap.path, true)?;
    }
    if others.alerts_to_stdout {
        claims.claim_stream("alerts", STDOUT)?;
    }
    let named =
        [others.alerts.map(|path| ("alerts", path)), others.stats.map(|path| ("statistics", path))];
    for (name, path) in named.into_iter().chain([others.result]).flatten() {
        claims.claim(name, path, true)?;
    }
    Ok(())
}

/// The files that a chain's functions will create, each with its function's table.
pub(super) fn written_files(loaded: &Loaded) -> impl Iterator<Item = (String, PathBuf)> {
    files_of(loaded, |instance| instance.function.writes())
}

/// The files that a chain's functions go on with from run to run: they must not be emptied.
pub(super) fn kept_files(loaded: &Loaded) -> impl Iterator<Item = (String, PathBuf)> {
    files_of(loaded, |instance| instance.function.keeps())
}

fn files_of(
    loaded: &Loaded,
    of: impl Fn(&Instance) -> Vec<PathBuf>,
) -> impl Iterator<Item = (String, PathBuf)> {
    loaded.chain().instances.iter().flat_map(move |instance| {
        of(instance).into_iter().map(|path| (instance.table().to_owned(), path))
    })
}
