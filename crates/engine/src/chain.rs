//! A service chain: its functions in order, and the ingress key that steers packets. A
//! [`crate::Deployment`] adds where they run.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use warpline_launch::{DEVICE_LOST, DEVICE_LOST_NAME};
use warpline_nf::{Definition, Function, Growth, HopPorts, Passage, Ports};
use warpline_packet::{ALIGN, ScratchWord, Seed, Shard, StateKey, Steering, frame_start};
use warpline_sched::Routes;

use crate::reach::Reach;
use crate::routing::NO_CHAIN_ROUTE_NAME;
use crate::stats::FunctionStats;

/// A function of a chain under its own name.
#[derive(Clone)]
pub struct Instance {
    /// The name of its table in the chain file; with `:1` or `:2` for one of two places.
    pub name: String,
    /// The definition of its function.
    pub definition: &'static Definition,
    /// The function.
    pub function: Arc<dyn Function>,
    /// A hash of everything that it was built from. Instances with equal hashes are the same.
    pub fingerprint: u64,
    /// Which of its places in the chain this is.
    pub place: Place,
}

/// One of the places at which an instance stands in a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The only one.
    #[default]
    Only,
    /// The first of two: destinations are rewritten here, packets opened.
    First,
    /// The second of two: sources are rewritten here, packets sealed. Answers pass it.
    Second,
}

impl Instance {
    /// The name of its table in the chain file.
    pub fn table(&self) -> &str {
        let number = match self.place {
            Place::Only => "",
            Place::First => ":1",
            Place::Second => ":2",
        };
        self.name.strip_suffix(number).unwrap_or(&self.name)
    }

    /// Packets that it dropped, by reason. Reasons of the engine are listed only if there are any.
    pub fn named_drops(&self, stats: &FunctionStats) -> impl Iterator<Item = (&'static str, u64)> {
        let own = self.definition.drops.iter().copied().zip(stats.drops);
        let lost = (DEVICE_LOST_NAME, stats.drops[usize::from(DEVICE_LOST.0)]);
        let unrouted = (NO_CHAIN_ROUTE_NAME, stats.unrouted);
        own.chain([lost, unrouted].into_iter().filter(|(_, count)| *count > 0))
    }
}

/// A chain: what happens to packets, wherever it happens.
#[derive(Clone)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Its functions, in order.
    pub instances: Vec<Instance>,
    /// The key that sends packets to shards.
    pub steering: Steering,
    /// Two instances whose keys disagree, where the chain runs on one lane because of it.
    pub disagreement: Option<[String; 2]>,
    /// Scratch words handed out.
    pub scratch_words: usize,
    /// Seeds the hash that steers packets and names flows.
    seed: Seed,
    ports: Ports,
    presumes_crossing: bool,
    routes: Option<Arc<Routes>>,
}

/// Most instances of a chain.
pub const INSTANCES_MAX: usize = 64;
/// Most packets that one packet may become on its way through a chain.
pub const MULTIPLY_MAX: usize = 64;
/// Most bytes by which a frame may grow at one end on its way through a chain.
pub const GROWTH_MAX: usize = 16 << 10;

/// Why a chain can't be built of functions that each are fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// More instances than [`INSTANCES_MAX`].
    TooLong,
    /// One packet could become more than [`MULTIPLY_MAX`].
    Multiplies {
        /// How many.
        packets: usize,
        /// The functions that make packets.
        by: Vec<String>,
    },
    /// A frame could grow by more bytes than [`GROWTH_MAX`].
    Grows(usize),
    /// Its functions left no scratch word for routes.
    NoWord,
}

impl std::fmt::Display for ChainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "a chain has at most {INSTANCES_MAX} functions"),
            Self::Multiplies { packets, by } => write!(
                f,
                "one packet could become {packets} in this chain; at most {MULTIPLY_MAX} are \
                 handled. Leave out a function that makes packets, or its `icmp`: [{}]",
                by.join("], [")
            ),
            Self::Grows(n) => {
                write!(f, "a frame could grow by {n} bytes; at most {GROWTH_MAX} are handled")
            }
            Self::NoWord => f.write_str("its functions leave no scratch word for routes"),
        }
    }
}

