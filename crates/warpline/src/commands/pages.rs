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
    if shell == Shell::Fish {
        script.extend(fish_values().into_bytes());
    }
    print(&script)
}

/// The values of arguments without an option, which the generator leaves out for fish.
fn fish_values() -> String {
    let mut lines = String::new();
    for command in Arguments::command().get_subcommands() {
        let parsers = command.get_positionals().map(|argument| argument.get_value_parser());
        let values = parsers.filter_map(|parser| parser.possible_values()).flatten();
        let values: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        if !values.is_empty() {
            lines += &format!(
                "complete -c warpline -n \"__fish_warpline_using_subcommand {}\" -f -a \"{}\"\n",
                command.get_name(),
                values.join(" ")
            );
        }
    }
    lines
}

/// Prints the manual page: the program and then each command, in troff.
pub(crate) fn man() -> Result<(), Failure> {
    let program = Arguments::command();
    let mut page = Vec::new();
    let failed = |error: std::io::Error| Failure::Run(plain(&error));
    let whole = Man::new(program.clone());
    whole.render_title(&mut page).map_err(failed)?;
    whole.render_name_section(&mut page).map_err(failed)?;
    whole.render_synopsis_section(&mut page).map_err(failed)?;
    whole.render_description_section(&mut page).map_err(failed)?;
    whole.render_options_section(&mut page).map_err(failed)?;
    for command in program.get_subcommands() {
        let name = format!("warpline {}", command.get_name());
        writeln!(page, ".SH \"{}\"", name.to_uppercase()).map_err(failed)?;
        let section = Man::new(command.clone().bin_name(name));
        section.render_synopsis_section(&mut page).map_err(failed)?;
        section.render_description_section(&mut page).map_err(failed)?;
        section.render_options_section(&mut page).map_err(failed)?;
        if command.get_after_long_help().or(command.get_after_help()).is_some() {
            section.render_extra_section(&mut page).map_err(failed)?;
        }
    }
    whole.render_version_section(&mut page).map_err(failed)?;
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
