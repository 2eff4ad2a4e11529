//! A chain in the form that the synchronisation plan needs, and the plan in the form that launches
//! need.

use std::ops::Range;

use warpline_launch::{Crossings, takes_out_of_mirrors};
use warpline_nf::Function;
use warpline_packet::{Access, Binding, Columns, Field, FieldSet, PACKED_ROW_LEN, ReadWrite};

use warpline_sched::{
    Aim, Mode, PlanHops, PlannedFunction, Problem, RouteTo, Routes, RowBytes, Widths,
};

use crate::frames_on_way::FramesOnWay;
use crate::{Deployment, Instance, Site, StagePlan};

/// By which rule a chain's fields cross to devices and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The rule.
    pub mode: Mode,
    /// The resources that [`Mode::Adaptive`] spares.
    pub aim: Aim,
    /// Bytes of the frames that the plan is made for.
    pub packet_len: u32,
    /// Whether the host has all needed fields after every launch, so that a lost device costs only
    /// packets that were being copied.
    pub recoverable: bool,
    /// How whole frames are carried.
    pub frames_by: FramesBy,
    /// Lanes that share each link.
    pub lanes: usize,
}

/// How whole frames are carried to devices with memories of their own, and to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FramesBy {
    /// The device's copies, one for each stretch of rooms.
    #[default]
    Copies,
    /// Kernels, which read and write the host's memory over the bus: one call for all packets of a
    /// launch.
    Kernels,
}

impl FramesBy {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Copies, Self::Kernels];

    /// As the chain file names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copies => "copies",
            Self::Kernels => "kernels",
        }
    }
}

impl PlanOptions {
    /// Between the short frames of requests and the long ones of transfers.
    pub const PACKET_LEN: u32 = 512;
}

impl Default for PlanOptions {
    fn default() -> Self {
        let frames_by = FramesBy::default();
        Self {
            mode: Mode::Adaptive,
            aim: Aim::default(),
            packet_len: Self::PACKET_LEN,
            recoverable: false,
            frames_by,
            lanes: 1,
        }
    }
}

/// The input of a plan, and the devices that it numbers.
#[derive(Clone, Debug)]
pub struct Planned {
    /// See there. Functions on a device that share launches are one.
    pub problem: Problem,
    /// By function of the problem, the positions in the chain of those that it is.
    pub positions: Vec<Range<usize>>,
    /// By function of the problem, what it was taken to touch.
    pub declared: Vec<Access>,
    /// Names of the devices with memories of their own, as [`PlannedFunction::device`] counts them.
    pub devices: Vec<String>,
}

/// The mirrors for which a packet has mark bits. With more devices nothing may stay in a mirror
/// alone.
const MARKED_MIRRORS: usize = 8;

