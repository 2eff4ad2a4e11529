//! An entry as a drawing: our values as dots on lines, the paper's as rings.

use std::fmt::Write;

use super::super::shape::shown;
use super::super::{Reproduced, Series};

const WIDTH: f64 = 820.0;
const PLOT: (f64, f64) = (460.0, 200.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 46.0;
const PANEL: f64 = 300.0;
/// A line of the legend.
const LEGEND: f64 = 16.0;
/// The width of a letter, at most.
const LETTER: f64 = 7.0;
/// Names below the axis, and letters of one.
const NAMES_MAX: usize = 12;
const NAME_MAX: usize = 30;
const COLORS: [&str; 8] =
    ["#1b6ca8", "#d1495b", "#3b8f5a", "#8a5fbf", "#c9822b", "#4a4e69", "#2a9d8f", "#9b2226"];
/// Of lines, once all colours are used.
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

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
    let tops: Vec<f64> = panels
        .iter()
        .scan(10.0, |top, panel| {
            let own = *top;
            *top += height_of(panel);
            Some(own)
        })
        .collect();
    let height = panels.iter().map(|panel| height_of(panel)).sum::<f64>().max(PANEL) + 40.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("{}: {} ({})", one.entry.id(), one.entry.title, one.state.name());
    label(&mut text, (10.0, 22.0), "start", &title);
    for (panel, top) in panels.iter().zip(tops) {
        let _ = writeln!(text, "<g transform=\"translate(0,{top})\">");
        draw(&mut text, panel);
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// A long legend and slanted names make a panel higher.
fn height_of(panel: &[&Series]) -> f64 {
    (PANEL + slanted_height(&places_of(panel))).max(TOP + LEGEND * (panel.len() + 1) as f64)
}

/// The names along the axis, each once.
fn places_of<'a>(panel: &[&'a Series]) -> Vec<&'a str> {
    let mut places: Vec<&str> = Vec::new();
    for point in panel.iter().flat_map(|series| &series.points) {
        if !places.contains(&point.at.as_str()) {
            places.push(&point.at);
        }
    }
    places
}

/// The distance of places that have their names.
fn step_of(places: &[&str]) -> usize {
    places.len().div_ceil(NAMES_MAX).max(1)
}

/// The height of names that are slanted by 30 degrees, as they are too long to stand beside each
/// other; 0 of others.
fn slanted_height(places: &[&str]) -> f64 {
    let shown = places.len().div_ceil(step_of(places)).max(1);
    let longest = places.iter().map(|name| name.chars().count().min(NAME_MAX)).max();
    let longest = longest.unwrap_or(0) as f64 * LETTER;
    if longest > PLOT.0 / shown as f64 { longest / 2.0 } else { 0.0 }
}

fn draw(text: &mut String, panel: &[&Series]) {
    let places = places_of(panel);
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
        let stroke = stroke(number);
        let ours = series.points.iter().filter_map(|point| Some((x(&point.at), y(point.ours?))));
        let line: Vec<String> = ours.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(text, "<polyline points=\"{}\" fill=\"none\" {stroke}/>", line.join(" "));
        let fill = color(number);
        for (x, y) in ours {
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{fill}\"/>");
        }
        let paper = series.points.iter().filter_map(|point| Some((x(&point.at), y(point.paper?))));
        for (x, y) in paper {
            let _ = writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"none\" {stroke}/>"
            );
        }
        legend(text, number, &series.name);
    }
    let has_paper = panel.iter().flat_map(|series| &series.points).any(|one| one.paper.is_some());
    let signs = if has_paper { "dots: ours; rings: paper" } else { "dots: ours" };
    label(text, (LEFT + PLOT.0 + 16.0, TOP - 16.0), "start", signs);
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
    let slanted = slanted_height(places);
    for at in places.iter().step_by(step_of(places)) {
        let (x, y) = (x(at), bottom + 16.0);
        match slanted > 0.0 {
            true => {
                let _ = writeln!(text, "<g transform=\"rotate(30 {x:.1} {y:.1})\">");
                label(text, (x, y), "start", &shortened(at, NAME_MAX));
                text.push_str("</g>\n");
            }
            false => label(text, (x, y), "middle", at),
        }
    }
    label(text, (LEFT + PLOT.0 / 2.0, bottom + slanted + 34.0), "middle", series.over);
}

