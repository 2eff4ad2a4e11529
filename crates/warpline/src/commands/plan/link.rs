//! How much of a link a plan takes, at some rate of traffic, and what links were taken to cost.

use warpline_engine::{Deployment, Planned};
use warpline_sched::{FieldCosts, LinkCosts, Plan, PlanStep};

/// Traffic of equal frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Bytes of a frame.
    pub(super) packet_len: u32,
    /// Bits of frames a second, in 10^9.
    pub(super) gbps: f64,
    /// The longest delay of a frame; `None` is the chain's limit.
    pub(super) delay_us: Option<f64>,
}

impl Traffic {
    /// Shares of a link's two directions, there and back, that a step takes. Above 1 the link is
    /// too slow.
    pub(super) fn shares(&self, own: &Planned, step: &PlanStep) -> [f64; 2] {
        let link = &own.problem.links[step.device];
        [
            self.share(step.to_device_bytes(), link.to_device_ns_per_byte),
            self.share(step.to_host_bytes(), link.to_host_ns_per_byte),
        ]
    }

    /// The share of a link's direction that so many bytes a packet take.
    fn share(&self, bytes: f64, ns_per_byte: f64) -> f64 {
        bytes * ns_per_byte * self.gbps / (8.0 * f64::from(self.packet_len))
    }

    /// By device that the plan uses: what its link is taken to carry, where that is from, and the
    /// traffic that fills it.
    pub(super) fn links(&self, deployment: &Deployment, own: &Planned, plan: &Plan) -> String {
        let of = |(number, id): (usize, &String)| {
            let steps = plan.steps.iter().filter(|step| step.device == number);
            let shares = steps.map(|step| self.shares(own, step));
            let [there, back] =
                shares.fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]]);
            let LinkCosts { to_device_ns_per_byte, to_host_ns_per_byte, traffic, .. } =
                own.problem.links[number];
            let from = origin(deployment.profile().link(id).is_some());
            let mut text = format!(
                "  link to {id}: {:.1} GB/s to the device and {:.1} to the host ({from}), assumed \
                 {traffic:.1} times slower beside other copies",
                1.0 / to_device_ns_per_byte,
                1.0 / to_host_ns_per_byte,
            );
            if there.max(back) > 0.0 {
                let full = self.gbps / there.max(back);
                text += &format!("; full at {full:.0} Gb/s of such frames");
            }
            text + "\n"
        };
        own.devices.iter().enumerate().map(of).collect::<String>() + &host(deployment, own)
    }
}

/// Where figures are from.
fn origin(is_measured: bool) -> &'static str {
    if is_measured { "measured" } else { "defaults, not measured" }
}

/// The assumed cost of copies on the host.
fn host(deployment: &Deployment, own: &Planned) -> String {
    let Some(LinkCosts { gather, put, host_copy_ns_per_byte, .. }) = own.problem.links.first()
    else {
        return String::new();
    };
    let from = origin(deployment.profile().gather.is_some());
    let of = |costs: &FieldCosts| {
        format!("{:.2} ns a packet and {:.2} a field", costs.packet_ns, costs.field_ns)
    };
    format!(
        "  host: gathering fields takes {}; storing them {}, and {host_copy_ns_per_byte:.2} a byte \
         ({from})\n  copies within a device, and whole frames to the host, have default costs\n",
        of(gather),
        of(put)
    )
}
