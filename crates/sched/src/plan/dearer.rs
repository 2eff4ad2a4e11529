//! Explains why a plan that moves fewer bytes costs more.

use super::{Misfit, Mode, Plan, Problem};

/// A plan that moves fewer bytes than the one that was chosen, and costs no less. All are a
/// packet's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dearer {
    /// By which rule it is made.
    pub mode: Mode,
    /// Bytes that it moves less.
    pub fewer_bytes: f64,
    /// ns that these would take on links.
    pub link_ns: f64,
    /// ns that it takes longer to gather fields, to put them in their places, and to wait.
    pub host_ns: f64,
}

impl Problem {
    /// Of the plans of other rules that of `mode`, where it moves fewer bytes than `plan` and is
    /// not cheaper.
    ///
    /// # Errors
    /// As for [`Problem::plan`].
    pub fn dearer_by(&self, plan: &Plan, mode: Mode) -> Result<Option<Dearer>, Misfit> {
        let other = self.plan(mode)?;
        let link_ns = plan.link_ns(self) - other.link_ns(self);
        let own = Dearer {
            mode,
            fewer_bytes: plan.bytes() - other.bytes(),
            link_ns,
            host_ns: other.cost_ns - plan.cost_ns + link_ns,
        };
        let is_dearer = own.fewer_bytes > LEAST && other.cost_ns > plan.cost_ns - LEAST;
        Ok(is_dearer.then_some(own))
    }

    /// The one with the fewest bytes of these.
    ///
    /// # Errors
    /// As for [`Problem::plan`].
    pub fn dearer(&self, plan: &Plan) -> Result<Option<Dearer>, Misfit> {
        let all = Mode::ALL.into_iter().map(|mode| self.dearer_by(plan, mode));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let fewest = |one: &Dearer, other: &Dearer| one.fewer_bytes.total_cmp(&other.fewer_bytes);
        Ok(all.into_iter().flatten().max_by(fewest))
    }
}

/// Sums of bytes or ns in another order differ by less.
const LEAST: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use warpline_packet::{Field, FieldSet};

    use super::*;
    use crate::{Aim, FieldCosts, LinkCosts, PlannedFunction, RowBytes, Touch, Widths};

    /// A function on a device that reads as many fields as it takes to make a whole frame cheaper.
    fn problem(field_ns: f64) -> Problem {
        let fields = FieldSet::of(&[Field::SrcAddr, Field::DstAddr, Field::Ttl]);
        let run = Touch { needs: fields, writes: FieldSet::EMPTY };
        let gather = FieldCosts { packet_ns: 0.0, field_ns };
        Problem {
            functions: vec![PlannedFunction {
                row: RowBytes { there: 8.0, back: 1.0 },
                ..PlannedFunction::run_only("one", Some(0), run)
            }],
            hops: None,
            links: vec![LinkCosts { gather, ..LinkCosts::PCIE_4 }],
            widths: Widths::of_udp(64, 64),
            end_reads: Problem::sink_reads(),
            gathered: fields,
            is_recoverable: true,
            fetches_first: false,
            aim: Aim::TIME,
        }
    }

    #[test]
    fn fields_that_are_dear_to_gather_are_why() {
        let problem = problem(3.0);
        let plan = problem.plan(Mode::Adaptive).expect("a link");
        assert_eq!(plan.to_device_bytes(), 72.0, "a whole frame, and a row");
        let found = problem.dearer(&plan).expect("a link").expect("per_nf moves 9 bytes and a row");
        assert_eq!(found.fewer_bytes, 55.0);
        let link = 55.0 * 0.04 * 1.8;
        assert!((found.link_ns - link).abs() < 1e-9, "{found:?}");
        // Three fields and their nine bytes; a frame is a copy more than a table.
        let host = 3.0 * 3.0 + 9.0 * 0.05 - 0.01;
        assert!((found.host_ns - host).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_plan_with_the_fewest_bytes_needs_no_reason() {
        let problem = problem(0.1);
        let plan = problem.plan(Mode::Adaptive).expect("a link");
        assert_eq!(plan.to_device_bytes(), 17.0);
        assert_eq!(problem.dearer(&plan), Ok(None));
    }
}
