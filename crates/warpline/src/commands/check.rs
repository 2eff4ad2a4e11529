//! `warpline check`: builds everything a chain file names, and says what came of it.

use std::path::Path;

use warpline_engine::Chain;
use warpline_packet::FieldSet;

use super::say;
use crate::Failure;

pub(crate) fn check(path: &Path, set: &[String]) -> Result<(), Failure> {
    for loaded in &super::load_file(path, set, true)? {
        say(&describe(&loaded.chain))?;
        if !loaded.left_out.is_empty() {
            say(&format!("  left out, {} in all:\n{}", loaded.left_out.count(), loaded.left_out))?;
        }
    }
    Ok(())
}

/// A chain as it was built: stages, steering, what each function touches.
fn describe(chain: &Chain) -> String {
    let mut text = format!("chain {:?} is fine\n", chain.name);
    match &chain.disagreement {
        None => text += &format!("  steering  {}\n", chain.steering.name()),
        Some([first, second]) => {
            text += &format!(
                "  steering  none: [{first}] and [{second}] divide their state by different keys, so the chain runs on one lane\n"
            );
        }
    }
    if chain.instances.is_empty() {
        text += "  the chain is empty: packets pass as they are\n";
    }
    for (number, stage) in chain.stages.iter().enumerate().filter(|(_, stage)| stage.count > 0) {
        text += &format!("  stage {}", number + 1);
        if stage.launch_batches > 1 {
            text += &format!(", {} batches together", stage.launch_batches);
        }
        text += "\n";
        for instance in &chain.instances[stage.first..stage.first + stage.count] {
            let access = instance.function.access();
            let phases = [&access.before, &access.run, &access.after, &access.after_flagged];
            let reads = phases.iter().fold(FieldSet::EMPTY, |set, phase| set | phase.reads);
            let writes = phases.iter().fold(FieldSet::EMPTY, |set, phase| set | phase.writes);
            text += &format!("    {:<14} {} on cpu\n", instance.name, instance.definition.name);
            text += &format!("      reads   {reads}\n      writes  {writes}\n");
        }
    }
    text.trim_end().into()
}