fn color(number: usize) -> &'static str {
    COLORS[number % COLORS.len()]
}

/// The line of a series: a colour, and dashes from the ninth series on.
fn stroke(number: usize) -> String {
    let dashes = DASHES[number / COLORS.len() % DASHES.len()];
    let color = color(number);
    format!("stroke=\"{color}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\"")
}

fn legend(text: &mut String, number: usize, name: &str) {
    let (x, y) = (LEFT + PLOT.0 + 16.0, TOP + LEGEND * number as f64);
    let (end, stroke) = (x + 24.0, stroke(number));
    let _ = writeln!(text, "<path class=\"key\" d=\"M{x},{y} H{end}\" {stroke}/>");
    label(text, (x + 30.0, y + 4.0), "start", &shortened(name, NAME_MAX));
}

fn shortened(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        None => name.to_owned(),
        Some(_) => name.chars().take(most - 1).chain(['…']).collect(),
    }
}

fn label(text: &mut String, (x, y): (f64, f64), anchor: &str, what: &str) {
    let escaped = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ =
        writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{escaped}</text>");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::papers::{ItemResult, named};

    /// A drawing of `count` curves.
    fn drawing(count: usize) -> String {
        let one = |number: usize| {
            let mut series = Series::new(format!("curve {number}"), "x", "y");
            series.add(1, Some(1.0), number as f64);
            series
        };
        let found = ItemResult { series: (0..count).map(one).collect(), rules: Vec::new() };
        svg(&Reproduced { found, ..named("all")[0].not_run() })
    }

    #[test]
    fn each_curve_of_a_panel_has_its_own_line() {
        let drawn = drawing(32);
        let keys: Vec<&str> = drawn.lines().filter(|line| line.contains("class=\"key\"")).collect();
        let strokes = |line: &&str| line.split_once("stroke=").map(|(_, stroke)| stroke.to_owned());
        let own: BTreeSet<String> = keys.iter().filter_map(strokes).collect();
        assert_eq!((keys.len(), own.len()), (32, 32));
        for stroke in own {
            // In the legend, as its line, and as the paper's point.
            assert_eq!(drawn.matches(&stroke).count(), 3, "{stroke}");
        }
    }

    /// The drawing of an entry whose places have these names.
    fn named_places(names: &[&str], paper: Option<f64>) -> String {
        let mut series = Series::new("curve", "x", "y");
        names.iter().for_each(|name| series.add(name, paper, 1.0));
        let found = ItemResult { series: vec![series], rules: Vec::new() };
        svg(&Reproduced { found, ..named("all")[0].not_run() })
    }

    #[test]
    fn names_that_do_not_fit_are_slanted_and_whole() {
        let long = ["1: a profile that is chosen", "2: another scheduler"];
        let drawn = named_places(&[&long[..], &["a"; 4]].concat(), Some(1.0));
        assert!(long.iter().all(|name| drawn.contains(&format!(">{name}</text>"))), "{drawn}");
        assert!(drawn.contains("rotate(30"), "{drawn}");
        let short = named_places(&["64", "1500"], None);
        assert!(!short.contains("rotate") && !short.contains("rings"), "{short}");
    }

    #[test]
    fn a_long_legend_stays_inside_the_drawing() {
        let drawn = drawing(32);
        let height = drawn.split_once("height=\"").and_then(|(_, rest)| rest.split_once('"'));
        let height: f64 = height.and_then(|(text, _)| text.parse().ok()).expect("a height");
        let ends = drawn.lines().filter(|line| line.contains("class=\"key\"")).map(|line| {
            let y = line.split_once(',').and_then(|(_, rest)| rest.split_once(' '));
            y.and_then(|(text, _)| text.parse::<f64>().ok()).expect("a place")
        });
        assert!(ends.fold(0.0, f64::max) < height - 20.0, "{height}");
    }
}
