//! The simulator beside this machine: 20 chains at 5 loads, each run and simulated.
//!
//! `twin`: the program is `warpline` beside this bench (`cargo build --release -p warpline`). The
//! goal is 90 of 100 pairs with throughput and launches within 10 %, losses within 2 % of the
//! packets, and the median delay within 25 % or one deadline.
//!
//! Each miss has its cause: cores that other processes or the run's own threads take, and times
//! that are not those of the profile. Of three runs that others disturb, the quietest counts. Each
//! pair is run twice. The last line shows the machine's own spread: how many second runs agree with
//! the first ones by the same rule. All pairs take about 10 minutes on a quiet machine, the profile
//! included.
//!
//! `twin pauses` compares the pauses of stages at loads around the capacity instead. `chains=1,9`
//! and `loads=0.1,0.6` restrict the pairs; chains are numbered from 1.

use warpline_bench::program::Program;
use warpline_bench::twin::{CHAINS, Figures, LOADS, Twin};
use warpline_bench::twin_pauses::report;

fn main() {
    let program = Program::beside();
    let twin = Twin::new(&program);
    if std::env::args().any(|argument| argument == "pauses") {
        return report(&twin);
    }
    println!("real and simulated: kpps, launches a second, losses in %, p50 in us; misses");
    let (chains, loads) = (asked::<usize>("chains="), asked::<f64>("loads="));
    let (mut good, mut repeat, mut all, mut misses) = (0, 0, 0, Vec::new());
    for (number, chain) in CHAINS.into_iter().enumerate() {
        if chains.as_ref().is_some_and(|chains| !chains.contains(&(number + 1))) {
            continue;
        }
        let names: Vec<String> = chain.iter().map(|(name, on)| format!("{name} on {on}")).collect();
        let capacity = twin.capacity(chain);
        println!("{}: {:.0} kpps at most", names.join(", "), capacity * 1e3);
        for load in LOADS {
            if loads.as_ref().is_some_and(|loads| !loads.contains(&load)) {
                continue;
            }
            let pair = twin.pair(chain, load * capacity);
            let own = pair.misses();
            let rows = (row(&pair.real), row(&pair.simulated));
            println!("  {load:.1} {} | {} {}", rows.0, rows.1, own.join(", "));
            if !own.is_empty() {
                let causes = match pair.causes.is_empty() {
                    true => "none found: threads wake late, or queues differ".into(),
                    false => pair.causes.join("; "),
                };
                println!("      cause: {causes}");
            }
            good += u32::from(own.is_empty());
            repeat += u32::from(pair.repeats());
            all += 1;
            misses.extend(own);
        }
    }
    println!("{good} of {all} pairs agree");
    for name in ["throughput", "launches", "drops", "p50"] {
        let count = misses.iter().filter(|own| **own == name).count();
        println!("  {name} missed {count} times");
    }
    println!("{repeat} of {all} second runs agree with the first ones");
}

/// The values of an argument.
fn asked<T: std::str::FromStr>(key: &str) -> Option<Vec<T>> {
    let list = std::env::args().find_map(|one| one.strip_prefix(key).map(str::to_owned))?;
    let value = |one: &str| one.parse().unwrap_or_else(|_| panic!("{key}{list}: not a number"));
    Some(list.split(',').map(value).collect())
}

fn row(own: &Figures) -> String {
    let Figures { mpps, launches, drops, p50_us } = own;
    format!("{:>8.0} {launches:>7.0} {:>6.2} {p50_us:>8.1}", mpps * 1e3, drops * 100.0)
}
