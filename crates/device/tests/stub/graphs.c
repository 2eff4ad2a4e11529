/* Graphs: cuStreamBeginCapture, cuStreamEndCapture, cuGraph*. A graph holds what was captured, in
 * its order; the stream gets all of it when it is launched. What cuda.h and the programming guide
 * leave open of a capture is refused: copies of nothing, and of memory that is not registered.
 * Without graphs it is a driver from before CUDA 12. */

#include "stub.h"

#include <stdlib.h>
#include <string.h>

static struct graph *make(enum kind kind, const struct graph *from, struct context *context)
{
    struct graph *own = object_make(kind, sizeof *own, context);
    own->nodes = malloc(NODES_MAX * sizeof *own->nodes);
    if (from) memcpy(own->nodes, from->nodes, from->count * sizeof *from->nodes);
    own->count = from ? from->count : 0;
    return own;
}

static void destroy(struct graph *graph)
{
    object_destroy(graph);
    free(graph->nodes);
}

/* A forbidden operation invalidates the whole capture. */
int graph_capture(const char *name, struct graph *graph, const struct node *node)
{
    address host = node->kind == COPY_IN ? node->from : node->to;
    int is_copy = node->kind != CALL;
    (void)name;
    if (graph->is_broken) return CAPTURE_INVALIDATED;
    graph->is_broken = graph->count == NODES_MAX
        || (is_copy && (!node->bytes || pages_of(host, node->bytes) != PINNED));
    if (graph->is_broken) return CAPTURE_UNSUPPORTED;
    graph->nodes[graph->count++] = *node;
    return 0;
}

#ifndef WITHOUT_GRAPHS

int cuStreamBeginCapture_v2(struct stream *stream, int mode)
{
    ENTER;
    if (mode != 2) REFUSE(INVALID_VALUE, "a mode that forbids other threads something");
    struct graph *own = make(GRAPH, 0, context), *graph = own;
    int code = stream_capture(__func__, stream, &graph, 1);
    if (code) destroy(own);
    return code;
}

/* Where it fails, it is over all the same. */
int cuStreamEndCapture(struct stream *stream, struct graph **to)
{
    struct context *context = context_current();
    struct graph *graph = 0;
    *to = 0;
    if (!context) REFUSE(INVALID_CONTEXT, "no context is current on this thread");
    int code = stream_capture(__func__, stream, &graph, 0);
    if (code) return code;
    code = context->sticky;
    if (!code) code = graph->is_broken ? CAPTURE_INVALIDATED : call_fate(__func__);
    if (code) destroy(graph);
    *to = code ? 0 : graph;
    return code;
}

int cuGraphDestroy(struct graph *graph) { ENTER; CHECK(GRAPH, graph); destroy(graph); return 0; }
int cuGraphExecDestroy(struct graph *executable)
{
    ENTER;
    CHECK(EXECUTABLE, executable);
    destroy(executable);
    return 0;
}

int cuGraphInstantiateWithFlags(
    struct graph **to, const struct graph *graph, unsigned long long flags)
{
    ENTER;
    CHECK(GRAPH, graph);
    if (flags) REFUSE(INVALID_VALUE, "flags");
    *to = make(EXECUTABLE, graph, context);
    return 0;
}

struct update { int result; const void *node, *from; };

int cuGraphExecUpdate_v2(struct graph *executable, const struct graph *graph, struct update *update)
{
    ENTER;
    CHECK(EXECUTABLE, executable);
    CHECK(GRAPH, graph);
    *update = (struct update){ 2, 0, 0 };
    if (executable->count != graph->count) return UPDATE_FAILURE;
    update->result = 3;
    for (int i = 0; i < graph->count; i++)
        if (executable->nodes[i].kind != graph->nodes[i].kind) {
            update->node = &graph->nodes[i];
            return UPDATE_FAILURE;
        }
    memcpy(executable->nodes, graph->nodes, graph->count * sizeof *graph->nodes);
    update->result = 0;
    return 0;
}

int cuGraphLaunch(const struct graph *executable, struct stream *stream)
{
    ENTER;
    CHECK(EXECUTABLE, executable);
    int code = 0;
    for (int i = 0; i < executable->count && !code; i++) {
        if (executable->nodes[i].kind == CALL) CHECK(MODULE, executable->nodes[i].function->module);
        code = stream_give(__func__, stream, &executable->nodes[i]);
    }
    return code;
}

#endif
