//! Works as graphs: a work's steps are captured, and the device gets all of them by one call.
//!
//! Making a graph executable takes long. A stream keeps those used last, and the driver replaces
//! one by the next work of the same shape: addresses, lengths and values change, the steps don't.
//! Work in flight continues as launched, whether its executable graph is changed ("updates take
//! effect the next time the graph is launched", CUDA Programming Guide, Updating Instantiated
//! Graphs) or destroyed ("freed asynchronously on completion", cuda.h of `cuGraphExecDestroy`).

use core::any::Any;
use core::ffi::c_int;
use std::sync::{Arc, OnceLock};

use super::api::{self, GraphDriver, Handle};
use super::context::Context;
use super::pages::RegisteredPages;
use super::queue::Queue;
use crate::{Failure, Missing, Step, Work};

/// Shapes for which a stream keeps an executable graph.
const KEPT_MAX: usize = 8;

/// The driver's functions for graphs, looked up once; an older driver works without.
pub(super) fn driver() -> Result<&'static GraphDriver, Missing> {
    static DRIVER: OnceLock<Result<GraphDriver, Missing>> = OnceLock::new();
    DRIVER.get_or_init(GraphDriver::load).as_ref().map_err(Clone::clone)
}

/// Whether `work` is submitted as a graph. It must have more than one step, and no memory to copy
/// that the driver did not lock. For such memory cuda.h does not state when a captured copy reads
/// it. A graph's copies of rows can't be changed ("operands must be 1-dimensional", cuda.h of
/// `cuGraphExecMemcpyNodeSetParams`).
pub(super) fn suits(work: &Work) -> bool {
    let has_rows = |step: &Step| matches!(step, Step::RowsIn { .. } | Step::RowsOut { .. });
    nodes(work).nth(1).is_some()
        && !work.steps.iter().any(has_rows)
        && work.pieces.iter().all(|piece| RegisteredPages::has_locked(piece.region()))
}

/// The steps in a graph, without empty copies ("zero-length operations are not supported", cuda.h
/// of `cuGraphExecMemcpyNodeSetParams`).
fn nodes(work: &Work) -> impl Iterator<Item = &Step> {
    work.steps.iter().filter(|step| match step {
        Step::CopyIn { to: slice, .. } | Step::CopyOut { from: slice, .. } => !slice.is_empty(),
        _ => true,
    })
}

/// The executable graphs of a stream.
pub(super) struct Graphs {
    driver: &'static GraphDriver,
    /// The most recently used one is the last.
    kept: Vec<CachedGraph>,
}

struct CachedGraph {
    // Before `shape`, which keeps kernels loaded.
    executable: Owned,
    shape: Vec<Node>,
}

/// The kind of a step, the same in every work of a shape.
enum Node {
    CopyIn,
    CopyOut,
    Rows,
    Call { loaded: Arc<dyn Any + Send + Sync>, kernel: usize },
}

impl Node {
    fn of(step: &Step) -> Self {
        match step {
            Step::CopyIn { .. } => Self::CopyIn,
            Step::CopyOut { .. } => Self::CopyOut,
            Step::RowsIn { .. } | Step::RowsOut { .. } => Self::Rows,
            Step::Call(call) => {
                Self::Call { loaded: call.kernel.module.loaded.clone(), kernel: call.kernel.index }
            }
        }
    }

    fn is_of(&self, step: &Step) -> bool {
        match (self, step) {
            (Self::CopyIn, Step::CopyIn { .. }) | (Self::CopyOut, Step::CopyOut { .. }) => true,
            (Self::Call { loaded, kernel }, Step::Call(call)) => {
                let own = &call.kernel;
                Arc::ptr_eq(loaded, &own.module.loaded) && *kernel == own.index
            }
            _ => false,
        }
    }
}

impl CachedGraph {
    fn has_shape_of(&self, work: &Work) -> bool {
        let mut steps = nodes(work);
        self.shape.iter().all(|node| steps.next().is_some_and(|step| node.is_of(step)))
            && steps.next().is_none()
    }
}

impl Graphs {
    pub(super) fn new(driver: &'static GraphDriver) -> Self {
        Self { driver, kept: Vec::with_capacity(KEPT_MAX) }
    }