/// The problem of `deployment` by these options, for frames that hold UDP in IPv4. It doesn't
/// depend on their `mode`. Devices that share the host's memory are the host. Costs of links are
/// those of the deployment's profile ([`Deployment::set_profile`]).
pub fn planned(deployment: &Deployment, options: PlanOptions) -> Planned {
    let mut devices: Vec<String> = Vec::new();
    let positions = launches(deployment);
    let is_beside_others = has_several_devices(deployment);
    let mut declared = Vec::new();
    let mut functions = Vec::new();
    let mut frames = FramesOnWay::new(deployment, options);
    for own in &positions {
        let members = &deployment.chain().instances[own.clone()];
        let on = deployment.sites()[own.start].on_device.as_ref();
        let about = on.map(|on| on.device.description());
        let device = about.filter(|about| !about.shares_host_memory).map(|about| {
            devices.iter().position(|own| *own == about.id).unwrap_or_else(|| {
                devices.push(about.id.clone());
                devices.len() - 1
            })
        });
        let falls_back_beside_others = on.is_some() && is_beside_others;
        let (mut function, access) = function_of(members, device, falls_back_beside_others);
        function.whole = Some(frames.pass(members));
        let last = own.end.saturating_sub(1);
        if deployment.chain().routes().is_some_and(|all| all.exit(last as u8).is_some()) {
            // The lane looks the next function up.
            function.after.needs = function.after.needs | FieldSet::of(&[Field::DstAddr]);
        }
        functions.push(function);
        declared.push(access);
    }
    let room = deployment.chain().room_len(options.packet_len as usize) as u32;
    // Where dropped packets are shown the host has all of each.
    let is_recoverable =
        options.recoverable || deployment.shows_drops() || devices.len() > MARKED_MIRRORS;
    let gathered = Binding::stageable();
    let columns = Binding::staged(gathered, 0).unwrap_or(Binding::MIRROR);
    let problem = Problem {
        functions,
        hops: deployment.chain().routes().map(|routes| hops(routes, &positions)),
        links: devices.iter().map(|id| deployment.profile().costs(id, options.lanes)).collect(),
        widths: Widths::of_udp(options.packet_len, room).gathered_as(&columns, 4),
        end_reads: Problem::sink_reads(),
        gathered,
        is_recoverable,
        // Launches take all that they send from the host.
        fetches_first: false,
        aim: options.aim,
    };
    Planned { problem, positions, declared, devices }
}

/// The routes between functions of the plan, which are at `positions` of the chain.
fn hops(routes: &Routes, positions: &[Range<usize>]) -> PlanHops {
    let place = |to: RouteTo| match to {
        RouteTo::Function(next) => {
            positions.iter().position(|own| own.contains(&usize::from(next)))
        }
        RouteTo::Egress => Some(positions.len()),
    };
    let places = |next: Vec<RouteTo>| next.into_iter().filter_map(place).collect();
    let mut own = PlanHops { ingress: Vec::new(), functions: vec![Vec::new(); positions.len()] };
    for (from, next) in routes.hops() {
        let Some(from) = from.map(usize::from) else {
            own.ingress = places(next);
            continue;
        };
        // Functions in between share launches with those around them.
        if let Some(last) = positions.iter().position(|range| range.end == from + 1) {
            own.functions[last] = places(next);
        }
    }
    own
}

/// Bytes of findings per packet that come back with the table.
const FOUND_LEN: f64 = 4.0;

/// Whether functions of the chain are on different devices, including those that share the host's
/// memory.
fn has_several_devices(deployment: &Deployment) -> bool {
    let sites = deployment.sites();
    let ids = || sites.iter().filter(|site| site.on_device.is_some()).map(Site::device_id);
    ids().any(|id| ids().next() != Some(id))
}

/// Functions that share launches as one of the plan, and the fields that it touches. If the CPU
/// does a device's work it may take packets out of the mirrors of others
/// (`falls_back_beside_others`). So the host has all of their frames before, or the device's own
/// mirror has them. For a function that never does so ([`takes_out_of_mirrors`]) the host has the
/// fields that `run` touches.
fn function_of(
    members: &[Instance],
    device: Option<usize>,
    falls_back_beside_others: bool,
) -> (PlannedFunction, Access) {
    let of = |one: &Instance| access_of(&*one.function, device.is_some());
    let mut access = members.iter().map(of).reduce(together).unwrap_or(NOTHING);
    if falls_back_beside_others && device.is_none() {
        access.before.reads = access.before.reads | FieldSet::FRAME;
    }
    let names: Vec<&str> = members.iter().map(|one| one.name.as_str()).collect();
    let mut function = PlannedFunction::new(&names.join(", "), &access, device);
    if device.is_some() {
        let len = |columns: Columns| columns.stretched_len() as f64;
        let (read, back) = (Columns::read_by(access.run), Columns::written_by(access.run.writes));
        let there = PACKED_ROW_LEN as f64 + len(read.beside_packed());
        let keeps = |one: &Instance| one.function.emits().findings_per_packet > 0;
        let found = if members.iter().any(keeps) { FOUND_LEN } else { 0.0 };
        function.row = RowBytes { there, back: len(back) + found };
        let of_run = |all, one: &Instance| {
            let run = one.function.access().run;
            all | run.reads | run.writes
        };
        let takes_out = members.iter().any(takes_out);
        function.fallback = match falls_back_beside_others && takes_out {
            true => FieldSet::FRAME,
            false => members.iter().fold(FieldSet::EMPTY, of_run) & FieldSet::FRAME,
        };
    }
    (function, access)
}

