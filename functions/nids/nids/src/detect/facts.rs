//! Facts about a packet besides its bytes: [`FlowFacts`].

/// Facts from the flow table about a packet's flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFacts {
    /// Which way the packet goes; `None` where it is of no flow, as fragments are.
    pub to_server: Option<bool>,
    /// Both sides were seen: a TCP handshake that was completed; of other protocols, a packet each
    /// way.
    pub is_established: bool,
    /// The client's next sequence number less its first, so that SYN and FIN count 1 each.
    pub client_bytes: u64,
    /// The server's.
    pub server_bytes: u64,
    /// The packet was put together of fragments.
    pub is_reassembled: bool,
}

impl FlowFacts {
    /// Whether there is a flow.
    pub fn has_flow(&self) -> bool {
        self.to_server.is_some()
    }
}
