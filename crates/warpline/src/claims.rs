//! The files and streams of a run: none is written and something else as well, by whatever names.
//!
//! Two names are of one file if device and inode are the same, with all links followed.
//! Names of a file that does not exist yet are compared as paths. `-`, `/dev/stdout` and
//! `/proc/self/fd/1` are one stream. Other descriptors have names if the program was started with
//! them.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use warpline_io::interface::Interface;
use warpline_nf::{LINKS_MAX, STDIN, STDOUT, descriptor_of, is_inherited, link_target};

use crate::ports::{Input, Output, PortInput};

/// Files and streams that a run reads and writes.
#[derive(Default)]
pub(crate) struct Claims {
    all: Vec<Claim>,
}

struct Claim {
    /// Its name for the user: the output, the alerts.
    what: String,
    thing: Thing,
    writes: bool,
}

/// Why a file is refused.
pub(crate) struct Refusal {
    pub(crate) why: String,
    pub(crate) path: PathBuf,
}

/// The target of a name.
#[derive(PartialEq, Eq)]
enum Thing {
    /// A file, by device and inode.
    File(u64, u64),
    /// A pipe: each byte gets to one reader only.
    Pipe(u64, u64),
    /// A stream of the process that is a terminal, a socket or another device.
    Stream(u32),
    /// A network interface, and whether frames leave by it.
    Interface(String, bool),
    /// Not there yet.
    New(PathBuf),
    /// A device such as `/dev/null`, which may be many things at once.
    Device,
}

impl Claims {
    /// Notes an input.
    pub(crate) fn read(&mut self, input: &Input) -> Result<(), Refusal> {
        match input {
            Input::Ports(ports, _) => {
                // One file may feed several ports.
                let is_first = |&(at, port): &(usize, &PortInput)| {
                    let mut before = ports[..at].iter();
                    !before.any(|other| other.input.path() == port.input.path())
                };
                for port in ports {
                    if let Input::Interface(interface) = &port.input {
                        let what = format!("input of port {:?}", port.name);
                        self.claim_interface(&what, interface, false)?;
                    }
                }
                let files = ports.iter().enumerate().filter(is_first);
                files.filter_map(|(_, port)| Some((port, port.input.path()?))).try_for_each(
                    |(port, path)| {
                        self.claim(&format!("input of port {:?}", port.name), path, false)
                    },
                )
            }
            Input::File(path, _) => self.claim("input", path, false),
            Input::Stdin(_) => self.claim_stream("input", STDIN),
            Input::Interface(interface) => self.claim_interface("input", interface, false),
            Input::Generate(_) | Input::Demo => Ok(()),
        }
    }

    /// Notes an output.
    pub(crate) fn write(&mut self, output: &Output) -> Result<(), Refusal> {
        match output {
            Output::File(file) => self.claim("output", &file.path, true),
            Output::Stdout => self.claim_stream("output", STDOUT),
            Output::Interface(interface) => self.claim_interface("output", interface, true),
            Output::None => Ok(()),
        }
    }

    /// Notes an interface, which may be an input and an output.
    fn claim_interface(
        &mut self,
        what: &str,
        interface: &Interface,
        writes: bool,
    ) -> Result<(), Refusal> {
        let thing = Thing::Interface(interface.name().into(), writes);
        let name = interface.to_string();
        self.add(what, &name, Path::new(&name), Claim { what: what.into(), thing, writes })
    }

    /// Notes a file; refuses one that is written and also something else.
    pub(crate) fn claim(&mut self, what: &str, path: &Path, writes: bool) -> Result<(), Refusal> {
        let name = path.display().to_string();
        let thing = match descriptor_of(path) {
            Some(number) if !is_inherited(number) => {
                let why = format!("{name}: descriptor {number} was not open at the start");
                return Err(Refusal { why, path: path.into() });
            }
            Some(number) => Thing::of_stream(number),
            None => Thing::at(path),
        };
        self.add(what, &name, path, Claim { what: what.into(), thing, writes })
    }

    /// The same for standard input, which is read, or standard output, which is written.
    pub(crate) fn claim_stream(&mut self, what: &str, stream: u32) -> Result<(), Refusal> {
        let (name, writes) = match stream {
            STDIN => ("standard input", false),
            _ => ("standard output", true),
        };
        let claim = Claim { what: what.into(), thing: Thing::of_stream(stream), writes };
        self.add(what, name, Path::new("-"), claim)
    }

    fn add(&mut self, what: &str, name: &str, path: &Path, claim: Claim) -> Result<(), Refusal> {
        if let Some(other) = self.all.iter().find(|other| other.excludes(&claim)) {
            let why = match other.what == what {
                true => format!("{name} is used twice as the {what}"),
                false => format!("{name} is both the {} and the {what}", other.what),
            };
            return Err(Refusal { why, path: path.into() });
        }
        self.all.push(claim);
        Ok(())
    }
}

impl Claim {
    /// Whether not both can be had.
    fn excludes(&self, other: &Self) -> bool {
        let is_taken =
            matches!(self.thing, Thing::Pipe(..) | Thing::Stream(_) | Thing::Interface(..));
        (self.writes || other.writes || is_taken)
            && self.thing == other.thing
            && self.thing != Thing::Device
    }
}

impl Thing {
    fn at(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(meta) => Self::of(&meta).unwrap_or(Self::Device),
            Err(_) => Self::New(absolute(path)),
        }
    }

    fn of_stream(stream: u32) -> Self {
        let meta = fs::metadata(format!("/dev/fd/{stream}"));
        meta.ok().and_then(|meta| Self::of(&meta)).unwrap_or(Self::Stream(stream))
    }

    /// A file or a pipe by its inode; none for devices and sockets.
    fn of(meta: &Metadata) -> Option<Self> {
        let (device, inode) = (meta.dev(), meta.ino());
        let kind = meta.file_type();
        match kind.is_fifo() {
            true => Some(Self::Pipe(device, inode)),
            false if kind.is_char_device() || kind.is_socket() => None,
            false => Some(Self::File(device, inode)),
        }
    }
}

/// The path with all links followed, for a file that need not be there.
fn absolute(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(target) = link_target(&path) else { break };
        path = target;
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.into());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_may_be_many_things() {
        let mut claims = Claims::default();
        for what in ["input", "output", "output"] {
            let taken = claims.claim(what, Path::new("/dev/null"), what == "output");
            assert!(taken.is_ok(), "{what}");
        }
    }
}
