//! The JSON that benches write: `{"bench": NAME, "runs": [{"figure": NAME, ...}]}`.

use serde_json::Value;

/// The runs of one bench.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a>(&'a [Value]);

/// A run: its values by name.
#[derive(Clone, Copy)]
pub(super) struct BenchRun<'a>(&'a Value);

impl<'a> Runs<'a> {
    /// Those of `bench`, if the record is its.
    pub(super) fn of(record: &'a Value, bench: &str) -> Option<Self> {
        let runs = record["runs"].as_array().filter(|_| record["bench"] == bench)?;
        Some(Self(runs))
    }

    /// Those with these texts as values.
    pub(super) fn with<'b>(
        &self,
        values: &'b [(&'b str, &'b str)],
    ) -> impl Iterator<Item = BenchRun<'a>> + use<'a, 'b> {
        let is_meant = |run: &&Value| values.iter().all(|(key, value)| run[*key] == **value);
        self.0.iter().filter(is_meant).map(BenchRun)
    }
}

impl BenchRun<'_> {
    /// A number, if the run has it.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.0[key].as_f64()
    }

    /// The sum of a list of numbers.
    pub(super) fn sum(&self, key: &str) -> Option<f64> {
        self.0[key].as_array()?.iter().map(Value::as_f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_their_values() {
        let record = serde_json::json!({ "bench": "simmer", "runs": [
            { "figure": "figure 6", "mark": null, "drops": [1.5, 2.0] },
            { "figure": "figure 6", "mark": 2.8, "drops": [1.5, "x"] },
            { "figure": "figure 7", "mark": 2.8 },
        ]});
        let runs = Runs::of(&record, "simmer").expect("its record");
        let six: Vec<_> = runs.with(&[("figure", "figure 6")]).collect();
        assert_eq!((six.len(), six[0].number("mark"), six[1].number("mark")), (2, None, Some(2.8)));
        assert_eq!((six[0].sum("drops"), six[1].sum("drops")), (Some(3.5), None));
        assert!(Runs::of(&record, "vgpu").is_none());
        assert!(Runs::of(&serde_json::json!([]), "simmer").is_none());
    }
}
