//! Puts kernels together.

use warpline_packet::{ReadWrite, ScratchWord};

use super::{KernelStep, KernelTable, Kernels, Text};

/// Puts [`Kernels`] together.
#[derive(Debug)]
pub struct KernelsBuilder(Kernels);

impl KernelsBuilder {
    /// Texts before the function's own, after those that every kernel needs.
    #[must_use]
    pub fn headers(mut self, headers: &'static [Text]) -> Self {
        self.0.headers = headers;
        self
    }

    /// More numbers by name.
    #[must_use]
    pub fn defines(mut self, numbers: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        self.0.defines.extend(numbers);
        self
    }

    /// The steps that run, if some steps of the text do not.
    #[must_use]
    pub fn running(mut self, steps: Vec<KernelStep>) -> Self {
        self.0.steps = steps;
        self
    }

    /// The read-only tables. They may hold keys, so they are zeroed when dropped.
    #[must_use]
    pub fn tables(mut self, tables: Vec<KernelTable>) -> Self {
        (self.0.tables, self.0.are_public) = (tables, false);
        self
    }

    /// Read-only tables without keys. They are not zeroed: that takes long for large ones.
    #[must_use]
    pub fn public_tables(mut self, tables: Vec<KernelTable>) -> Self {
        (self.0.tables, self.0.are_public) = (tables, true);
        self
    }

    /// Sets the scratch word with the place of a packet's findings.
    #[must_use]
    pub fn findings(mut self, word: ScratchWord) -> Self {
        self.0.findings = Some(word);
        self
    }

    /// The kernels also reach the arena in the host's memory ([`super::KernelParameter::Host`]).
    #[must_use]
    pub fn reaching_host(mut self) -> Self {
        self.0.reaches_host = true;
        self
    }

    /// The kernels. They declare no field yet: [`Kernels::declaring`].
    pub fn build(self) -> Kernels {
        self.0
    }
}

impl Kernels {
    /// Kernels of `text`, which compilers call `name` in their logs; `steps` are all that it has.
    ///
    /// The text runs as it stands, with the rights of the process: its author vouches that it keeps
    /// to the rules at the top of this module, as for any other code of the function's crate.
    pub fn builder(
        name: &'static str,
        text: &'static str,
        steps: &'static [KernelStep],
    ) -> KernelsBuilder {
        KernelsBuilder(Self {
            name,
            text,
            headers: &[],
            defines: Vec::new(),
            all_steps: steps,
            steps: steps.to_vec(),
            tables: Vec::new(),
            are_public: false,
            findings: None,
            reaches_host: false,
            declared: ReadWrite::NONE,
        })
    }
}
