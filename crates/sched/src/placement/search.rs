//! Finds a placement: all of them for few functions, else step by step from several starts.

use std::cmp::Ordering;

use super::evaluate::{Evaluator, Score};
use super::items::{Choice, Item};
use super::{PlacementError, PlacementFigures, PlacementProblem, bound};
use crate::Aim;

/// Combinations of choices up to which all are tried.
const EXACT_MAX: usize = 20_000;
/// Combinations of devices up to which all are tried: each needs its plan.
const EXACT_PLANS_MAX: usize = 256;
/// Plans of the steps of a bounded search; the next best takes one more.
const PLANS_MAX: usize = 10;
/// Starts of a bounded search.
const STARTS_MAX: usize = 3;

/// A placement with its figures.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub placed: Vec<usize>,
    pub figures: PlacementFigures,
    pub score: Score,
}

/// The result of a search.
pub(super) struct SearchResult {
    pub best: Candidate,
    /// By chain, of its plan.
    pub aims: Vec<Aim>,
    pub second: Option<Candidate>,
    /// `None` if all were tried.
    pub gap: Option<f64>,
}

fn order(a: &Score, b: &Score) -> Ordering {
    let parts = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    parts.fold(Ordering::Equal, Ordering::then)
}

fn less(a: &Score, b: &Score) -> bool {
    order(a, b).is_lt()
}

pub(super) fn search(
    problem: &PlacementProblem<'_>,
    items: &[Item],
) -> Result<SearchResult, PlacementError> {
    let mut search = Search { evaluator: Evaluator::new(problem, items), best: None, second: None };
    let product = |count: fn(&Item) -> usize| {
        items.iter().fold(1usize, |all, item| all.saturating_mul(count(item)))
    };
    let is_exact = product(|item| item.choices.len()) <= EXACT_MAX
        && product(|item| item.devices().len()) <= EXACT_PLANS_MAX;
    if is_exact {
        search.all(items)?
    } else {
        search.steps(items)?
    };
    let mut best = search.best.ok_or(PlacementError::Shape { chain: 0 })?;
    let aims;
    (aims, best.figures) = search.evaluator.aims(&best.placed)?;
    best.score = problem.score(&best.figures);
    let gap = (!is_exact).then(|| bound::gap(problem, items, &best.figures));
    Ok(SearchResult { best, aims, second: search.second, gap })
}

struct Search<'a> {
    evaluator: Evaluator<'a>,
    best: Option<Candidate>,
    second: Option<Candidate>,
}

impl Search<'_> {
    fn all(&mut self, items: &[Item]) -> Result<(), PlacementError> {
        let mut placed = vec![0; items.len()];
        loop {
            self.consider(&placed)?;
            let Some(at) = (0..items.len()).find(|&at| placed[at] + 1 < items[at].choices.len())
            else {
                return Ok(());
            };
            placed[..at].fill(0);
            placed[at] += 1;
        }
    }

    /// Takes a placement if it is the best or the second best.
    fn consider(&mut self, placed: &[usize]) -> Result<Score, PlacementError> {
        let figures = self.evaluator.full(placed)?;
        let score = self.evaluator.problem.score(&figures);
        let is_better =
            |than: &Option<Candidate>| than.as_ref().is_none_or(|than| less(&score, &than.score));
        let candidate = || Candidate { placed: placed.to_vec(), figures: figures.clone(), score };
        let is_known = self.best.as_ref().is_some_and(|best| best.placed == placed);
        if is_better(&self.best) {
            self.second = self.best.replace(candidate());
        } else if !is_known && is_better(&self.second) {
            self.second = Some(candidate());
        }
        Ok(score)
    }

    /// Improves the best start by one function at a time.
    fn steps(&mut self, items: &[Item]) -> Result<(), PlacementError> {
        let devices = self.evaluator.problem.profile.devices().len();
        let mut starts = starts(items, devices, |device| self.evaluator.problem.width(device));
        starts.sort_by(|a, b| {
            let mut score = |placed: &[usize]| {
                let figures = self.evaluator.relaxed(placed);
                self.evaluator.problem.score(&figures)
            };
            order(&score(a), &score(b))
        });
        starts.truncate(STARTS_MAX);
        for placed in &starts {
            self.consider(placed)?;
        }
        let best = self.best.as_ref().map(|best| (best.placed.clone(), best.score));
        let mut next = best;
        while let Some((placed, score)) = next {
            next = self.step(items, &placed, &score)?;
        }
        self.next_best(items);
        Ok(())
    }

    /// Looks for the second best beside the best, where the steps to it may not have passed.
    fn next_best(&mut self, items: &[Item]) {
        let Some(best) = self.best.as_ref().map(|best| best.placed.clone()) else { return };
        let mut nearest: Option<(Score, Vec<usize>)> = None;
        for neighbour in neighbours(items, &best) {
            let score = self.evaluator.problem.score(&self.evaluator.relaxed(&neighbour));
            if nearest.as_ref().is_none_or(|(than, _)| less(&score, than)) {
                nearest = Some((score, neighbour));
            }
        }
        // The best stays if this one has no plan.
        if let Some((_, placed)) = nearest {
            let _ = self.consider(&placed);
        }
    }

    /// The first better neighbour of a placement.
    fn step(
        &mut self,
        items: &[Item],
        placed: &[usize],
        score: &Score,
    ) -> Result<Option<(Vec<usize>, Score)>, PlacementError> {
        for neighbour in neighbours(items, placed) {
            if self.evaluator.plans() >= PLANS_MAX {
                return Ok(None);
            }
            let relaxed = self.evaluator.relaxed(&neighbour);
            if !less(&self.evaluator.problem.score(&relaxed), score) {
                continue;
            }
            let own = self.consider(&neighbour)?;
            if less(&own, score) {
                return Ok(Some((neighbour, own)));
            }
        }
        Ok(None)
    }
}

/// All on one device as far as possible, for each device, and each function where it is fastest.
fn starts(items: &[Item], devices: usize, width: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
    let fastest = |item: &Item| {
        let time = |one: &Choice| one.packet_ns / width(one.device);
        let times = item.choices.iter().map(time).enumerate();
        times.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(at, _)| at)
    };
    let on = |device: usize| -> Vec<usize> {
        items.iter().map(|item| item.largest_on(device).unwrap_or(0)).collect()
    };
    let mut starts = vec![items.iter().map(fastest).collect()];
    starts.extend((0..devices).map(on));
    starts
}

fn neighbours<'a>(items: &'a [Item], placed: &'a [usize]) -> impl Iterator<Item = Vec<usize>> + 'a {
    items.iter().enumerate().flat_map(move |(at, item)| {
        let others = (0..item.choices.len()).filter(move |&choice| choice != placed[at]);
        others.map(move |choice| {
            let mut next = placed.to_vec();
            next[at] = choice;
            next
        })
    })
}
