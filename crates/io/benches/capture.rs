//! How fast a capture is read, against plain reads of the same file into a buffer as large.
//!
//! `cargo bench -p warpline-io --bench capture -- [MEGABYTES] [FRAME_BYTES]` writes a capture of
//! that size (1000 MB of 1500-byte frames by default) to the temporary directory, reads it in
//! alternating rounds, and removes it. The file should fit in the page cache.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use warpline_io::{CaptureReader, Frame, Next, PcapWriter, Sink, Source};
use warpline_packet::{Instant, LinkType};

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let megabytes = numbers.next().unwrap_or(1000);
    let frame_len = numbers.next().unwrap_or(1500) as usize;
    let name = format!("warpline-bench-{}.pcap", std::process::id());
    let file = Removed(std::env::temp_dir().join(name));
    let packets = megabytes * 1_000_000 / (frame_len as u64 + 16);
    generate(&file.0, packets, frame_len)?;

    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let start = Clock::now();
        let bytes = read_plainly(&file.0)?;
        let plain = start.elapsed().as_secs_f64();
        let start = Clock::now();
        let (count, frame_bytes) = read_frames(&file.0)?;
        let framed = start.elapsed().as_secs_f64();
        assert_eq!((count, frame_bytes), (packets, packets * frame_len as u64));
        assert_eq!(bytes, packets * (frame_len as u64 + 16) + 24);
        // The first round only brings the file into the page cache.
        if round > 0 {
            seconds[0].push(plain);
            seconds[1].push(framed);
        }
    }
    let [plain, framed] = seconds.map(median);
    let gigabytes = (packets * (frame_len as u64 + 16)) as f64 / 1e9;
    println!("{packets} packets of {frame_len} bytes, median of {ROUNDS} rounds");
    println!("plain reads:    {:6.2} GB/s", gigabytes / plain);
    let rate = packets as f64 / framed / 1e6;
    println!("capture reader: {:6.2} GB/s, {rate:.2} M packets/s", gigabytes / framed);
    println!("ratio:          {:6.2}", plain / framed);
    Ok(())
}

/// A file that goes when it is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn generate(path: &Path, packets: u64, frame_len: usize) -> Result<(), Box<dyn Error>> {
    let start = Clock::now();
    let mut writer = PcapWriter::create(path)?;
    let bytes = vec![0x5a; frame_len];
    for number in 0..packets {
        writer.send(&Frame {
            bytes: &bytes,
            timestamp: Instant::from_nanos(number * 1000),
            wire_len: frame_len as u32,
            link: LinkType::ETHERNET,
            interface: 0,
        })?;
    }
    writer.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("written once:   {:6.2} GB/s", packets as f64 * frame_len as f64 / seconds / 1e9);
    Ok(())
}

fn read_plainly(path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            len => bytes += len as u64,
        }
    }
}

/// The number of frames and of their bytes.
fn read_frames(path: &Path) -> Result<(u64, u64), Box<dyn Error>> {
    let mut source: Box<dyn Source> = Box::new(CaptureReader::open(path)?);
    let (mut count, mut bytes) = (0, 0);
    loop {
        match source.next()? {
            Next::Frame(frame) => {
                count += 1;
                bytes += frame.bytes.len() as u64;
            }
            Next::Idle(_) => {}
            Next::End => return Ok((count, bytes)),
        }
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

const ROUNDS: usize = 7;
