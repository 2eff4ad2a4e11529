//! Simmer (2022): backpressure between network functions that share a virtual GPU.

mod facts;
mod figures;
mod measured;
mod model;

use super::{Assumed, Paper, PaperItem};

const fn entry(
    item: &'static str,
    title: &'static str,
    source: &'static str,
    simulation: super::Simulation,
) -> PaperItem {
    let live = Some("tools/bench.sh simmer");
    let simulation = Some(simulation);
    PaperItem {
        paper: "simmer-2022",
        item,
        title,
        source,
        live,
        simulation,
        measured: None,
        why_not: "",
    }
}

/// The same, with a reader of the bench's output.
const fn with(
    entry: PaperItem,
    measured: fn(&serde_json::Value) -> Option<super::ItemResult>,
) -> PaperItem {
    PaperItem { measured: Some(measured), ..entry }
}

/// See the module.
pub(super) const PAPER: Paper = Paper {
    name: "simmer-2022",
    title: "Simmer: rate proportional scheduling to reduce packet drops in vGPU based NF chains",
    assumed: &[
        Assumed {
            what: "launches of 4096 packets",
            why: "The paper does not state batch_size. With fewer, NF-1 would lose packets while \
                 the other two have their slices; in table 2 it loses almost none.",
        },
        Assumed {
            what: "receive queues of 4 launches",
            why: "The greatest threshold of figures 6 and 7 is 4 launches.",
        },
        Assumed {
            what: "slices of 2 ms, 50 us for a change of the tenant",
            why: "The paper states neither. 2 ms is the default of the arbiter; the change is a \
                 guess.",
        },
        Assumed {
            what: "costs of NF-2 and NF-3 are proportional to the packet's length, NF-1's is \
                 constant",
            why: "Table 1 has one length only. NF-2 and NF-3 read the payload, NF-1 a header.",
        },
        Assumed {
            what: "a signal takes 100 us",
            why: "A UDP datagram between two virtual machines of a host.",
        },
        Assumed {
            what: "offered load: 1.22 Mpps to 128 bytes, 1.63 to 256, 1.42 to 1024, 1.5 above; \
                 30 Mpps for one function alone, 16 Mpps for 3 x NF-1",
            why: "The drops of table 2 divided by their share of the traffic; no figure states \
                 a load. NF-1 carries those of the table, so it gets twice what the device can do.",
        },
    ],
    entries: &[
        PaperItem {
            paper: "simmer-2022",
            item: "table1",
            title: "Time for a packet of 1472 bytes by NF-1, NF-2 and NF-3",
            source: "section 2.2, table 1",
            live: Some("tools/bench.sh device_run, on an A100 with the paper's kernels"),
            simulation: None,
            measured: None,
            why_not: "the numbers are the input of the simulation",
        },
        entry("table2", "Packets dropped without Simmer", "section 2.3, table 2", figures::table_2),
        entry("table3", "MIG instances of an A100", "section 4.1, table 3", facts::table_3),
        entry("table4", "vGPU profiles of an A100", "section 4.1, table 4", facts::table_4),
        entry("table5", "MIG profile of each function", "section 4.6, table 5", facts::table_5),
        entry(
            "fig2",
            "Throughput of each function, NF-2 is the bottleneck",
            "section 2.3, figure 2; rates from table 2",
            figures::figure_2,
        ),
        entry(
            "fig5",
            "A function alone on the GPU, vGPU and MIG",
            "section 4.1, figure 5; no numbers are printed",
            figures::figure_5,
        ),
        with(
            entry(
                "fig6",
                "Throughput and drops by threshold, three kinds of functions",
                "section 4.2, figure 6; gain from sections 4.2 and 4.4",
                figures::figure_6,
            ),
            measured::figure_6,
        ),
        with(
            entry("fig7", "The same, NF-2 three times", "section 4.2, figure 7", figures::figure_7),
            measured::figure_7,
        ),
        with(
            entry(
                "fig7-nf1",
                "The same, NF-1 three times",
                "section 4.2, beside figure 7",
                figures::figure_7_nf1,
            ),
            measured::figure_7_nf1,
        ),
        with(
            entry(
                "fig7-nf3",
                "The same, NF-3 three times",
                "section 4.2, beside figure 7",
                figures::figure_7_nf3,
            ),
            measured::figure_7_nf3,
        ),
        entry(
            "fig8",
            "Share of NF-2 in all kernel launches",
            "section 4.3, figure 8; no numbers are printed",
            figures::figure_8,
        ),
        with(
            entry(
                "fig9",
                "Throughput of static chains by packet size",
                "section 4.4, figure 9",
                figures::figure_9,
            ),
            measured::figure_9,
        ),
        entry(
            "fig9-nf1",
            "The same, NF-1 three times",
            "section 4.2, beside figure 9",
            figures::figure_9_nf1,
        ),
        entry(
            "fig9-nf3",
            "The same, NF-3 three times",
            "section 4.2, beside figure 9",
            figures::figure_9_nf3,
        ),
        with(
            entry(
                "fig10",
                "Throughput of dynamic chains by packet size",
                "section 4.5, figure 10",
                figures::figure_10,
            ),
            measured::figure_10,
        ),
        entry(
            "fig11",
            "Three kinds of functions, vGPU and MIG",
            "section 4.6, figure 11 and table 5; no numbers are printed",
            figures::figure_11,
        ),
    ],
};
