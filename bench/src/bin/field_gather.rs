//! How long the host takes to gather fields of frames into columns and to put them back, by field
//! and by packets of a batch: the source of `gather`, `put` and `host_copy_ns_per_byte` in
//! `LinkCosts::PCIE_4`.
//!
//! `field_gather [--device ID] [--rounds N]`. Columns lie in the memory that the device's launches
//! have their tables in. Frames hold TCP in IPv4 and are in the caches, as ingress leaves them.
//! Each figure is the least of the rounds, as other load makes all of them longer.

use std::hint::black_box;
use std::process::ExitCode;

use warpline_bench::devices::Bench;
use warpline_bench::seconds;
use warpline_device::Piece;
use warpline_packet::{
    Arena, ArenaLayout, Arrival, Batch, Binding, Field, FieldPlace, FieldSet, Headers, HeapMemory,
    Instant, LaunchRows, LinkType,
};

/// Packets of a batch.
const BATCHES: [usize; 4] = [32, 64, 256, 1024];

/// Packets that a round works on.
const PACKETS: usize = 50_000;

const NS: f64 = 1e9;

fn main() -> ExitCode {
    match options().and_then(|(device, rounds)| print(&device, rounds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("field_gather: {why}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<(String, usize), String> {
    let (mut device, mut rounds) = ("host".to_owned(), 100);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        match argument.as_str() {
            "--device" => device = value,
            "--rounds" => rounds = value.parse().map_err(|_| format!("{value}: not a number"))?,
            _ => return Err(format!("{argument}: not one of --device, --rounds")),
        }
    }
    Ok((device, rounds))
}

/// Fields of the frame, each with the bytes of its column.
fn fields() -> Vec<(Field, usize)> {
    let is_there = |field: &Field| match field.place() {
        FieldPlace::Link(_) => *field != Field::VlanTci,
        FieldPlace::Ip { v4, .. } => v4.is_some(),
        FieldPlace::Transport { tcp, .. } => tcp.is_some(),
        FieldPlace::Stretch | FieldPlace::Column(_) => false,
    };
    let width = |field| -> usize {
        let binding = Binding::staged(FieldSet::of(&[field]), 0).unwrap_or(Binding::MIRROR);
        binding.columns().iter().filter(|one| one.is_of(4)).map(|one| one.width).sum()
    };
    let all = Binding::stageable();
    all.iter().filter(is_there).map(|field| (field, width(field))).collect()
}

/// Batches of one size, and the table of a launch that has one.
struct Loaded {
    batch: Batch,
    rows: LaunchRows,
    table: Piece,
    // Its memory is the batch's.
    _arena: Arena,
}

impl Loaded {
    fn new(bench: &Bench, packets: usize) -> Result<Self, String> {
        let layout = ArenaLayout { slabs: 2, tables: 1, slots: packets, ..ArenaLayout::NONE };
        let memory = HeapMemory::new(layout.memory_len()).ok_or("no memory")?;
        let mut arena = Arena::new(Box::new(memory), &layout).map_err(|why| format!("{why:?}"))?;
        let mut batch = Batch::new(arena.tables.remove(0));
        let frame = frame();
        let headers = Headers::parse(&frame, LinkType::ETHERNET, frame.len());
        for ingress in 0..packets as u64 {
            let arrival = Arrival {
                timestamp: Instant::from_nanos(0),
                captured: Instant::from_nanos(0),
                ingress,
                wire_len: frame.len() as u32,
                link: LinkType::ETHERNET,
                interface: 0,
                shard: 0,
                flow_hash: 0,
            };
            let pushed = batch.push(&frame, &headers, &arrival, &mut arena.ingress);
            pushed.map_err(|_| "a batch has no room")?;
        }
        let mut rows = LaunchRows::with_capacity(1, packets);
        rows.add(&batch);
        let widest = Binding::staged(Binding::stageable(), 0).ok_or("no columns")?;
        let len = (ArenaLayout::NONE.row_len() + widest.row_len()) * rows.rows();
        let table = bench.device.host_memory(len).map_err(|why| why.to_string())?;
        Ok(Self { batch, rows, table, _arena: arena })
    }

    /// ns a packet to gather `fields` and to put them back, the least of `rounds`.
    fn measure(&mut self, fields: FieldSet, rounds: usize) -> Option<[f64; 2]> {
        let binding = Binding::staged(fields, 0)?;
        let times = PACKETS / self.batch.len();
        let Self { batch, rows, table, .. } = self;
        let mut least = [f64::INFINITY; 2];
        for _ in 0..rounds {
            let there = seconds(|| {
                for _ in 0..times {
                    batch.gather(&binding, fields, rows.of(0), black_box(&mut table[..]));
                }
            });
            let back = seconds(|| {
                for _ in 0..times {
                    batch.scatter(&binding, fields, rows.of(0), black_box(&table[..]));
                }
            });
            let each = NS / (times * batch.len()) as f64;
            least = [least[0].min(there * each), least[1].min(back * each)];
        }
        Some(least)
    }
}

/// TCP in IPv4, without payload.
fn frame() -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([
        0x10, 0x00, 0x00, 0x35, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
    ]);
    frame
}

/// The times of a packet and of each of its fields, from those of single fields on average and of
/// all together.
fn model(singles: &[f64], all: f64) -> [f64; 2] {
    let count = singles.len() as f64;
    let one = singles.iter().sum::<f64>() / count;
    let field = (all - one) / (count - 1.0);
    [one - field, field]
}

/// The slope of the line through points of bytes and ns by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let (x, y, xx, xy) = (sum(|p| p.0), sum(|p| p.1), sum(|p| p.0 * p.0), sum(|p| p.0 * p.1));
    (count * xy - x * y) / (count * xx - x * x)
}

