//! Sources around sources: [`Tap`] copies frames to a sink, [`Impair`] damages them, [`Limit`] ends
//! after some.
//!
//! Each wraps any source, a boxed one too, and is one, so they stack in any order.

mod impair;
mod limit;
mod tap;

pub use self::impair::{Impair, ImpairConfig, ImpairCounts};
pub use self::limit::Limit;
pub use self::tap::Tap;
pub use crate::generator::ParseProblem;

use crate::port::{Burst, Given, InterfaceNames, Live, Next, Source, SourceError, Wrap};

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> Result<Next<'_>, SourceError> {
        (**self).next()
    }

    fn burst<'a>(&'a mut self, burst: &mut Burst<'a>) -> Result<Given, SourceError> {
        (**self).burst(burst)
    }

    fn finish(&mut self) -> Vec<String> {
        (**self).finish()
    }

    fn warnings(&self) -> Vec<String> {
        (**self).warnings()
    }

    fn drops_when_full(&self) -> bool {
        (**self).drops_when_full()
    }

    fn loses_when_full(&self) -> bool {
        (**self).loses_when_full()
    }

    fn is_paced(&self) -> bool {
        (**self).is_paced()
    }

    fn take_lost(&mut self, lost: &mut dyn FnMut(u16, u64)) {
        (**self).take_lost(lost);
    }

    fn live(&mut self) -> Option<&mut dyn Live> {
        (**self).live()
    }

    fn progress(&self) -> Option<f64> {
        (**self).progress()
    }

    fn interfaces(&self) -> InterfaceNames {
        (**self).interfaces()
    }

    fn wrap_unpaced(&mut self, wrap: &mut Wrap<'_>) -> bool {
        (**self).wrap_unpaced(wrap)
    }
}

#[cfg(test)]
mod tests;
