//! The screen: drawn once a second, and when it changes its size.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::{Backend, Constraint, CrosstermBackend, Frame, Layout, Line, Terminal};
use ratatui::widgets::Paragraph;
use serde_json::Value;
use warpline_io_error::plain;

use super::lines::lines;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
const KEYS_EVERY: Duration = Duration::from_millis(50);

/// Why the view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// By `q`.
    Quit,
    /// By Ctrl-C, which is no signal while the view has the terminal.
    Interrupt,
    /// There is no more to see.
    Ended,
}

/// The statistics of a process and the states of its chains.
type Look = (Value, Value);

/// Shows what `look` gives on the terminal of `out` until a key or `is_done` ends it.
///
/// # Errors
/// Those of the terminal, and of `look`.
pub(crate) fn view(
    mut out: impl Write,
    clears: bool,
    is_done: impl Fn() -> bool,
    mut look: impl FnMut() -> Result<Look, String>,
) -> Result<Leave, String> {
    let first = look()?;
    let failed = |why: io::Error| plain(&why);
    enable_raw_mode().map_err(failed)?;
    let shown = execute!(out, EnterAlternateScreen).map_err(failed).and_then(|()| {
        let mut terminal = Terminal::new(CrosstermBackend::new(&mut out)).map_err(failed)?;
        watch(&mut terminal, first, clears, is_done, look)
    });
    let _ = execute!(out, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
    shown
}

/// Gives the terminal back, whatever the view does.
pub(crate) fn restore() {
    let _ = execute!(io::stderr(), LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

fn watch<B: Backend<Error = io::Error>>(
    terminal: &mut Terminal<B>,
    first: Look,
    clears: bool,
    is_done: impl Fn() -> bool,
    mut look: impl FnMut() -> Result<Look, String>,
) -> Result<Leave, String> {
    let failed = |why: io::Error| plain(&why);
    let (mut before, mut now) = (first.clone(), first);
    let mut scrolled = 0;
    loop {
        let shown = lines(&before.0, &now.0, &now.1);
        // The last row has the keys.
        let height = terminal.size().map_err(failed)?.height.saturating_sub(1);
        let most = u16::try_from(shown.len()).unwrap_or(u16::MAX).saturating_sub(height);
        scrolled = most.min(scrolled);
        if clears {
            // Messages of the process may have been written over it.
            terminal.clear().map_err(failed)?;
        }
        terminal.draw(|frame| draw(frame, &shown, scrolled)).map_err(failed)?;
        let drawn = Instant::now();
        while let Some(left) = PERIOD.checked_sub(drawn.elapsed()) {
            if is_done() {
                return Ok(Leave::Ended);
            }
            match next(left.min(KEYS_EVERY)).map_err(failed)? {
                Act::Leave(why) => return Ok(why),
                Act::Scroll(by) => scrolled = scrolled.saturating_add_signed(by).min(most),
                Act::Resize => {}
                Act::None => continue,
            }
            terminal.draw(|frame| draw(frame, &shown, scrolled)).map_err(failed)?;
        }
        before = std::mem::replace(&mut now, look()?);
    }
}

/// The action of the next event within `patience`.
fn next(patience: Duration) -> io::Result<Act> {
    if !event::poll(patience)? {
        return Ok(Act::None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => act(key),
        Event::Resize(..) => Act::Resize,
        _ => Act::None,
    })
}

/// The action of a key.
enum Act {
    Leave(Leave),
    Scroll(i16),
    Resize,
    None,
}

fn act(key: KeyEvent) -> Act {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Act::Leave(Leave::Interrupt)
        }
        KeyCode::Char('q') | KeyCode::Esc => Act::Leave(Leave::Quit),
        KeyCode::Down | KeyCode::Char('j') => Act::Scroll(1),
        KeyCode::Up | KeyCode::Char('k') => Act::Scroll(-1),
        KeyCode::PageDown => Act::Scroll(10),
        KeyCode::PageUp => Act::Scroll(-10),
        _ => Act::None,
    }
}

/// Draws `shown` from line `scrolled` on, and the keys in the last line.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &[Line<'static>], scrolled: u16) {
    let rows = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).split(frame.area());
    frame.render_widget(Paragraph::new(shown.to_vec()).scroll((scrolled, 0)), rows[0]);
    let below = shown.len().saturating_sub(usize::from(scrolled) + usize::from(rows[0].height));
    let keys = match below {
        0 => "q quits".to_owned(),
        more => format!("q quits, arrows scroll: {more} more lines"),
    };
    frame.render_widget(Paragraph::new(keys), rows[1]);
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;

    fn rows(width: u16, height: u16, scrolled: u16) -> Vec<String> {
        let shown: Vec<Line<'static>> =
            (0..30).map(|number| format!("line {number}").into()).collect();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &shown, scrolled)).expect("a frame");
        let buffer = terminal.backend().buffer();
        let cells = |row| (0..width).map(move |column| buffer[(column, row)].symbol());
        (0..height).map(|row| cells(row).collect::<String>().trim_end().to_owned()).collect()
    }

    #[test]
    fn a_frame_has_the_lines_and_the_keys() {
        let shown = rows(80, 24, 0);
        assert_eq!(shown[0], "line 0");
        assert_eq!(shown[22], "line 22");
        assert_eq!(shown[23], "q quits, arrows scroll: 7 more lines");
        assert_eq!(rows(80, 24, 10)[0], "line 10");
        assert_eq!(rows(80, 24, 10)[23], "q quits");
        // A terminal may be tiny.
        assert_eq!(rows(3, 1, 0), ["q q"]);
    }
}
