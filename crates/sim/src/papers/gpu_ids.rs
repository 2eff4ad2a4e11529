//! A GPU-assisted framework for packet processing, with an intrusion detection system: buffers and
//! streams for a Tesla K20c on a link of 1 Gb/s.

mod figures;
mod model;
mod tables;

use super::{Assumed, Paper, PaperItem, Simulation};

const LIVE: &str = "tools/bench.sh nids_run, with a K20c and a link of 1 Gb/s";

const fn entry(
    item: &'static str,
    title: &'static str,
    source: &'static str,
    simulation: Simulation,
) -> PaperItem {
    let (live, simulation) = (Some(LIVE), Some(simulation));
    PaperItem {
        paper: "gpu-ids-framework",
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
    name: "gpu-ids-framework",
    title: "GPU-assisted packet processing framework for virtual network functions",
    assumed: &[
        Assumed {
            what: "the three threads carry 55 Mb/s without a GPU",
            why: "Figure 5: no drop at 50 Mb/s and about 40 % at 100. Section 5.2: around 50 Mb/s.",
        },
        Assumed {
            what: "a launch takes 20 ms of calls between CPU and GPU, one launch at a time",
            why: "Table 2: 256 KB do not carry 200 Mb/s, 512 KB carry 200, 1 MB 400 and not 800. \
                 So about 50 launches a second are possible.",
        },
        Assumed {
            what: "kernels take 1 ns for a byte",
            why: "Table 2: a buffer of 4 MB at 1 Gb/s leaves 2.4 ms beside the mean time to fill.",
        },
        Assumed {
            what: "without a GPU a packet waits 20 ms at low load",
            why: "Table 2: the CPU's delay at 10 Mb/s is 8 % of the 250 ms that buffers wait \
                 there.",
        },
        Assumed {
            what: "packets of 1500 bytes at equal distances",
            why: "iPerf3 fills packets. Its bursts are not described.",
        },
        Assumed {
            what: "a packet takes 22 us of a thread beside the GPU",
            why: "Figure 7: at most 42 % of four threads, at 1 Gb/s.",
        },
        Assumed {
            what: "1 Gb/s is 900 Mb/s of packets",
            why: "Section 5.2 names it as the maximum of the link.",
        },
    ],
    entries: &[
        PaperItem {
            paper: "gpu-ids-framework",
            item: "fig2",
            title: "Two tasks with one stream and with two",
            source: "section 3.1, figure 2, lines 155 to 168 of the manuscript; a drawing",
            live: Some("tools/bench.sh device_run"),
            simulation: Some(figures::figure_2),
            measured: None,
            why_not: "",
        },
        entry(
            "fig5",
            "Packet loss by traffic and buffer",
            "section 5.2, figure 5, lines 286 to 298 of the manuscript",
            figures::figure_5,
        ),
        entry(
            "fig6",
            "Throughput at 1 Gb/s by buffer",
            "section 5.2, figure 6, lines 299 to 311 of the manuscript",
            figures::figure_6,
        ),
        entry(
            "fig7",
            "CPU usage by traffic and buffer",
            "section 5.2, figure 7, lines 312 to 319 of the manuscript",
            figures::figure_7,
        ),
        entry(
            "fig8",
            "GPU usage by traffic and buffer",
            "section 5.2, figure 8, lines 320 to 330 of the manuscript",
            figures::figure_8,
        ),
        entry(
            "table2",
            "Speed-up of the packet delay",
            "section 5.2, table 2, lines 331 to 342 of the manuscript",
            tables::table_2,
        ),
        entry(
            "table3",
            "Buffer by traffic and delay",
            "section 5.2, table 3, lines 343 to 356 of the manuscript",
            tables::table_3,
        ),
    ],
};
