//! The stages of a lane and the queues between them, as an acyclic graph.

use std::fmt;

/// A stage of the lane. Node 0 is the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// A queue by which one node feeds another: its position in the list that the graph was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub usize);

/// The nodes of a lane and their edges. A node with several incoming edges is a join: it takes one
/// piece from each of them together.
#[derive(Clone, Debug)]
pub struct StageGraph {
    nodes: usize,
    edges: Vec<(NodeId, NodeId)>,
    inputs: Vec<Vec<EdgeId>>,
    /// By edge: the nodes that may keep a join waiting for it.
    branches: Vec<Vec<NodeId>>,
}

impl StageGraph {
    /// A graph of `nodes` nodes, the source included. Each edge leads from a node to one with a
    /// larger number, so the numbers are a topological order.
    ///
    /// # Errors
    /// The first edge or node that makes this no such graph.
    pub fn checked(nodes: usize, edges: &[(usize, usize)]) -> Result<Self, GraphError> {
        if nodes < 2 {
            return Err(GraphError::NoStage);
        }
        if let Some(edge) = edges.iter().position(|&(_, to)| to >= nodes) {
            return Err(GraphError::UnknownNode { edge, node: edges[edge].1, nodes });
        }
        if let Some(edge) = edges.iter().position(|(from, to)| from >= to) {
            return Err(GraphError::Backward { edge, from: edges[edge].0, to: edges[edge].1 });
        }
        let into = |node| (0..edges.len()).filter(move |&edge| edges[edge].1 == node).map(EdgeId);
        let inputs: Vec<Vec<EdgeId>> = (0..nodes).map(|node| into(node).collect()).collect();
        if let Some(node) = (1..nodes).find(|&node| inputs[node].is_empty()) {
            return Err(GraphError::NoInput { node });
        }
        let edges: Vec<(NodeId, NodeId)> =
            edges.iter().map(|&(from, to)| (NodeId(from), NodeId(to))).collect();
        Ok(Self { nodes, branches: branches_of(&edges, &inputs), edges, inputs })
    }

    /// A list: the source feeds node 1, node 1 feeds node 2, and so on.
    ///
    /// # Errors
    /// There must be at least one stage.
    pub fn list(stages: usize) -> Result<Self, GraphError> {
        let edges: Vec<(usize, usize)> = (0..stages).map(|node| (node, node + 1)).collect();
        Self::checked(stages + 1, &edges)
    }

    /// How many nodes there are, the source included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Feeder and consumer of each edge.
    pub fn edges(&self) -> &[(NodeId, NodeId)] {
        &self.edges
    }

    /// The edges that lead to `node`.
    pub fn inputs(&self, node: NodeId) -> &[EdgeId] {
        &self.inputs[node.0]
    }

    /// The nodes whose open launches may contain the piece that a join lacks on `edge`. They are
    /// the feeder and all nodes before it, except those before all other inputs of the join. The
    /// excluded ones have passed the piece on already, since another input has it.
    pub(super) fn branch(&self, edge: EdgeId) -> &[NodeId] {
        &self.branches[edge.0]
    }

    pub(super) fn branches(&self) -> &[Vec<NodeId>] {
        &self.branches
    }
}

fn branches_of(edges: &[(NodeId, NodeId)], inputs: &[Vec<EdgeId>]) -> Vec<Vec<NodeId>> {
    let before = nodes_before(edges, inputs);
    let branch = |edge: usize| {
        let (feeder, join) = edges[edge];
        let others: Vec<&EdgeId> = inputs[join.0].iter().filter(|one| one.0 != edge).collect();
        let is_shared = |node: usize| others.iter().all(|one| before[edges[one.0].0.0][node]);
        let own = (0..inputs.len()).filter(|&node| before[feeder.0][node] && !is_shared(node));
        own.map(NodeId).collect()
    };
    (0..edges.len()).map(branch).collect()
}

/// By node: which nodes lead to it. Each leads to itself.
fn nodes_before(edges: &[(NodeId, NodeId)], inputs: &[Vec<EdgeId>]) -> Vec<Vec<bool>> {
    let mut before: Vec<Vec<bool>> = Vec::with_capacity(inputs.len());
    for (node, inputs) in inputs.iter().enumerate() {
        let mut own = vec![false; before.capacity()];
        own[node] = true;
        for edge in inputs {
            let feeder = &before[edges[edge.0].0.0];
            own.iter_mut().zip(feeder).for_each(|(own, theirs)| *own |= theirs);
        }
        before.push(own);
    }
    before
}

/// Why nodes and edges are no graph of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// There is no stage after the source.
    NoStage,
    /// An edge leads to a node that does not exist.
    UnknownNode {
        /// The position of the edge.
        edge: usize,
        /// The node it names.
        node: usize,
        /// The number of nodes.
        nodes: usize,
    },
    /// An edge leads to its own node or to an earlier one.
    Backward {
        /// The position of the edge.
        edge: usize,
        /// Its feeder.
        from: usize,
        /// Its consumer.
        to: usize,
    },
    /// No edge leads to a stage.
    NoInput {
        /// The stage.
        node: usize,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStage => write!(f, "there is no stage after the source"),
            Self::UnknownNode { edge, node, nodes } => {
                write!(f, "edge {edge} leads to node {node}; nodes are 0 to {}", nodes - 1)
            }
            Self::Backward { edge, from, to } => {
                write!(f, "edge {edge} leads from node {from} back to node {to}")
            }
            Self::NoInput { node } => write!(f, "no edge leads to node {node}"),
        }
    }
}

impl std::error::Error for GraphError {}
