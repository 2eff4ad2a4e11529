//! The highest rate at which the generator makes frames, on one thread.

use warpline_bench::seconds;
use warpline_io::generator::{Generator, GeneratorConfig};
use warpline_io::{Next, Source};

const PACKETS: f64 = 5e6;

fn main() {
    for settings in [
        "size=60",
        "size=60,flows=1000000",
        "size=60,zipf=1.1",
        "size=74,ip=mix,protocol=mix",
        "size=60,protocol=tcp,flows=1000000",
        "size=60,arrivals=poisson",
        "size=imix",
        "size=1514",
        "size=1514,payload=planted:x@1",
    ] {
        let config = GeneratorConfig::parse(&format!("packets={PACKETS},{settings}"));
        let mut source = Generator::new(config.unwrap_or_else(|p| panic!("{}", p[0])));
        let mut bytes = 0;
        let seconds = seconds(|| {
            while let Ok(Next::Frame(frame)) = source.next() {
                bytes += std::hint::black_box(frame.bytes).len();
            }
        });
        let (mpps, gbps) = (PACKETS / 1e6 / seconds, bytes as f64 * 8e-9 / seconds);
        println!("{settings:<40} {mpps:6.1} Mpps {gbps:7.1} Gb/s");
    }
}
