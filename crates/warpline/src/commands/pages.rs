//! `warpline completions` and `warpline man`, made of the table of options that the parser has.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use warpline_io_error::plain;

use crate::Failure;
use crate::cli::Arguments;

/// Prints a script by which `shell` completes commands and options.
pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "warpline", &mut script);
    print(&script)
}

/// Prints the manual page: the program and then each command, in troff.
pub(crate) fn man() -> Result<(), Failure> {
    let program = Arguments::command();
    let mut page = Vec::new();
    let failed = |error: std::io::Error| Failure::Run(plain(&error));
    Man::new(program.clone()).render(&mut page).map_err(failed)?;
    for command in program.get_subcommands() {
        let name = format!("warpline {}", command.get_name());
        writeln!(page, ".SH \"{}\"", name.to_uppercase()).map_err(failed)?;
        let section = Man::new(command.clone().bin_name(name));
        section.render_synopsis_section(&mut page).map_err(failed)?;
        section.render_description_section(&mut page).map_err(failed)?;
        section.render_options_section(&mut page).map_err(failed)?;
    }
    print(&page)
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("standard output: {}", plain(&error))))
        }
        _ => Ok(()),
    }
}