impl std::error::Error for ChainError {}

impl Chain {
    /// Builds a chain of `instances`, to which `scratch_words` scratch words were handed.
    pub fn new(
        name: impl Into<String>,
        instances: Vec<Instance>,
        scratch_words: usize,
    ) -> Result<Self, ChainError> {
        if instances.len() > INSTANCES_MAX {
            return Err(ChainError::TooLong);
        }
        let keys: Vec<(String, StateKey)> =
            instances.iter().map(|i| (i.name.clone(), i.function.state_key())).collect();
        let (steering, disagreement) = match Steering::derive(&keys) {
            Ok(steering) => (steering, None),
            Err(names) => (Steering::Single, Some(names)),
        };
        let name = name.into();
        let seed = Seed::default();
        let (ports, presumes_crossing) = (Ports::default(), false);
        let chain = Self {
            name,
            instances,
            steering,
            disagreement,
            scratch_words,
            seed,
            ports,
            presumes_crossing,
            routes: None,
        };
        let Growth { head, tail } = chain.growth();
        match (chain.multiply(), head.max(tail)) {
            (packets, _) if packets > MULTIPLY_MAX => {
                Err(ChainError::Multiplies { packets, by: chain.makers() })
            }
            (_, n) if n > GROWTH_MAX => Err(ChainError::Grows(n)),
            _ => Ok(chain),
        }
    }

    /// The same with the seed that its functions were built with; it is 0 otherwise.
    #[must_use]
    pub fn with_seed(mut self, seed: Seed) -> Self {
        self.seed = seed;
        self
    }

    /// The seed of the hash that steers its packets and names their flows.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// The same with the ports that its functions were built with. `presumes_crossing` drops
    /// packets that would leave by the port that they came by
    /// ([`warpline_nf::Resources::presume_crossing`]).
    #[must_use]
    pub fn with_ports(self, ports: Ports, presumes_crossing: bool) -> Self {
        Self { ports, presumes_crossing, ..self }
    }

    /// The same, with routes between its functions.
    ///
    /// # Errors
    /// There is no scratch word left for them.
    pub fn with_routes(mut self, routes: Arc<Routes>) -> Result<Self, ChainError> {
        ScratchWord::new(self.scratch_words).ok_or(ChainError::NoWord)?;
        self.scratch_words += 1;
        self.routes = Some(routes);
        Ok(self)
    }

    /// Its routes; none if every packet passes all functions.
    pub fn routes(&self) -> Option<&Arc<Routes>> {
        self.routes.as_ref()
    }

    /// The scratch word with the ways of packets on its routes.
    pub(crate) fn way_word(&self) -> Option<ScratchWord> {
        self.routes.as_ref()?;
        ScratchWord::new(self.scratch_words.checked_sub(1)?)
    }

    /// Whether the functions at two successive positions get the same packets: all that pass the
    /// first continue with the second, and no others come to it.
    pub(crate) fn is_straight(&self, position: usize) -> bool {
        let own = position as u8;
        self.routes.as_ref().is_none_or(|all| all.exit(own).is_none() && !all.is_join(own + 1))
    }

    /// Its ports; none where it has one input and one output.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Whether packets are dropped that would leave by the port that they came by.
    pub fn presumes_crossing(&self) -> bool {
        self.presumes_crossing
    }

    /// The port of each next hop, whichever function sets it. `None` if two give one number to
    /// different next hops.
    pub(crate) fn hop_ports(&self) -> Option<HopPorts> {
        let mut each = self.instances.iter().filter_map(|instance| instance.function.hop_ports());
        each.try_fold(HopPorts::default(), |all, own| all.with(&own))
    }

