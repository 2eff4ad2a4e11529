//! Writes the seeds of every target: `cargo run --example seeds -- FOLDER` makes files
//! `FOLDER/TARGET/seed-...`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "corpus".into());
    for (target, name, bytes) in warpline_fuzz::seeds::all() {
        let to = Path::new(&folder).join(target);
        std::fs::create_dir_all(&to)?;
        std::fs::write(to.join(format!("seed-{name}")), bytes)?;
    }
    Ok(())
}
