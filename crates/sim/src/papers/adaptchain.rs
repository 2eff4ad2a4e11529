//! `AdaptChain` (2024): which fields cross to a GPU and back, for chains of functions on CPU and
//! GPU.

mod chains;
mod latency;
mod model;
mod opportunities;
mod stage_times;
mod throughput;

use super::{Assumed, Paper, PaperItem, Simulation};

const fn entry(
    item: &'static str,
    title: &'static str,
    source: &'static str,
    simulation: Simulation,
) -> PaperItem {
    let (live, simulation) = (Some("tools/bench.sh chain_copies"), Some(simulation));
    PaperItem {
        paper: "adaptchain-2024",
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
    name: "adaptchain-2024",
    title: "AdaptChain: adaptive data sharing and synchronization for NFV systems on \
         heterogeneous architectures",
    assumed: &[
        Assumed {
            what: "a link of 12 GB/s in each direction, one copy at a time, 5 us for each copy",
            why: "PCIe 3.0 with 16 lanes. Section II-B: one or two engines in each direction.",
        },
        Assumed {
            what: "to batch a packet, or to put it back: 21 ns and 0.138 ns for each byte, of \
                 one thread",
            why: "Figure 1: 49.2 % of the time before and after an IPsec kernel, 25.8 % for \
                 copies that take 171 ns at 12 GB/s for 1024 bytes, and 6.3 % if only pointers \
                 are batched.",
        },
        Assumed {
            what: "kernels alone: IPsec 0.161 and NIDS 0.235 ns for each byte; firewall 30, NAT \
                 20 ns",
            why: "IPsec and NIDS: the rest of figure 1. The others read a header.",
        },
        Assumed {
            what: "three and a half kernels of 1024 packets run at once",
            why: "A thread for each packet, and 3584 cores.",
        },
        Assumed {
            what: "functions on the CPU take 20 ns for a packet, of two threads",
            why: "The paper gives none; they are not to be the limit.",
        },
        Assumed { what: "a pointer of 8 bytes crosses with each packet", why: "Section VI-B, C1." },
        Assumed {
            what: "60 ns for a unit in each queue, 200 ns for one in the state table",
            why: "Section VI-D gives no time. With these a unit of 4 packets is slower, as there.",
        },
        Assumed {
            what: "packets of 1024 bytes where the paper names no size",
            why: "Section III-A names 1 KB as the average.",
        },
    ],
    entries: &[
        entry("table1", "Ways to the device", "section IV-A, table I", opportunities::table_1),
        entry("table2", "Ways to the host", "section IV-A, table II", opportunities::table_2),
        entry(
            "fig1",
            "Times of IPsec and NIDS, packets on host or GPU",
            "section II-A, figure 1",
            stage_times::figure_1,
        ),
        entry(
            "fig3",
            "Copy time of the firewall beside others",
            "section II-B, figure 3",
            stage_times::figure_3,
        ),
        entry(
            "fig4",
            "Synchronisation that is avoided",
            "section III-A, figure 4",
            opportunities::figure_4,
        ),
        entry("fig5", "Modified fields alone", "section III-A, figure 5", opportunities::figure_5),
        entry(
            "fig6",
            "Copies for later functions",
            "section III-A, figure 6",
            opportunities::figure_6,
        ),
        entry(
            "fig9",
            "C1: throughput and bytes to the device",
            "section VI-B, figure 9",
            throughput::figure_9,
        ),
        entry(
            "fig10",
            "C2: throughput and bytes to the device",
            "section VI-B, figure 10",
            throughput::figure_10,
        ),
        entry("fig11a", "C3: throughput", "section VI-B, figure 11 (a)", throughput::figure_11a),
        entry(
            "fig11b",
            "C3: times of its stages",
            "section VI-B, figure 11 (b)",
            stage_times::figure_11b,
        ),
        entry(
            "fig12",
            "C3: bytes to the device and to the host",
            "section VI-B, figure 12",
            throughput::figure_12,
        ),
        entry(
            "fig13",
            "C4: throughput and bytes to the device",
            "section VI-C, figure 13",
            throughput::figure_13,
        ),
        entry(
            "fig14",
            "C5: throughput and bytes to the device",
            "section VI-C, figure 14",
            throughput::figure_14,
        ),
        entry("ratios", "Greatest gain of C1 to C5", "sections VI-B and VI-C", throughput::ratios),
        entry(
            "fig15",
            "Throughput and latency by unit size",
            "section VI-D, figure 15",
            latency::figure_15,
        ),
        entry(
            "fig16",
            "Latency of C1 and C4 at 10 Gb/s",
            "section VI-E, figure 16",
            latency::figure_16,
        ),
        PaperItem {
            paper: "adaptchain-2024",
            item: "containers",
            title: "Functions in containers of their own",
            source: "section VI-A",
            live: None,
            simulation: None,
            measured: None,
            why_not: "not built: functions of a chain share a process",
        },
    ],
};