    /// Addresses whose packets are for its functions, even if they are this machine's: first and
    /// last of each range.
    pub fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        self.instances.iter().flat_map(|instance| instance.function.own_addresses()).collect()
    }

    /// The same chain, in which each instance that `old` has of the same is that of `old`.
    pub(crate) fn keeping(&self, old: &Self) -> Self {
        let mut new = self.clone();
        for (old, new) in old.instances.iter().zip(&mut new.instances) {
            if old.fingerprint == new.fingerprint {
                new.function = Arc::clone(&old.function);
            }
        }
        new
    }

    /// How packets that the function at `position` makes pass the rest of the chain.
    pub(crate) fn passage(&self, position: usize) -> Passage {
        let mut passage = Passage::default();
        passage.inherited.extend(self.way_word());
        for (own, instance) in self.instances.iter().enumerate().take(position + 1) {
            let (carried, change) =
                (instance.function.carried_words(), instance.function.change_words());
            let Some(first) = carried.first() else { continue };
            let is_same = |other: &Instance| other.function.carried_words().first() == Some(first);
            let last = self.instances.iter().rposition(is_same).unwrap_or(own);
            if last > position {
                passage.inherited.extend_from_slice(carried);
            } else if last < position && last == own {
                passage.closed.extend(change.first());
            }
        }
        passage
    }

    /// Bytes of the room of a frame of `len` bytes.
    pub fn room_len(&self, len: usize) -> usize {
        let Growth { head, tail } = self.growth();
        (frame_start(head) + len + tail).next_multiple_of(ALIGN)
    }

    /// Bytes by which a frame may grow on its way.
    pub fn growth(&self) -> Growth {
        let all = self.instances.iter().map(|i| i.function.growth());
        all.fold(Growth::NONE, |sum, g| Growth { head: sum.head + g.head, tail: sum.tail + g.tail })
    }

    /// Packets that one packet may become on its way, itself among them.
    pub fn multiply(&self) -> usize {
        let [of_packets, _] = Reach::of(self, 1);
        of_packets.rows()
    }

    /// The names of functions that make packets.
    fn makers(&self) -> Vec<String> {
        let makes = |one: &&Instance| one.function.emits().per_packet > 0;
        self.instances.iter().filter(makes).map(|one| one.name.clone()).collect()
    }

    /// Bytes of the longest frame that a function may make.
    pub fn made_len_max(&self) -> usize {
        self.instances.iter().map(|i| i.function.emits().len_max).max().unwrap_or(0)
    }

    /// Bytes of the longest frame that each of its functions may give a packet, of those that give
    /// any.
    pub fn replace_lens(&self) -> impl Iterator<Item = usize> {
        self.instances.iter().map(|i| i.function.emits().replace_len_max).filter(|&len| len > 0)
    }

    /// Lanes that it can use of the `asked`.
    pub fn lanes(&self, asked: usize) -> usize {
        if self.steering == Steering::Single { 1 } else { asked }
    }

    /// The shards that lane `lane` of `lanes` holds.
    pub fn shards(&self, lane: usize, lanes: usize) -> Vec<Shard> {
        match self.steering {
            Steering::Single => vec![Shard::WHOLE],
            _ => (0..warpline_packet::SHARDS)
                .filter(|&shard| lane_of(shard as u8, lanes) == lane)
                .map(Shard::new)
                .collect(),
        }
    }

    /// Whether the first fragment of a packet must come before the others.
    pub(crate) fn orders_fragments(&self) -> bool {
        self.instances.iter().any(|i| i.function.follows_first_fragment())
    }

    /// The interval between ticks, in packet time: the shortest that any function asks for.
    pub fn tick(&self) -> Option<Duration> {
        self.instances.iter().filter_map(|i| i.function.tick()).min()
    }
}

/// The lane that holds shard `shard`.
#[inline]
pub fn lane_of(shard: u8, lanes: usize) -> usize {
    usize::from(shard) * lanes / warpline_packet::SHARDS
}
