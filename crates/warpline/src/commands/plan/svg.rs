//! A plan as a drawing. Functions stand from left to right in the row of their memory: the host's
//! or a device's. Arrows are the copies, as thick as their part of a whole frame. Notes below list
//! the fields of each copy.

use std::fmt::Write;

use warpline_engine::Planned;
use warpline_sched::{Mode, Plan, PlanStep};

use super::{by_path, copies, device_of, made, problem_of};
use crate::Failure;
use crate::chain_file::Loaded;
use crate::filled::filled;
use crate::routes_shown;

/// Sizes, in pixels. Letters have a fixed width, so no text is wider than its place.
const LETTER: f64 = 7.6;
const LINE: usize = 17;
const MARGIN: usize = 14;
const ROW: usize = 120;
const BOX: usize = 42;
const GAP: usize = 26;
/// The least width of a function: two arrows with their labels.
const LEAST: usize = 220;
/// The least width of a drawing, and the letters of a line of notes in it.
const WIDTH: usize = 900;
/// The height of the arches of routes.
const ARCH: usize = 44;
/// The thickest arrow.
const THICK: f64 = 9.0;

/// All chains in one file, one below the other.
pub(super) fn draw(chains: &[Loaded], packet_len: u32, mode: Mode) -> Result<String, Failure> {
    let (mut body, mut top, mut width) = (String::new(), 0, WIDTH);
    for loaded in chains {
        let own = problem_of(&loaded.deployment, packet_len);
        let plan = made(&own, mode)?;
        let drawing = Drawing::new(loaded, &own, &plan);
        let title = format!(
            "chain {:?}, {} plan, frames of {packet_len} bytes: a packet takes {:.1} B to devices \
             and {:.1} B to the host",
            loaded.chain().name,
            mode.name(),
            plan.to_device_bytes(),
            plan.to_host_bytes()
        );
        let _ = writeln!(body, "<g transform=\"translate(0,{top})\">");
        top += drawing.draw(&mut body, &title);
        width = width.max(drawing.width()).max(text_width(&title) + 2 * MARGIN);
        body += "</g>\n";
    }
    top = legend(&mut body, top);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" \
         font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{HEAD}{body}</svg>\n",
    ))
}

/// The head of an arrow.
const HEAD: &str = "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" \
                    markerWidth=\"14\" markerHeight=\"14\" markerUnits=\"userSpaceOnUse\" \
                    orient=\"auto\"><path d=\"M0,0 L6,3 L0,6 z\" fill=\"#456\"/></marker></defs>\n";

/// A chain with the places of its functions.
struct Drawing<'a> {
    loaded: &'a Loaded,
    own: &'a Planned,
    plan: &'a Plan,
    /// By row, its memory.
    rows: Vec<String>,
    /// Where the names of rows end.
    left: usize,
    /// By function: its two lines, its left edge and its width.
    columns: Vec<([String; 2], usize, usize)>,
}

impl<'a> Drawing<'a> {
    fn new(loaded: &'a Loaded, own: &'a Planned, plan: &'a Plan) -> Self {
        let memory = |name: &str| format!("memory of {name}");
        let names = std::iter::once("the host").chain(own.devices.iter().map(String::as_str));
        let rows: Vec<String> = names.map(memory).collect();
        let left = MARGIN + widest(&rows) + GAP;
        let mut columns = Vec::new();
        let mut x = left;
        for (position, function) in own.problem.functions.iter().enumerate() {
            let device = device_of(&loaded.deployment, own, position);
            let lines = [function.name.clone(), format!("runs on {device}")];
            let width = (widest(&lines) + 20).max(LEAST);
            columns.push((lines, x, width));
            x += width + GAP;
        }
        Self { loaded, own, plan, rows, left, columns }
    }

    fn width(&self) -> usize {
        self.columns.last().map_or(self.left, |(_, x, width)| x + width) + MARGIN
    }

    /// Draws it, and returns its height.
    fn draw(&self, body: &mut String, title: &str) -> usize {
        let mut y = MARGIN + LINE;
        text(body, (MARGIN, y), "start", title);
        for line in routes_shown::lines(self.loaded.chain()).lines() {
            y += LINE;
            text(body, (MARGIN, y), "start", line.trim_end());
        }
        for line in by_path::lines(&self.own.problem, self.plan) {
            y += LINE;
            text(body, (MARGIN, y), "start", line.trim_end());
        }
        let has_routes = self.own.problem.hops.is_some();
        let top = y + LINE + if has_routes { ARCH } else { 0 };
        let end = self.width() - MARGIN;
        for (row, name) in self.rows.iter().enumerate() {
            let y = top + ROW * row + BOX / 2;
            text(body, (MARGIN, y + 4), "start", name);
            let _ = writeln!(
                body,
                "<line x1=\"{}\" y1=\"{y}\" x2=\"{end}\" y2=\"{y}\" stroke=\"#ccc\"/>",
                self.left
            );
        }
        let mut notes = Vec::new();
        for (position, ([name, on], x, width)) in self.columns.iter().enumerate() {
            let function = &self.own.problem.functions[position];
            let y = top + ROW * function.device.map_or(0, |device| device + 1);
            if let Some(step) = self.plan.step(position) {
                self.arrows(body, (*x, *width), (top, y), step, &mut notes);
            }
            let _ = writeln!(
                body,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\" rx=\"4\" \
                 fill=\"#eef\" stroke=\"#456\"/>",
            );
            text(body, (x + width / 2, y + 17), "middle", name);
            text(body, (x + width / 2, y + 17 + LINE), "middle", on);
        }
        if has_routes {
            self.hops(body, top);
        }
        y = top + ROW * (self.rows.len() - 1) + BOX + LINE;
        let letters = ((self.width().max(WIDTH) - 2 * MARGIN) as f64 / LETTER) as usize;
        let notes: String = notes.iter().map(|note| filled("", note, 3, letters)).collect();
        for line in notes.lines() {
            y += LINE;
            text(body, (MARGIN, y), "start", line);
        }
        y + 2 * LINE
    }

