//! An entry as a drawing: our values as lines, the paper's as circles.

use std::fmt::Write;

use super::super::shape::shown;
use super::super::{Reproduced, Series};

const WIDTH: f64 = 760.0;
const PLOT: (f64, f64) = (460.0, 200.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 46.0;
const PANEL: f64 = 300.0;
const COLORS: [&str; 8] =
    ["#1b6ca8", "#d1495b", "#3b8f5a", "#8a5fbf", "#c9822b", "#4a4e69", "#2a9d8f", "#9b2226"];

/// One panel for the series of each unit.
pub fn svg(one: &Reproduced) -> String {
    let mut panels: Vec<Vec<&Series>> = Vec::new();
    for series in &one.found.series {
        let key = |own: &Series| (own.unit, own.over);
        match panels.iter_mut().find(|panel| key(panel[0]) == key(series)) {
            Some(panel) => panel.push(series),
            None => panels.push(vec![series]),
        }
    }
    let height = PANEL * panels.len().max(1) as f64 + 40.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("{}: {} ({})", one.entry.id(), one.entry.title, one.state.name());
    label(&mut text, (10.0, 22.0), "start", &title);
    for (number, panel) in panels.iter().enumerate() {
        let _ = writeln!(text, "<g transform=\"translate(0,{})\">", PANEL * number as f64 + 10.0);
        draw(&mut text, panel);
        text += "</g>\n";
    }
    text + "</svg>\n"
}

fn draw(text: &mut String, panel: &[&Series]) {
    let mut places: Vec<&str> = Vec::new();
    for point in panel.iter().flat_map(|series| &series.points) {
        if !places.contains(&point.at.as_str()) {
            places.push(&point.at);
        }
    }
    let values = panel.iter().flat_map(|series| &series.points);
    let values = values.flat_map(|point| [point.paper, point.ours]).flatten();
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(0.0, f64::min);
    let range = if most > least { most - least } else { 1.0 };
    let x = |at: &str| {
        let place = places.iter().position(|own| *own == at).unwrap_or_default();
        LEFT + PLOT.0 * (place as f64 + 0.5) / places.len().max(1) as f64
    };
    let y = |value: f64| TOP + PLOT.1 * (1.0 - (value - least) / range);
    axes(text, panel[0], &places, [least, most].map(|value| (value, y(value))), &x);
    for (number, series) in panel.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let ours = series.points.iter().filter_map(|point| Some((x(&point.at), y(point.ours?))));
        let line: Vec<String> = ours.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>",
            line.join(" ")
        );
        for (x, y) in ours {
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{color}\"/>");
        }
        let paper = series.points.iter().filter_map(|point| Some((x(&point.at), y(point.paper?))));
        for (x, y) in paper {
            let _ = writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"none\" stroke=\"{color}\" \
                 stroke-width=\"1.5\"/>"
            );
        }
        legend(text, number, color, &series.name);
    }
}

fn axes(
    text: &mut String,
    series: &Series,
    places: &[&str],
    ends: [(f64, f64); 2],
    x: &impl Fn(&str) -> f64,
) {
    let (bottom, right) = (TOP + PLOT.1, LEFT + PLOT.0);
    let _ = writeln!(
        text,
        "<path d=\"M{LEFT},{TOP} V{bottom} H{right}\" fill=\"none\" stroke=\"#888\"/>"
    );
    for (value, y) in ends {
        label(text, (LEFT - 6.0, y + 4.0), "end", &shown(value));
    }
    label(text, (LEFT, TOP - 8.0), "start", series.unit);
    // At most a dozen names fit.
    let step = places.len().div_ceil(12).max(1);
    for at in places.iter().step_by(step) {
        let short: String = at.chars().take(12).collect();
        label(text, (x(at), bottom + 16.0), "middle", &short);
    }
    label(text, (LEFT + PLOT.0 / 2.0, bottom + 34.0), "middle", series.over);
}

fn legend(text: &mut String, number: usize, color: &str, name: &str) {
    let (x, y) = (LEFT + PLOT.0 + 16.0, TOP + 16.0 * number as f64);
    if number == 0 {
        label(text, (x, y - 16.0), "start", "lines: ours; circles: paper");
    }
    let _ = writeln!(
        text,
        "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>",
        y - 4.0
    );
    let short: String = name.chars().take(34).collect();
    label(text, (x + 16.0, y + 5.0), "start", &short);
}

fn label(text: &mut String, (x, y): (f64, f64), anchor: &str, what: &str) {
    let escaped = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ =
        writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{escaped}</text>");
}
