//! A plan as a drawing: functions from left to right, the host and each device as lanes, arrows as
//! thick as what crosses.

use std::fmt::Write;

use warpline_engine::Planned;
use warpline_sched::{Mode, Plan, Step};

use super::{device_of, made, problem_of};
use crate::Failure;
use crate::chain_file::Loaded;

/// Sizes, in pixels.
const COLUMN: usize = 190;
const LANE: usize = 120;
const LEFT: usize = 130;
const BOX: (usize, usize) = (160, 36);
/// The thickest arrow.
const THICK: f64 = 14.0;

/// All chains in one file, one below the other.
pub(super) fn draw(chains: &[Loaded], packet_len: u32, mode: Mode) -> Result<String, Failure> {
    let (mut body, mut top, mut width) = (String::new(), 0, 0);
    for loaded in chains {
        let own = problem_of(&loaded.deployment, packet_len);
        let plan = made(&own, mode)?;
        let title = format!(
            "{}, {} plan, frames of {packet_len} bytes: {:.1} B a packet there, {:.1} back",
            loaded.chain().name,
            mode.name(),
            plan.to_device_bytes(),
            plan.to_host_bytes()
        );
        let _ = writeln!(body, "<g transform=\"translate(0,{top})\">");
        text(&mut body, (10, 22), "start", &title);
        lanes(&mut body, loaded, &own, &plan);
        body += "</g>\n";
        top += 50 + LANE * (own.devices.len() + 1);
        width = width.max(LEFT + COLUMN * own.problem.functions.len() + 20);
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{top}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{HEAD}{body}</svg>\n",
        width = width.max(600)
    ))
}

/// The head of an arrow.
const HEAD: &str = "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"14\" markerHeight=\"14\" \
    markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0,0 L6,3 L0,6 z\" fill=\"#456\"/></marker></defs>\n";

fn lanes(body: &mut String, loaded: &Loaded, own: &Planned, plan: &Plan) {
    let functions = &own.problem.functions;
    let names = std::iter::once("host").chain(own.devices.iter().map(String::as_str));
    for (lane, name) in names.enumerate() {
        let y = 40 + LANE * lane + BOX.1 / 2;
        text(body, (10, y + 4), "start", name);
        let end = LEFT + COLUMN * functions.len();
        let _ = writeln!(
            body,
            "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{end}\" y2=\"{y}\" stroke=\"#ddd\"/>"
        );
    }
    for (position, function) in functions.iter().enumerate() {
        let lane = function.device.map_or(0, |device| device + 1);
        let (x, y) = (LEFT + COLUMN * position, 40 + LANE * lane);
        let _ = writeln!(
            body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"#eef\" stroke=\"#456\"/>",
            BOX.0, BOX.1
        );
        let shown = format!("{} ({})", function.name, device_of(&loaded.deployment, own, position));
        text(body, (x + BOX.0 / 2, y + BOX.1 / 2 + 4), "middle", &shown);
        if let Some(step) = plan.step(position) {
            arrows(body, (x, y), step, own.problem.widths.room);
        }
    }
}

/// The copies of a step, as arrows on both sides of the function's box.
fn arrows(body: &mut String, (x, y): (usize, usize), step: &Step, room: f64) {
    let back = step.to_host_bytes();
    let host = 40 + BOX.1;
    let each = [(x + 20, host, y, step.to_device_bytes()), (x + BOX.0 - 20, y, host, back)];
    for (x, from, to, bytes) in each.into_iter().filter(|each| each.3 > 0.0) {
        let thick = (THICK * bytes / room).clamp(1.0, THICK);
        let _ = writeln!(
            body,
            "<line x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\" stroke=\"#456\" stroke-width=\"{thick:.1}\" marker-end=\"url(#head)\"/>"
        );
        text(body, (x + 8, (from + to) / 2), "start", &format!("{bytes:.1} B"));
    }
}

/// Names come from a chain file and may hold anything.
fn text(body: &mut String, (x, y): (usize, usize), anchor: &str, what: &str) {
    let escaped = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{escaped}</text>");
}
