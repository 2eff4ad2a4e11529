//! Rooms of packets to the device and back, by copies and by kernels that reach the host's memory
//! (`frames_by` of the chain file): one way and both at once, by the length of rooms and of
//! launches.
//!
//! Rooms of a launch lie one after the other (`dense`: one copy moves all), or with every fourth
//! left out, as where packets were dropped (`holes`: a copy for each three). A copy, or a call, is
//! all that a work does; the tables that kernels are given lie on the device.

use std::ops::Range;

use warpline_device::{Argument, Buffer, Failure, Kernel, Part, Piece, Step, Work};
use warpline_launch::{Given, kernel_source, room_copies};
use warpline_nf::Kernels;
use warpline_packet::{Binding, LaunchRows, kernel_layout};

use super::Bench;
use super::copies::{UNDER_WAY, Way, rates};
use crate::sys;

/// Bytes of a room.
const ROOMS: [usize; 3] = [192, 640, 1664];
/// Bytes of the rooms of a launch.
const LAUNCHES: [usize; 3] = [256 << 10, 1 << 20, 4 << 20];
/// Of so many rooms one is left out, where there are holes.
const HOLES: usize = 4;

/// Prints the table.
///
/// # Errors
/// Failures of the device.
pub(super) fn measure(bench: &Bench) -> Result<(), Failure> {
    bench.head(
        "rooms",
        "room_bytes,launch_kib,layout,way,in_gbytes_s,out_gbytes_s,both_in_gbytes_s,\
         both_out_gbytes_s",
    );
    let carrier = Carrier::load(bench)?;
    if !memory(bench, 64)?.region().is_mapped() {
        println!("# kernels of the device do not reach the host's memory");
    }
    for room in ROOMS {
        for launch in LAUNCHES {
            for has_holes in [false, true] {
                let rooms = Rooms { room, count: launch / room, has_holes };
                measure_launch(bench, &carrier, rooms)?;
            }
        }
    }
    Ok(())
}

fn measure_launch(bench: &Bench, carrier: &Carrier, rooms: Rooms) -> Result<(), Failure> {
    for by_kernels in [false, true] {
        let way = |is_in| {
            let works = (0..UNDER_WAY).map(|_| carrier.work(bench, rooms, is_in, by_kernels));
            let works = works.collect::<Result<Option<Vec<_>>, _>>()?;
            works.map(|works| Way::of(bench, rooms.moved().count() * rooms.room, works)).transpose()
        };
        let (Some(mut inward), Some(mut outward)) = (way(true)?, way(false)?) else { continue };
        let [alone_in] = rates(bench, [&mut inward])?;
        let [alone_out] = rates(bench, [&mut outward])?;
        let [both_in, both_out] = rates(bench, [&mut inward, &mut outward])?;
        println!(
            "{},{},{},{},{alone_in:.3},{alone_out:.3},{both_in:.3},{both_out:.3}",
            rooms.room,
            (rooms.room * rooms.count).div_ceil(1024),
            if rooms.has_holes { "holes" } else { "dense" },
            if by_kernels { "kernels" } else { "copies" },
        );
    }
    Ok(())
}

/// Rooms side by side, of which all or most are moved.
#[derive(Clone, Copy)]
struct Rooms {
    /// Bytes of each.
    room: usize,
    count: usize,
    has_holes: bool,
}

impl Rooms {
    fn len(self) -> usize {
        self.room * self.count
    }

    /// The numbers of those that are moved.
    fn moved(self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(move |number| !self.has_holes || number % HOLES != HOLES - 1)
    }

    /// The stretches in which these lie.
    fn stretches(self) -> Vec<Range<usize>> {
        let (each, moved) =
            if self.has_holes { (HOLES, HOLES - 1) } else { (self.count, self.count) };
        let end = |start: usize| (start + moved).min(self.count);
        let starts = (0..self.count).step_by(each.max(1));
        starts.map(|start| start * self.room..end(start) * self.room).collect()
    }

    /// The launch's table, as far as kernels that copy rooms look at it.
    fn table(self) -> Vec<u8> {
        let rows = LaunchRows::rows_for(self.moved().count());
        let layout = kernel_layout();
        let of = |name: &str| {
            let column = layout.iter().find(|(own, _)| own == name);
            column.expect("a column of kernels").1 as usize
        };
        let mut table = vec![0; of("COLUMN_SCRATCH") * rows];
        let [at, len] = ["COLUMN_ROOM_AT", "COLUMN_ROOM_LEN"].map(|name| of(name) * rows);
        for (row, number) in self.moved().enumerate() {
            for (column, value) in [(at, number * self.room), (len, self.room)] {
                let cell = column + 4 * row;
                table[cell..cell + 4].copy_from_slice(&(value as u32).to_le_bytes());
            }
        }
        table
    }
}

/// The kernels that carry rooms.
struct Carrier {
    kernels: Kernels,
    /// To the device, and back.
    loaded: [Kernel; 2],
}

impl Carrier {
    fn load(bench: &Bench) -> Result<Self, Failure> {
        let kernels = room_copies();
        let module = bench.device.compile(&kernel_source(&kernels, &Binding::MIRROR))?;
        let kernel = |at: usize| module.kernel(kernels.steps()[at].name);
        let loaded = [kernel(0)?, kernel(1)?];
        Ok(Self { kernels, loaded })
    }

