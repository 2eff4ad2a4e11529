//! The network function `ttl_guard`: the template for functions of your own. Its manual follows.
//!
#![doc = include_str!("manual.md")]
#![forbid(unsafe_code)]

use warpline_nf::kernels::{KernelStep, Kernels};
use warpline_nf::{Definition, Function, Key, Resources, Section};
use warpline_packet::{Access, Batch, Field, FieldSet, PacketMut, ReadWrite, Reason};

/// The function, as a program's list of functions has it.
pub const DEFINITION: Definition = Definition {
    name: "ttl_guard",
    summary: "drops packets with few hops left (RFC 5082)",
    manual: include_str!("manual.md"),
    has_kernels: true,
    keys: &[Key {
        name: "least",
        allowed: "1 to 255",
        default: "255",
        help: "packets with a smaller TTL or hop limit are dropped",
    }],
    drops: &["low-ttl"],
    counters: &[],
    access: ACCESS,
    build,
    build_pair: None,
};

/// The place of `low-ttl` in the list of drop reasons.
const LOW_TTL: Reason = Reason(0);

const ACCESS: Access = Access::run_only(ReadWrite::new(
    FieldSet::HEADERS.with(Field::Ttl),
    FieldSet::of(&[Field::Verdict]),
));

struct TtlGuard {
    least: u8,
}

fn build(section: &mut Section<'_>, _: &mut Resources) -> Option<Box<dyn Function>> {
    let least = section.integer("least", 1..=255, 255) as u8;
    Some(Box::new(TtlGuard { least }))
}

impl TtlGuard {
    fn check(&self, packet: &mut PacketMut<'_>) {
        let is_ip = !packet.reject_malformed() && packet.version() != 0;
        if is_ip && packet.ttl() < self.least {
            packet.drop(LOW_TTL);
        }
    }
}

impl Function for TtlGuard {
    fn access(&self) -> &Access {
        &ACCESS
    }

    fn run(&self, batch: &mut Batch) {
        batch.for_each_forward(|packet| self.check(packet));
    }

    fn kernels(&self) -> Option<Kernels> {
        const STEPS: &[KernelStep] =
            &[KernelStep { name: "guard_ttl", group: 128, shared_big: 0, items_per_packet: 1 }];
        let kernels = Kernels::builder("ttl_guard.cl", include_str!("kernel.cl"), STEPS)
            .defines([("LEAST", self.least.into()), ("LOW_TTL", LOW_TTL.0.into())])
            .build();
        Some(kernels.declaring(self.kernel_access()))
    }

    fn succeeds(&self, _: &dyn Function) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
