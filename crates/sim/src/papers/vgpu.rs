//! Network functions in virtualized GPU environment (2020): virtual machines that share a P100.

mod facts;
mod figures;
mod measured;
mod model;

use super::{Assumed, Paper, PaperItem, Simulation};

const fn entry(
    item: &'static str,
    title: &'static str,
    source: &'static str,
    simulation: Simulation,
) -> PaperItem {
    let (live, simulation) = (Some("tools/bench.sh vgpu"), Some(simulation));
    PaperItem {
        paper: "vgpu-nfv-2020",
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
    name: "vgpu-nfv-2020",
    title: "Network functions in virtualized GPU environment",
    assumed: &[
        Assumed {
            what: "kernel time of a packet of 1522 bytes: IPsec 351 ns, NIDS 328 ns",
            why: "256 % of 13.55 Gb/s and 288 % of 12.9 Gb/s: with four machines and best effort \
                 the kernels are taken as the limit.",
        },
        Assumed {
            what: "time of the host for a packet, with streams: what the rate of one machine \
                 leaves",
            why: "With streams copies and kernels overlap, so one machine is limited by its host.",
        },
        Assumed {
            what: "latency of a launch without streams: what the rate without streams leaves",
            why: "Without streams host, copies and kernel follow each other; the rest is waiting.",
        },
        Assumed {
            what: "one machine with NIDS on a vGPU has 12.9 Gb/s",
            why: "The paper states 9.7 % less than passthrough for IPsec; NIDS is taken alike.",
        },
        Assumed {
            what: "launches of 256 packets, 4 streams",
            why: "Neither is stated. With these IPsec has about 148 % under equal share.",
        },
        Assumed { what: "a link of 12 GB/s in each direction", why: "PCIe 3.0 with 16 lanes." },
        Assumed {
            what: "slices of 2 ms, 20 us for a change of the tenant",
            why: "The paper states neither. 2 ms is the default of the arbiter; the change is a \
                 guess.",
        },
        Assumed {
            what: "CNN training: one kernel of 400 us after the other, 20 us of the host between \
                 them",
            why: "The paper gives no profile of it. A machine that always has kernels would take \
                 whole slices, and the loss would be above its part of the time.",
        },
        Assumed {
            what: "IPsec costs time by byte, NIDS by packet",
            why: "Section V-A: NIDS processes a packet in constant time.",
        },
    ],
    entries: &[
        entry("table1", "vGPU profiles of a P100", "section III, table I", facts::table_1),
        PaperItem {
            paper: "vgpu-nfv-2020",
            item: "limits",
            title: "The five limits of virtual GPUs",
            source: "section III; limit 1 is stated, not tried",
            live: None,
            simulation: Some(facts::limits),
            measured: None,
            why_not: "",
        },
        entry(
            "fig2a",
            "Throughput by packet size, passthrough",
            "section V-A, figure 2 (a)",
            figures::figure_2a,
        ),
        entry(
            "fig2b",
            "Throughput by packet size, one vGPU",
            "section V-B, figure 2 (b)",
            figures::figure_2b,
        ),
        with(
            entry(
                "fig3",
                "Throughput by number of machines and scheduler",
                "section V-C, figure 3",
                figures::figure_3,
            ),
            measured::figure_3,
        ),
        with(
            entry(
                "fig4",
                "Throughput of all machines by profile",
                "section V-D, figure 4; 40 Gb/s from section VI",
                figures::figure_4,
            ),
            measured::figure_4,
        ),
        entry(
            "fig5",
            "Throughput beside machines with CNN training",
            "section V-E, figure 5; no numbers are printed",
            figures::figure_5,
        ),
        entry(
            "fig6",
            "Drop of throughput beside CNN training",
            "section V-E, figure 6; no numbers are printed",
            figures::figure_6,
        ),
    ],
};