fn print(device: &str, rounds: usize) -> Result<(), String> {
    let bench = Bench::open(Some(device), 0.02, 1)?;
    let about = bench.device.description();
    println!("field_gather --device {device} --rounds {rounds}; {}; {}", about.name, about.driver);
    let fields = fields();
    let mut loaded: Vec<Loaded> =
        BATCHES.iter().map(|&packets| Loaded::new(&bench, packets)).collect::<Result<_, _>>()?;
    println!("\n## ns a packet: gathered, put back; by packets of a batch\n");
    println!("| fields | bytes | {} |", BATCHES.map(|packets| packets.to_string()).join(" | "));
    println!("|---|---|{}", "---|".repeat(BATCHES.len()));
    // By batch and way: each field's bytes and time, and the time of all together.
    let mut found = [const { [const { (Vec::new(), 0.0) }; 2] }; BATCHES.len()];
    let mut row = |name: &str, len: usize, set: FieldSet| {
        let mut shown = Vec::new();
        for (own, found) in loaded.iter_mut().zip(&mut found) {
            let both = own.measure(set, rounds).unwrap_or([f64::NAN; 2]);
            shown.push(format!("{:.2}, {:.2}", both[0], both[1]));
            for (ns, (singles, all)) in both.into_iter().zip(found) {
                if set.iter().count() == 1 {
                    singles.push((len as f64, ns));
                }
                *all = ns;
            }
        }
        println!("| {name} | {len} | {} |", shown.join(" | "));
    };
    for &(field, len) in &fields {
        row(field.name(), len, FieldSet::of(&[field]));
    }
    for count in [4, 8, fields.len()] {
        let some = &fields[..count];
        let set = some.iter().map(|(field, _)| *field).collect();
        row(&format!("the first {count}"), some.iter().map(|(_, len)| len).sum(), set);
    }
    println!(
        "\n## As plans take it, ns: a packet, and each field; a byte is the slope over single \
         fields\n"
    );
    println!("| batch | gathered: packet | field | byte | put back: packet | field | byte |");
    println!("|---|---|---|---|---|---|---|");
    for (packets, ways) in BATCHES.iter().zip(&found) {
        let figures = ways.iter().flat_map(|(points, all)| {
            let singles: Vec<f64> = points.iter().map(|(_, ns)| *ns).collect();
            let [packet, field] = model(&singles, *all);
            [packet, field, slope(points)].map(|ns| format!("{ns:.3}"))
        });
        println!("| {packets} | {} |", figures.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}
