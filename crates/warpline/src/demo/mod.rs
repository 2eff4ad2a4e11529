//! placeholder until merge
use warpline_io::{Source, SourceError};
pub(crate) const FILES: &[(&str, &str)] = &[("chain.toml", "[chain]\nfunctions = []\n")];
pub(crate) const CAPTURE: &str = "capture.pcap";
pub(crate) const CHAIN_NAME: &str = "demo/chain.toml";
pub(crate) fn chain() -> &'static str {
    FILES[0].1
}
pub(crate) fn source() -> Result<Box<dyn Source>, SourceError> {
    unimplemented!()
}
pub(crate) mod capture {
    pub(crate) fn write(_: &mut dyn warpline_io::Sink) -> Result<(), warpline_io::SinkError> {
        Ok(())
    }
}
