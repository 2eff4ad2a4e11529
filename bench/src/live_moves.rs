//! Moves of a function between the CPU and a device while packets flow, and how long a lane stalls.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use warpline_engine::LaunchOptions;

use crate::program::Program;

/// Seconds of a run.
const SECONDS: u32 = 8;
/// Milliseconds between two moves.
const PAUSE_MS: u64 = 40;
/// Gb/s of frames of 512 bytes.
const LOADS_GBPS: [f64; 2] = [0.2, 2.0];
const DEVICES: [&str; 2] = ["host", "opencl:0"];
/// A lane may stall for the deadline of a launch and this long besides.
const BESIDES: Duration = Duration::from_millis(5);

/// Prints the longest stall of a lane for each device and load.
///
/// # Panics
/// The program fails.
pub fn print(program: &Program) {
    program.write("routes", "0.0.0.0/0 192.0.2.1\n");
    program.write(
        "move.toml",
        "[chain]\nfunctions = [\"router\"]\nlanes = 1\n\
         [router]\ndevice = \"cpu\"\nroutes = \"routes\"\n",
    );
    let most = (LaunchOptions::default().delay + BESIDES).as_micros();
    println!("moves: the longest stall of a lane, of {most} us, and packets lost");
    for device in DEVICES {
        for gbps in LOADS_GBPS {
            let (moves, stall_us, lost) = stall(program, device, gbps);
            println!(
                "  {device:<9} {gbps:>4.1} Gb/s: {stall_us:>7.0} us, {moves} moves, {lost} lost"
            );
        }
    }
}

/// Whether a client reports so that the run has ended.
fn is_of_an_end(why: &str) -> bool {
    ["has ended", "does not run", "connection", "socket", "No such file"]
        .iter()
        .any(|part| why.contains(part))
}

/// Moves, microseconds of the longest stall, and packets lost.
fn stall(program: &Program, device: &str, gbps: f64) -> (u64, f64, u64) {
    let input = format!("generate:seconds={SECONDS},size=512,flows=1000,rate_gbps={gbps}");
    let run = ["run", "move.toml", "--input", &input, "--stats", "s.json", "--socket", "s"];
    let mut run = program.command(&run).spawn().expect("the program");
    let place = |device: &str| {
        let command = ["ctl", "place", "router", device, "--socket", "s"];
        let mut command = program.command(&command);
        let ended = command.stderr(Stdio::piped()).output().expect("the program");
        match ended.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
        }
    };
    // The socket is there once the chain is built.
    while place("cpu").is_err() && run.try_wait().is_ok_and(|ended| ended.is_none()) {
        thread::sleep(Duration::from_millis(PAUSE_MS));
    }
    let back_and_forth = [device, "cpu"].into_iter().cycle();
    for device in back_and_forth {
        match place(device) {
            Ok(()) => thread::sleep(Duration::from_millis(PAUSE_MS)),
            // The input is at its end, or the move failed.
            Err(why) => {
                let ended = run.wait().expect("the program");
                assert!(ended.success() && is_of_an_end(&why), "{device}: {why}");
                break;
            }
        }
    }
    let chain = &program.json("s.json")["chains"][0];
    let number = |of: &serde_json::Value| of.as_f64().expect("a number");
    let moves = &chain["moves"];
    let lost = chain["packets"]["overload"].as_u64().unwrap_or_default();
    (moves["count"].as_u64().unwrap_or_default(), number(&moves["stall_us_max"]), lost)
}