/// The access of a function, on a device that of its kernels. A packet that `before` drops is in no
/// launch, so the host already has the fields that `after` reads.
///
/// On the host, a payload that `run` writes and kernels don't is written in few packets. Mirrors
/// keep the payloads of all others. No mirror has those few any more
/// ([`warpline_packet::PacketMut::payload_mut`]), so the host must have all of their frames before.
fn access_of(function: &dyn Function, is_on_device: bool) -> Access {
    let access = *function.access();
    if is_on_device {
        let seen = match access.before.writes.contains(Field::Verdict) {
            true => access.after.reads | access.after_flagged.reads,
            false => FieldSet::EMPTY,
        };
        let before = both(access.before, ReadWrite::new(seen & FieldSet::FRAME, FieldSet::EMPTY));
        return Access { before, run: function.kernel_access(), ..access };
    }
    let payload = FieldSet::of(&[Field::Payload]);
    let rare = (access.run.writes & !function.kernel_access().writes) & payload;
    let whole = if rare.is_empty() { FieldSet::EMPTY } else { FieldSet::FRAME };
    let run = ReadWrite::new(access.run.reads | whole, access.run.writes & !rare);
    Access { run, ..access }
}

/// See [`takes_out_of_mirrors`].
pub(crate) fn takes_out(one: &Instance) -> bool {
    takes_out_of_mirrors(one.function.access(), one.function.kernel_access())
}

/// The access of a function that does nothing.
const NOTHING: Access = Access::run_only(ReadWrite::NONE);

/// The access of two functions that share launches: nothing happens on the host between them.
fn together(one: Access, next: Access) -> Access {
    Access {
        before: both(one.before, next.before),
        run: both(one.run, next.run),
        after: both(one.after, next.after),
        after_flagged: both(one.after_flagged, next.after_flagged),
        flagged_share: 1.0 - (1.0 - one.flagged_share) * (1.0 - next.flagged_share),
    }
}

fn both(one: ReadWrite, other: ReadWrite) -> ReadWrite {
    ReadWrite::new(one.reads | other.reads, one.writes | other.writes)
}

/// The functions, those on a device together that share launches.
fn launches(deployment: &Deployment) -> Vec<Range<usize>> {
    let of_stage = |stage: &StagePlan| match deployment.is_on_device(stage) {
        true => vec![stage.positions()],
        false => stage.positions().map(|position| position..position + 1).collect(),
    };
    deployment.stages().iter().flat_map(of_stage).collect()
}

/// By stage, the bytes that cross.
pub(crate) fn crossings(deployment: &Deployment, options: PlanOptions) -> Vec<Crossings> {
    let Planned { problem, positions, .. } = planned(deployment, options);
    let plan = problem.plan(options.mode).unwrap_or_default();
    let leftovers = plan.leftovers(&problem);
    let of_stage = |stage: &StagePlan| {
        let number = positions.iter().position(|own| *own == stage.positions());
        let steps = plan.steps.iter().zip(&leftovers);
        let own =
            number.and_then(|number| steps.into_iter().find(|(one, _)| one.function == number));
        let each = deployment.members(stage).iter().map(|one| one.function.kernel_access());
        let kernels = each.fold(ReadWrite::NONE, both);
        let Some((step, left)) = own else { return Crossings::whole(kernels) };
        Crossings::of((step, left), &problem, kernels)
    };
    deployment.stages().iter().map(of_stage).collect()
}
