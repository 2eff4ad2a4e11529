//! Pythia (2020): applications on a CPU, an integrated and a discrete GPU, placed by policy.

mod alone;
mod figure_4;
mod tables;

use super::{Assumed, Paper, PaperItem, Simulation};

const PROFILE: &str = "warpline profile, on a machine with these three devices";

const fn entry(
    item: &'static str,
    title: &'static str,
    source: &'static str,
    simulation: Simulation,
) -> PaperItem {
    let (live, simulation) = (Some(PROFILE), Some(simulation));
    PaperItem {
        paper: "pythia-2020",
        item,
        title,
        source,
        live,
        simulation,
        measured: None,
        why_not: "",
    }
}

/// See the module.
pub(super) const PAPER: Paper = Paper {
    name: "pythia-2020",
    title: "Pythia: scheduling of concurrent network packet processing applications on \
         heterogeneous devices",
    assumed: &[
        Assumed {
            what: "power, idle and busy: i7-8700K 20 and 95 W, UHD 630 1 and 15 W, GTX 1080 Ti \
                 55 and 250 W",
            why: "The paper prints no watts. These are near the vendors' limits.",
        },
        Assumed {
            what: "throughput alone is the one beside another, divided by one minus its slow-down",
            why: "The tables print both, and figure 1 prints no numbers.",
        },
        Assumed {
            what: "the port carries 27.6 Gb/s",
            why: "The greatest aggregate of the tables. Footnote 2 names a limit of 30 Gb/s.",
        },
        Assumed {
            what: "load of figures 4 (a) and (b): 10 Gb/s, 20 from 20 s, 40 from 30 s, 10 from \
                 40 s",
            why: "The text names these rates and times, and no others.",
        },
    ],
    entries: &[
        entry("table1", "DPI beside other functions", "section III, table I", tables::table_1),
        entry("table2", "AES beside other functions", "section III, table II", tables::table_2),
        entry("table3", "MD5 beside other functions", "section III, table III", tables::table_3),
        PaperItem {
            paper: "pythia-2020",
            item: "table4",
            title: "Comparison: devices and applications at once",
            source: "section VI, table IV",
            live: None,
            simulation: Some(tables::table_4),
            measured: None,
            why_not: "",
        },
        entry(
            "fig1",
            "Throughput of 1500-byte packets by batch size",
            "section III, figure 1, without numbers; the paper's column and the input are the \
             rates of tables I to III",
            alone::figure_1,
        ),
        entry(
            "fig2",
            "Latency of 1500-byte packets by batch size",
            "section III, figure 2; no numbers are printed",
            alone::figure_2,
        ),
        entry("fig4a", "Two DPI, load rises and falls", "section V, figure 4 (a)", figure_4::a),
        entry("fig4b", "DPI and AES, load rises and falls", "section V, figure 4 (b)", figure_4::b),
        entry("fig4c", "AES, from throughput to energy", "section V, figure 4 (c)", figure_4::c),
        entry(
            "fig4d",
            "AES and DPI, from throughput to energy",
            "section V, figure 4 (d)",
            figure_4::d,
        ),
    ],
};
