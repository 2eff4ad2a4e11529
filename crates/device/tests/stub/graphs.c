/* Behind cuda.c: the part of the driver's interface by which works are graphs. A graph holds what was captured, in its order; all of it is
 * done when it is launched. What cuda.h and the programming guide leave open of a capture is refused: copies of nothing, and of memory that is
 * not registered. Without graphs it is a driver from before CUDA 12. */

static int is_registered(address at, size_t bytes)
{
    int is = 0;
    pthread_mutex_lock(&lock);
    for (struct range *one = registered; one; one = one->next)
        is |= (char *)at >= one->at && (char *)at + bytes <= one->at + one->bytes;
    pthread_mutex_unlock(&lock);
    return is;
}

static void assign(struct graph *to, const struct graph *from)
{
    to->count = from->count;
    memcpy(to->nodes, from->nodes, from->count * sizeof *from->nodes);
}

/* What is not allowed spoils all that is captured with it. */
static int capture(struct stream *stream, const struct node *node)
{
    struct graph *graph = stream->captured;
    address host = node->kind == COPY_IN ? node->from : node->to;
    int is_copy = node->kind != KERNEL;
    if (stream->is_broken) return CAPTURE_INVALIDATED;
    stream->is_broken = graph->count == NODES_MAX || is_copy && (!node->bytes || !is_registered(host, node->bytes));
    if (stream->is_broken) return CAPTURE_UNSUPPORTED;
    graph->nodes[graph->count++] = *node;
    return 0;
}

#ifndef WITHOUT_GRAPHS

int cuStreamBeginCapture_v2(struct stream *stream, int mode)
{
    CALLED;
    if (stream->captured) return ILLEGAL_STATE;
    if (mode != 2) return INVALID_VALUE;
    stream->captured = calloc(1, sizeof(struct graph));
    stream->is_broken = 0;
    return 0;
}

/* Where it fails, it is over all the same. */
int cuStreamEndCapture(struct stream *stream, struct graph **to)
{
    NEEDS_CONTEXT;
    if (!stream->captured) return ILLEGAL_STATE;
    int code = stream->is_broken ? CAPTURE_INVALIDATED : fate(__func__);
    if (code) free(stream->captured);
    *to = code ? 0 : stream->captured;
    stream->captured = 0;
    return code;
}

int cuGraphDestroy(struct graph *graph) { CALLED; free(graph); return 0; }
int cuGraphExecDestroy(struct graph *executable) { CALLED; free(executable); return 0; }

int cuGraphInstantiateWithFlags(struct graph **to, const struct graph *graph, unsigned long long flags)
{
    CALLED;
    if (flags) return INVALID_VALUE;
    *to = malloc(sizeof *graph);
    assign(*to, graph);
    return 0;
}

struct update { int result; const void *node, *from; };

int cuGraphExecUpdate_v2(struct graph *executable, const struct graph *graph, struct update *update)
{
    CALLED;
    *update = (struct update){ 2, 0, 0 };
    if (executable->count != graph->count) return UPDATE_FAILURE;
    update->result = 3;
    for (int i = 0; i < graph->count; i++)
        if (executable->nodes[i].kind != graph->nodes[i].kind) { update->node = &graph->nodes[i]; return UPDATE_FAILURE; }
    assign(executable, graph);
    update->result = 0;
    return 0;
}

int cuGraphLaunch(const struct graph *executable, struct stream *stream)
{
    CALLED;
    if (stream->captured) return CAPTURE_UNSUPPORTED;
    for (int i = 0; i < executable->count; i++) execute(&executable->nodes[i]);
    return 0;
}

#endif