    /// An arch for each hop between functions, from ingress at the left to egress at the right.
    fn hops(&self, body: &mut String, top: usize) {
        let ways = self.own.problem.ways();
        let place = |at: usize| self.columns.get(at).map(|(_, x, width)| (*x, x + width));
        let row = |at: usize| {
            let device = self.own.problem.functions.get(at).and_then(|one| one.device);
            top + ROW * device.map_or(0, |device| device + 1)
        };
        let mut arch = |from: Option<usize>, to: usize| {
            let (left, start) = match from {
                None => (self.left - GAP / 2, top),
                Some(at) => (place(at).map_or(self.left, |(_, end)| end - 8), row(at)),
            };
            let (right, end) = match place(to) {
                None => (self.width() - MARGIN / 2, top),
                Some((x, _)) => (x + 8, row(to)),
            };
            let peak = top - ARCH + 4;
            let _ = writeln!(
                body,
                "<path class=\"hop\" d=\"M{left},{start} C{left},{peak} {right},{peak} \
                 {right},{end}\" fill=\"none\" stroke=\"#a63\" stroke-dasharray=\"4 3\"/>"
            );
        };
        ways.ingress.iter().for_each(|&to| arch(None, to));
        for (from, next) in ways.functions.iter().enumerate() {
            next.iter().for_each(|&to| arch(Some(from), to));
        }
    }

    /// The copies of a step: to the device on the left side of its box, to the host on the right.
    fn arrows(
        &self,
        body: &mut String,
        (x, width): (usize, usize),
        (top, y): (usize, usize),
        step: &PlanStep,
        notes: &mut Vec<String>,
    ) {
        let name = &self.own.problem.functions[step.function].name;
        let device = &self.own.devices[step.device];
        let host = top + BOX / 2;
        let ways = [
            (x + 16, host, y, step.to_device_bytes(), format!("{name}, to {device}")),
            (x + width / 2 + 16, y, host, step.to_host_bytes(), format!("{name}, to the host")),
        ];
        for (way, (x, from, to, bytes, whose)) in ways.into_iter().enumerate() {
            if bytes <= 0.0 {
                continue;
            }
            let thick = (THICK * bytes / self.own.problem.widths.room).clamp(1.0, THICK);
            let _ = writeln!(
                body,
                "<line x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\" stroke=\"#456\" \
                 stroke-width=\"{thick:.1}\" marker-end=\"url(#head)\"/>"
            );
            let number = notes.len() + 1;
            let label = format!("{number}: {bytes:.1} B");
            text(body, (x + 12, host + BOX), "start", &label);
            let parts: Vec<String> = copies(step)[way]
                .iter()
                .filter_map(|(what, crossing)| {
                    let parts = super::parts(crossing)?;
                    Some(if what.is_empty() { parts } else { format!("{what}: {parts}") })
                })
                .collect();
            notes.push(format!("{number}: {whose}: {}", parts.join("; ")));
        }
    }
}

/// The legend, below `top`. Returns where it ends.
fn legend(body: &mut String, top: usize) -> usize {
    let texts = [
        "down arrow: bytes of a packet that are copied to a device; up arrow: to the host",
        "an arrow is as thick as its part of a whole frame; the notes list the fields",
        "functions in one box run one after the other in the same place",
        "dashed arch: a route from a function to the next",
    ];
    let mut y = top;
    for (number, what) in texts.into_iter().enumerate() {
        y += LINE;
        let head = if number == 0 { "legend  " } else { "        " };
        text(body, (MARGIN, y), "start", &format!("{head}{what}"));
    }
    y + MARGIN
}

fn text_width(text: &str) -> usize {
    (text.chars().count() as f64 * LETTER) as usize
}

fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| text_width(line)).max().unwrap_or(0)
}

/// Names come from a chain file and may hold anything.
fn text(body: &mut String, (x, y): (usize, usize), anchor: &str, what: &str) {
    let escaped = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        body,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" xml:space=\"preserve\">{escaped}</text>"
    );
}