    /// A work that moves `rooms` one way, on memory of its own; `None` where kernels are to and
    /// can't.
    fn work(
        &self,
        bench: &Bench,
        rooms: Rooms,
        is_in: bool,
        by_kernels: bool,
    ) -> Result<Option<Work>, Failure> {
        let mut host = memory(bench, rooms.len())?;
        let is_mapped = host.region().is_mapped();
        if by_kernels && !is_mapped {
            return Ok(None);
        }
        host.fill(0x5a);
        let mirror = bench.device.allocate(rooms.len())?;
        let steps = match by_kernels {
            true => vec![self.call(bench, rooms, is_in, (&host, &mirror))?],
            false => copies(rooms, is_in, &mirror),
        };
        Ok(Some(Work::new(vec![host], steps)))
    }

    fn call(
        &self,
        bench: &Bench,
        rooms: Rooms,
        is_in: bool,
        (host, mirror): (&Piece, &Buffer),
    ) -> Result<Step, Failure> {
        let count = rooms.moved().count() as u32;
        let given = Given {
            arena: Argument::Writes(mirror.whole()),
            host: Some(Argument::Mapped(host.region().clone())),
            packets: Argument::Writes(there(bench, &rooms.table())?.whole()),
            tables: &[],
            findings: None,
            findings_room: 0,
            count,
            place: 0,
            without: 0,
        };
        let at = usize::from(!is_in);
        let step = &self.kernels.steps()[at];
        let groups = (count * step.items_per_packet).div_ceil(step.group);
        let arguments = given.arguments(&self.kernels.parameters());
        Ok(Step::Call(sys::call(&self.loaded[at], groups, arguments)))
    }
}

fn copies(rooms: Rooms, is_in: bool, mirror: &Buffer) -> Vec<Step> {
    let copy = |range: Range<usize>| {
        let (part, there) = (Part { piece: 0, range: range.clone() }, mirror.at(range));
        match is_in {
            true => Step::CopyIn { from: part, to: there },
            false => Step::CopyOut { from: there, to: part },
        }
    };
    rooms.stretches().into_iter().map(copy).collect()
}

/// Memory of the host, which kernels reach if they reach any.
fn memory(bench: &Bench, len: usize) -> Result<Piece, Failure> {
    let Some(memory) = bench.device.shared_memory(len) else {
        return bench.device.host_memory(len);
    };
    let region = bench.device.register(memory)?;
    let none = || Failure::Refused("the memory is shorter than it was asked for".into());
    sys::whole(&region).ok_or_else(none)
}

/// A copy of `bytes` on the device.
fn there(bench: &Bench, bytes: &[u8]) -> Result<Buffer, Failure> {
    let buffer = bench.device.allocate(bytes.len())?;
    let mut piece = bench.device.host_memory(bytes.len())?;
    piece.copy_from_slice(bytes);
    let from = Part { piece: 0, range: 0..bytes.len() };
    let work = Work::new(vec![piece], vec![Step::CopyIn { from, to: buffer.whole() }]);
    let mut stream = bench.device.stream()?;
    stream.submit(work).map_err(|refused| refused.why)?;
    match stream.wait() {
        Some(done) => done.outcome.map(|()| buffer),
        None => Ok(buffer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte of the host's.
    fn byte(at: usize) -> u8 {
        (at / 7) as u8
    }
    /// Every byte of a mirror that nothing was moved to.
    const BLANK: u8 = 0xee;

    /// Has kernels move rooms to a blank mirror, and back from one. Gives the mirror between, and
    /// what the host has then.
    fn moved(bench: &Bench, carrier: &Carrier, rooms: Rooms) -> [Vec<u8>; 2] {
        let len = rooms.len();
        let mut host = memory(bench, len).expect("memory");
        (0..len).for_each(|at| host[at] = byte(at));
        let mirror = bench.device.allocate(len).expect("memory");
        let call = |is_in| carrier.call(bench, rooms, is_in, (&host, &mirror)).expect("a call");
        let part = |piece| Part { piece, range: 0..len };
        let blank = || Step::CopyIn { from: part(2), to: mirror.whole() };
        let seen = Step::CopyOut { from: mirror.whole(), to: part(1) };
        let steps = vec![blank(), call(true), seen, blank(), call(false)];
        let own = || bench.device.host_memory(len).expect("memory");
        let mut pieces = vec![host, own(), own()];
        pieces[2].fill(BLANK);
        let mut stream = bench.device.stream().expect("a stream");
        stream.submit(Work::new(pieces, steps)).expect("taken");
        let done = stream.wait().expect("work");
        done.outcome.expect("done");
        [1, 0].map(|piece| done.work.pieces[piece][..len].to_vec())
    }

    #[test]
    fn kernels_move_what_copies_move() {
        let Ok(bench) = Bench::open(Some("host"), 0.01, 1) else {
            println!("skipped: no C compiler");
            return;
        };
        let carrier = Carrier::load(&bench).expect("kernels");
        for (room, has_holes) in [(192, false), (640, true), (1664, true)] {
            let rooms = Rooms { room, count: 50, has_holes };
            let [there, back] = moved(&bench, &carrier, rooms);
            let stretches = rooms.stretches();
            for at in 0..rooms.len() {
                let is_moved = stretches.iter().any(|stretch| stretch.contains(&at));
                let expected = if is_moved { [byte(at), BLANK] } else { [BLANK, byte(at)] };
                assert_eq!([there[at], back[at]], expected, "{room}: byte {at}");
            }
            let in_copies: usize = stretches.iter().map(Range::len).sum();
            assert_eq!(in_copies, rooms.moved().count() * room);
            assert_eq!(in_copies < rooms.len(), has_holes);
        }
    }
}
