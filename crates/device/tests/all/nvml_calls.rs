//! Meters on a machine without a GPU, over a stub of NVML (`stub_nvml.c`) built by the system's C
//! compiler. Shows that the calls are right, not that a GPU's readings are.

use std::path::Path;
use std::process::{Command, Output};

use warpline_device::fake::{Fake, Fate};
use warpline_device::host::Compiler;
use warpline_device::power::{Reading, of_device};
use warpline_device::{Description, Device, Missing};

/// Set in the process that has the stub; the value names its case.
const ROLE: &str = "WARPLINE_STUB_NVML";

type Case = (&'static str, fn() -> Reading);

/// A variable set for the stub, and the expected reading.
const CASES: &[Case] = &[
    ("STUB_WHOLE", || Reading {
        power_w: Ok(123.4),
        energy_j: Ok(5_000_000.5),
        memory_used: Ok(3 << 30),
        busy: Ok(0.87),
    }),
    ("STUB_POOR", || Reading {
        power_w: Ok(123.4),
        energy_j: missing("NVML does not say the energy: it is not supported there"),
        memory_used: Ok(3 << 30),
        busy: missing("NVML does not say the utilisation: the GPU is lost"),
    }),
    ("STUB_DIVIDED", || Reading { memory_used: Ok(1 << 30), ..nothing(WHOLE) }),
    ("STUB_NO_DRIVER", || nothing("NVML can't start: no driver is loaded")),
];

const WHOLE: &str = "NVML says it of the whole GPU, not of an instance (MIG)";

#[test]
fn meters_say_what_a_stub_of_nvml_says() {
    if let Ok(role) = std::env::var(ROLE) {
        return with_stub(&role);
    }
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    build(&compiler, folder.path());
    for (role, _) in CASES {
        let ended = again(role, folder.path());
        let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|s| String::from_utf8_lossy(s));
        assert!(ended.status.success() && stdout.contains("1 passed"), "{role}: {stderr}{stdout}");
    }
}

fn with_stub(role: &str) {
    let expected = CASES.iter().find(|(name, _)| *name == role).unwrap().1();
    let usual = at("0000:19:00.0", Some("00112233-4455-6677-8899-aabbccddeeff"));
    assert_eq!(of_device(&usual), expected);
    if role == "STUB_WHOLE" {
        let unknown = nothing("NVML does not know the device: not found");
        assert_eq!(of_device(&at("0000:1a:00.0", None)), unknown);
    }
    if role == "STUB_DIVIDED" {
        let without = |why| Reading { memory_used: missing(why), ..nothing(WHOLE) };
        let other = at("0000:19:00.0", Some("00112233-4455-6677-8899-aabbccddee00"));
        assert_eq!(of_device(&other), without("NVML does not know the instance: not found"));
        let unsaid = without("the driver does not name the instance (MIG)");
        assert_eq!(of_device(&at("0000:19:00.0", None)), unsaid);
    }
}

fn at(bus: &str, uuid: Option<&str>) -> Description {
    let device = Fake::new(|_| Fate::done_after(0));
    let (bus, uuid) = (Some(bus.into()), uuid.map(String::from));
    Description { bus, uuid, ..device.description().clone() }
}

fn missing<T>(why: &str) -> Result<T, Missing> {
    Err(Missing(why.into()))
}

fn nothing(why: &str) -> Reading {
    Reading {
        power_w: missing(why),
        energy_j: missing(why),
        memory_used: missing(why),
        busy: missing(why),
    }
}

fn build(compiler: &Compiler, folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/stub_nvml.c");
    let mut command = Command::new(compiler.path());
    command.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libnvidia-ml.so.1"));
    assert!(command.arg(source).status().unwrap().success());
}

fn again(role: &str, folder: &Path) -> Output {
    let before = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "nvml_calls::meters_say_what_a_stub_of_nvml_says"])
        .env(ROLE, role)
        .env(role, "1")
        .env("LD_LIBRARY_PATH", format!("{}:{before}", folder.display()));
    command.output().unwrap()
}
