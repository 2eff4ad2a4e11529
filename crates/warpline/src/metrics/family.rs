//! Families of samples, and how they are encoded.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Names and values of the labels of a sample.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Count(u64),
    Number(f64),
    /// Sum, count, and the values in each bucket, by its upper bound.
    Histogram(f64, u64, Vec<(f64, u64)>),
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
    /// Labels of the program; its samples have no value.
    Info,
}

/// Samples with one name.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) name: Cow<'static, str>,
    pub(super) help: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) kind: FamilyKind,
    pub(super) samples: Vec<(Labels, Value)>,
}

/// The families of a scrape, in the order of their first samples.
#[derive(Default)]
pub(super) struct Families(Vec<Family>);

impl Families {
    /// The family called `name` that has this unit.
    pub(super) fn family(
        &mut self,
        (name, unit): (impl Into<Cow<'static, str>>, Option<Unit>),
        kind: FamilyKind,
        help: &'static str,
    ) -> &mut Family {
        let name = name.into();
        let is_it = |family: &Family| family.name == name && family.unit == unit;
        let at = self.0.iter().position(is_it).unwrap_or_else(|| {
            self.0.push(Family { name, help, unit, kind, samples: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// A family of counters without a unit.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family((name, None), FamilyKind::Counter, help)
    }

    pub(super) fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

impl Family {
    pub(super) fn add(&mut self, labels: Labels, value: Value) {
        self.samples.push((labels, value));
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = match self.kind {
            FamilyKind::Counter => MetricType::Counter,
            FamilyKind::Gauge => MetricType::Gauge,
            FamilyKind::Histogram => MetricType::Histogram,
            FamilyKind::Info => MetricType::Info,
        };
        let mut metric =
            encoder.encode_descriptor(&self.name, self.help, self.unit.as_ref(), kind)?;
        self.samples.iter().try_for_each(|(labels, value)| {
            if self.kind == FamilyKind::Info {
                return metric.encode_info(labels);
            }
            encode(metric.encode_family(labels)?, self.kind, value)
        })
    }
}

fn encode(
    mut metric: MetricEncoder<'_>,
    kind: FamilyKind,
    value: &Value,
) -> Result<(), fmt::Error> {
    match value {
        Value::Count(count) if kind == FamilyKind::Counter => {
            metric.encode_counter::<NoLabelSet, _, u64>(count, None)
        }
        Value::Number(number) if kind == FamilyKind::Counter => {
            metric.encode_counter::<NoLabelSet, _, f64>(number, None)
        }
        Value::Count(count) => metric.encode_gauge(count),
        Value::Number(number) => metric.encode_gauge(number),
        Value::Histogram(sum, count, buckets) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}
