//! A limit: the first frames of a source, and no more.

use crate::port::{Burst, Given, InterfaceNames, Live, Next, Source, SourceError, Wrap};

/// A source that ends after so many frames of another.
pub struct Limit {
    source: Box<dyn Source>,
    all: u64,
    left: u64,
}

impl Limit {
    /// The first `count` frames of `source`.
    pub fn new(source: Box<dyn Source>, count: u64) -> Self {
        Self { source, all: count, left: count }
    }
}

impl Source for Limit {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        if self.left == 0 {
            return Ok(Next::End);
        }
        let next = self.source.next()?;
        self.left -= u64::from(matches!(next, Next::Frame(_)));
        Ok(next)
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        if self.left == 0 {
            return Ok(Given::End);
        }
        let given = self.source.burst(burst)?;
        burst.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= burst.frames().len() as u64;
        Ok(given)
    }

    fn warnings(&self) -> Vec<String> {
        self.source.warnings()
    }

    fn finish(&mut self) -> Vec<String> {
        self.source.finish()
    }

    fn drops_when_full(&self) -> bool {
        self.source.drops_when_full()
    }

    fn loses_when_full(&self) -> bool {
        self.source.loses_when_full()
    }

    fn is_paced(&self) -> bool {
        self.source.is_paced()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        self.source.take_lost(lost);
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        self.source.live()
    }

    fn progress(&self) -> Option<f64> {
        let own = (self.all - self.left) as f64 / self.all.max(1) as f64;
        Some(self.source.progress().unwrap_or(0.0).max(own))
    }

    fn interfaces(&self) -> InterfaceNames {
        self.source.interfaces()
    }

    fn wrap_unpaced(&mut self, wrap: &mut Wrap<'_>) -> bool {
        self.source.wrap_unpaced(wrap)
    }
}