    /// Submits all of `work`, which suits and is kept until the event after it is done. After a
    /// failure the stream still takes works.
    pub(super) fn launch(&mut self, work: &Work, queue: &Queue) -> Result<(), Failure> {
        let graph = self.capture(work, queue)?;
        let executable = self.executable(work, &graph)?.handle;
        // SAFETY: both are the stream's own; what the copies and kernels use is the work's.
        queue.context.call(|_| unsafe { (self.driver.launch)(executable, queue.stream) })
    }

    /// Captures the steps as a graph, without doing any. The stream stops capturing, whatever the
    /// result.
    fn capture(&self, work: &Work, queue: &Queue) -> Result<Owned, Failure> {
        let (context, stream) = (&queue.context, queue.stream);
        // Relaxed: what other threads do meanwhile, allocate memory for one, is not forbidden them.
        // SAFETY: the stream is its owner's alone and captures nothing.
        let begun =
            context.call(|_| unsafe { (self.driver.begin_capture)(stream, api::CAPTURE_RELAXED) });
        let recorded =
            begun.and_then(|()| nodes(work).try_for_each(|step| queue.enqueue(step, work, None)));
        let mut graph = Handle::NULL;
        // SAFETY: one handle is written. On a stream that captures nothing it is refused.
        let ended = context.call(|_| unsafe { (self.driver.end_capture)(stream, &mut graph) });
        let graph = Owned::new(context, graph, self.driver.destroy_graph);
        recorded.and(ended)?;
        graph.ok_or_else(|| Failure::Work("the driver captured no graph".into()))
    }

    /// The executable form of `graph`: the kept one of its shape, or a new one in the place of the
    /// least recently used.
    fn executable(&mut self, work: &Work, graph: &Owned) -> Result<&Owned, Failure> {
        let known = self.kept.iter().position(|kept| kept.has_shape_of(work));
        let known = known.map(|at| self.kept.remove(at));
        let updated = match known {
            Some(kept) => self.update(&kept.executable, graph)?.then_some(kept),
            None => None,
        };
        let kept = match updated {
            Some(kept) => kept,
            None => CachedGraph {
                executable: self.instantiate(graph)?,
                shape: nodes(work).map(Node::of).collect(),
            },
        };
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0);
        }
        Ok(&self.kept.push_mut(kept).executable)
    }

    /// Whether the driver could replace the work of `executable` by `graph`.
    fn update(&self, executable: &Owned, graph: &Owned) -> Result<bool, Failure> {
        let mut result = [0; 3];
        // SAFETY: both are valid; what is written are a number and two nodes.
        let updated = graph.context.call(|_| unsafe {
            (self.driver.update)(executable.handle, graph.handle, &mut result)
        });
        match updated {
            Err(why @ Failure::Lost(_)) => Err(why),
            other => Ok(other.is_ok()),
        }
    }

    fn instantiate(&self, graph: &Owned) -> Result<Owned, Failure> {
        let mut executable = Handle::NULL;
        let context = &graph.context;
        // SAFETY: one handle is written; the graph is valid, and the driver copies it.
        context.call(|_| unsafe { (self.driver.instantiate)(&mut executable, graph.handle, 0) })?;
        let owned = Owned::new(context, executable, self.driver.destroy_executable);
        owned.ok_or_else(|| Failure::Work("the driver made no graph".into()))
    }
}

/// A graph, or an executable one, destroyed when it is dropped.
struct Owned {
    context: Arc<Context>,
    handle: Handle,
    destroy: Destroy,
}

type Destroy = unsafe extern "C" fn(Handle) -> c_int;

impl Owned {
    /// `None` where the driver made nothing.
    fn new(context: &Arc<Context>, handle: Handle, destroy: Destroy) -> Option<Self> {
        (handle != Handle::NULL).then(|| Self { context: context.clone(), handle, destroy })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if !self.context.is_lost() {
            // SAFETY: made once, destroyed once; what is under way is freed when it is done.
            let _ = self.context.call(|_| unsafe { (self.destroy)(self.handle) });
        }
    }
}
