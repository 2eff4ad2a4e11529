/* Runs functions. See ptx.h: the items of a group run one after another, each up to the next
 * barrier. */

#include "memory.h"
#include "ptx_code.h"
#include "ptx_races.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Branches that an item may take between barriers if the grid names no limit. */
enum { BRANCHES_MAX = 1 << 24 };

struct item { u64 *slots; const struct instruction *at; u8 *local, *local_states; int is_over; };

struct launch {
    const struct ptx_function *function;
    u32 groups, items, group, stretch, branches_max;
    u8 *device_bytes, *device_states, *shared, *shared_states;
    address device_first;
    u64 shared_len;
    /* Of the group's shared memory, and of memory that all groups share. */
    struct marks *shared_marks;
    struct races races;
    struct item *all;
    struct ptx_journal *journal;
    char *why;
    size_t why_bytes;
};

static u32 funnel_left(u32 low, u32 high, u32 by) { return (((u64)high << 32 | low) << by) >> 32; }
static u32 funnel_right(u32 low, u32 high, u32 by) { return ((u64)high << 32 | low) >> by; }

static u32 permute(u32 a, u32 b, u32 selector)
{
    u64 from = (u64)b << 32 | a;
    u32 result = 0;
    for (int i = 0; i < 4; i++, selector >>= 4) {
        u8 byte = from >> 8 * (selector & 7);
        if (selector & 8) byte = byte & 128 ? 255 : 0;
        result |= (u32)byte << 8 * i;
    }
    return result;
}

static u32 look_up(u32 a, u32 b, u32 c, u32 table)
{
    u32 result = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

/* Bits from `first` on; what lies past the number's end is its sign, or 0. */
static u64 extract(u64 from, u32 bits, u32 first, u32 count, int is_signed)
{
    first &= 255, count &= 255;
    u32 last = first + count - 1 < bits - 1 ? first + count - 1 : bits - 1;
    u64 sign = is_signed && count ? from >> last & 1 : 0;
    u64 result = 0;
    for (u32 i = 0; i < bits; i++)
        result |= (u64)(i < count && first + i < bits ? from >> (first + i) & 1 : sign) << i;
    return result;
}

static u64 insert(u64 from, u64 into, u32 bits, u32 first, u32 count)
{
    first &= 255, count &= 255;
    if (first >= bits) return into;
    if (count > bits - first) count = bits - first;
    u64 mask = count == 64 ? ~(u64)0 : ((u64)1 << count) - 1;
    return (into & ~(mask << first)) | (from & mask) << first;
}

static u64 reverse(u64 from)
{
    u64 result = 0;
    for (int i = 0; i < 64; i++) result |= (from >> i & 1) << (63 - i);
    return result;
}

static u64 get(const u8 *from, u32 bytes, int is_signed)
{
    switch (bytes) {
    case 1: { u8 own = *from; return is_signed ? (u64)(s8)own : own; }
    case 2: { u16 own; memcpy(&own, from, 2); return is_signed ? (u64)(s16)own : own; }
    case 4: { u32 own; memcpy(&own, from, 4); return is_signed ? (u64)(s32)own : own; }
    default: { u64 own; memcpy(&own, from, 8); return own; }
    }
}

static void put(u8 *to, u32 bytes, u64 value) { memcpy(to, &value, bytes); }

static const char *const WHY[] = {
    "fine", "refused", "out of bounds", "misaligned", "reads what was never written",
    "races with another item",
    "waits at a barrier where another item does not", "does not end", "divides by zero", "traps"
};

static enum ptx_outcome fail(struct launch *launch, const struct item *item,
    const struct instruction *own, enum ptx_outcome outcome, u64 at)
{
    const char *text = launch->function->module->lines.items[own->line - 1];
    int length = strcspn(text, "\n");
    text += strspn(text, " \t");
    length -= text - launch->function->module->lines.items[own->line - 1];
    snprintf(launch->why, launch->why_bytes,
        "%s, line %u, group %u, item %ld: %.*s: %s (address %#llx)", launch->function->name,
        own->line, launch->group, (long)(item - launch->all), length, text, WHY[outcome],
        (unsigned long long)at);
    return outcome;
}

/* Bytes in some memory with their states; null where there are none. */
struct bytes { u8 *at, *states; };

static struct bytes window(u64 offset, u32 bytes, u8 *at, u8 *states, u64 length)
{
    int is_inside = offset < length && bytes <= length - offset;
    return is_inside ? (struct bytes){ at + offset, states + offset } : (struct bytes){ 0, 0 };
}

static enum space own_space(u64 at)
{
    return at >> 40 >= SHARED && at >> 40 <= CONSTANT ? (enum space)(at >> 40) : GLOBAL;
}

static struct bytes reach(struct launch *launch, struct item *item, enum space space, u64 at,
    u32 bytes)
{
    static u8 written[16] = { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 };
    const struct ptx_function *function = launch->function;
    enum space own = own_space(at);
    if (space != GENERIC && space != own) return (struct bytes){ 0, 0 };
    u64 offset = at - BASE(own);
    if (own == SHARED) return window(offset, bytes, launch->shared, launch->shared_states,
        launch->shared_len);
    if (own == LOCAL) return window(offset, bytes, item->local, item->local_states,
        function->local_bytes);
    if (own == CONSTANT) return window(offset, bytes, function->module->constant_bytes,
        function->module->constant_states, function->module->constant_len);
    offset = at - launch->device_first;
    if (offset < (u64)1 << MEMORY_BITS)
        return (struct bytes){ launch->device_bytes + offset, launch->device_states + offset };
    return memory_is_mapped(at, bytes) ? (struct bytes){ (u8 *)at, written }
        : (struct bytes){ 0, 0 };
}

/* Whether an access to shared or global memory races with one of another item. */
static int races(struct launch *launch, u32 item, u64 at, u32 bytes, enum touch kind)
{
    enum space space = own_space(at);
    if (space != SHARED && space != GLOBAL) return 0;
    struct marks *marks = space == SHARED ? launch->shared_marks + (at - BASE(SHARED))
        : races_at(&launch->races, at);
    struct toucher own = { launch->group, launch->stretch, item };
    return races_touch(marks, bytes, own, kind);
}

static void note(struct ptx_journal *journal, const struct bytes *of, u32 length)
{
    struct ptx_store *own = APPEND(*journal);
    own->at = of->at, own->states = of->states, own->length = length;
    memcpy(own->before, of->at, length);
    memcpy(own->states_before, of->states, length);
}

/* Checks an access, and says where its bytes are. */
static enum ptx_outcome access(struct launch *launch, struct item *item,
    const struct instruction *own, u64 at, enum touch kind, u8 **to)
{
    int is_read = kind != WRITES, is_write = kind != READS;
    u32 length = own->bytes * own->count;
    if (at % length) return fail(launch, item, own, PTX_MISALIGNED, at);
    struct bytes found = reach(launch, item, own->space, at, length);
    if (!found.at || memchr(found.states, UNALLOCATED, length))
        return fail(launch, item, own, PTX_OUT_OF_BOUNDS, at);
    if (is_read && memchr(found.states, UNWRITTEN, length))
        return fail(launch, item, own, PTX_UNWRITTEN, at);
    if (is_write && launch->journal && own_space(at) == GLOBAL)
        note(launch->journal, &found, length);
    if (is_write) memset(found.states, WRITTEN, length);
    if (races(launch, item - launch->all, at, length, kind))
        return fail(launch, item, own, PTX_RACE, at);
    *to = found.at;
    return PTX_FINE;
}

static enum ptx_outcome load(struct launch *launch, struct item *item,
    const struct instruction *own)
{
    u64 *r = item->slots, at = r[own->a] + r[own->b];
    u8 *from;
    enum ptx_outcome outcome = access(launch, item, own, at, READS, &from);
    if (outcome) return outcome;
    if (own->count == 1) { r[own->d] = get(from, own->bytes, own->is_signed); return PTX_FINE; }
    const u32 *slots = launch->function->lists.items + own->d;
    for (u32 i = 0; i < own->count; i++)
        r[slots[i]] = get(from + i * own->bytes, own->bytes, own->is_signed);
    return PTX_FINE;
}

static enum ptx_outcome store(struct launch *launch, struct item *item,
    const struct instruction *own)
{
    u64 *r = item->slots, at = r[own->a] + r[own->b];
    u8 *to;
    enum ptx_outcome outcome = access(launch, item, own, at, WRITES, &to);
    if (outcome) return outcome;
    if (own->count == 1) { put(to, own->bytes, r[own->c]); return PTX_FINE; }
    const u32 *slots = launch->function->lists.items + own->c;
    for (u32 i = 0; i < own->count; i++) put(to + i * own->bytes, own->bytes, r[slots[i]]);
    return PTX_FINE;
}

static u64 combined(const struct instruction *own, u64 before, u64 value, u64 other)
{
    int is_less = own->is_signed ? own->bytes == 8 ? (s64)before < (s64)value
        : (s32)before < (s32)value
        : own->bytes == 8 ? before < value : (u32)before < (u32)value;
    switch (own->atomic) {
    case ATOMIC_ADD: return before + value;
    case ATOMIC_AND: return before & value;
    case ATOMIC_OR: return before | value;
    case ATOMIC_XOR: return before ^ value;
    case ATOMIC_MIN: return is_less ? before : value;
    case ATOMIC_MAX: return is_less ? value : before;
    case ATOMIC_EXCHANGE: return value;
    default: return own->bytes == 8 ? before == value ? other : before : (u32)before == (u32)value
        ? other : before;
    }
}

/* Streams run launches at once, so what an item changes alone is changed by the host's atomics. */
static enum ptx_outcome change(struct launch *launch, struct item *item,
    const struct instruction *own)
{
    u64 *r = item->slots, at = r[own->a] + r[own->b];
    u8 *place;
    enum ptx_outcome outcome = access(launch, item, own, at, CHANGES, &place);
    if (outcome) return outcome;
    for (;;) {
        u64 before = own->bytes == 8 ? __atomic_load_n((u64 *)place, __ATOMIC_SEQ_CST)
            : __atomic_load_n((u32 *)place, __ATOMIC_SEQ_CST);
        u64 after = combined(own, before, r[own->c], r[own->e]);
        u32 before_32 = before;
        int is_done = own->bytes == 8
            ? __atomic_compare_exchange_n((u64 *)place, &before, after, 0, __ATOMIC_SEQ_CST,
                __ATOMIC_SEQ_CST)
            : __atomic_compare_exchange_n((u32 *)place, &before_32, (u32)after, 0, __ATOMIC_SEQ_CST,
                __ATOMIC_SEQ_CST);
        if (!is_done) continue;
        r[own->d] = before;
        return PTX_FINE;
    }
}

/* Up to the next barrier or the end, which it stands after then. */
static enum ptx_outcome run_item(struct launch *launch, struct item *item)
{
    const struct instruction *code = launch->function->code.items, *i = item->at;
    u64 *r = item->slots;
    u32 branches = 0;
    enum ptx_outcome outcome;
#define A r[i->a]
#define B r[i->b]
#define C r[i->c]
#define E r[i->e]
#define PUT(value) r[i->d] = (u64)(value)
#define FAIL(outcome) return fail(launch, item, i, outcome, 0)
#define TRY(done) if ((outcome = done)) return outcome
#define JUMP { if (branches++ == launch->branches_max) FAIL(PTX_ENDLESS); TO(i->d); }
#define TO(place) i = code + (place); goto next
    for (;; i++) {
    next:
        switch (i->op) {
#define OPERATION(id, name, own, form, ...) case OP_##id: { __VA_ARGS__; } break;
#include "ptx_operations.h"
#undef OPERATION
        case OP_LOAD: case OP_LOAD_GLOBAL: case OP_LOAD_SHARED: TRY(load(launch, item, i)); break;
        case OP_STORE: case OP_STORE_GLOBAL: case OP_STORE_SHARED:
            TRY(store(launch, item, i));
            break;
        case OP_ATOMIC: TRY(change(launch, item, i)); break;
        case OP_BRANCH: JUMP;
        case OP_BRANCH_IF: if (A & 1) JUMP; break;
        case OP_BRANCH_UNLESS: if (!(A & 1)) JUMP; break;
        case OP_SKIP_IF: if (A & 1) i++; break;
        case OP_SKIP_UNLESS: if (!(A & 1)) i++; break;
        case OP_BARRIER: item->at = i + 1; return PTX_FINE;
        case OP_RETURN: item->at = i; item->is_over = 1; return PTX_FINE;
        }
    }
}

static void forget(u8 *states, u64 count)
{
    for (u64 i = 0; i < count; i++) states[i] = states[i] ? UNWRITTEN : UNALLOCATED;
}

/* Registers hold nothing that means anything, and memory of the group is unwritten. */
static void begin_group(struct launch *launch)
{
    const struct ptx_function *function = launch->function;
    launch->stretch = 1;
    memset(launch->shared_marks, 0, launch->shared_len * sizeof *launch->shared_marks);
    forget(launch->shared_states, launch->shared_len);
    for (u32 k = 0; k < launch->items; k++) {
        struct item *item = &launch->all[k];
        memset(item->slots, 0xa5 ^ k ^ launch->group, function->registers * sizeof(u64));
        item->slots[function->registers + ITEM] = k;
        item->slots[function->registers + ITEMS] = launch->items;
        item->slots[function->registers + GROUP] = launch->group;
        item->slots[function->registers + GROUPS] = launch->groups;
        forget(item->local_states, function->local_bytes);
        item->at = function->code.items;
        item->is_over = 0;
    }
}

/* All items wait at the same barrier, or all are over. */
static enum ptx_outcome meet(struct launch *launch, int *is_over)
{
    const struct item *first = launch->all;
    for (u32 k = 1; k < launch->items; k++) {
        const struct item *item = &first[k];
        if (item->is_over == first->is_over && (item->is_over || item->at == first->at)) continue;
        const struct item *waiting = item->is_over ? first : item;
        return fail(launch, waiting, waiting->at - 1, PTX_DIVERGED, 0);
    }
    *is_over = first->is_over;
    return PTX_FINE;
}

static enum ptx_outcome run_group(struct launch *launch)
{
    enum ptx_outcome outcome;
    begin_group(launch);
    for (int is_over = 0; !is_over; launch->stretch++) {
        /* No order of items between barriers may matter. */
        int is_backward = (launch->group + launch->stretch) % 2;
        for (u32 k = 0; k < launch->items; k++)
            if ((outcome = run_item(launch, &launch->all[is_backward ? launch->items - 1 - k : k])))
                return outcome;
        if ((outcome = meet(launch, &is_over))) return outcome;
        if (launch->stretch == 1 << 20)
            return fail(launch, launch->all, launch->all->at - 1, PTX_ENDLESS, 0);
    }
    return PTX_FINE;
}

static void allow(const struct ptx_function *function, enum space space, u8 *states)
{
    for (u32 i = 0; i < function->variables.count; i++) {
        const struct variable *own = &function->variables.items[i];
        if (own->space == space) memset(states + own->at, UNWRITTEN, own->bytes);
    }
}

static void begin(struct launch *launch, const unsigned long long *values, u32 dynamic)
{
    const struct ptx_function *function = launch->function;
    u32 slots = function->constants_at + function->constants.count;
    launch->shared_len = function->dynamic_at + dynamic;
    launch->shared = calloc(launch->shared_len + 1, 2);
    launch->shared_states = launch->shared + launch->shared_len;
    launch->shared_marks = calloc(launch->shared_len + 1, sizeof *launch->shared_marks);
    allow(function, SHARED, launch->shared_states);
    memset(launch->shared_states + function->dynamic_at, UNWRITTEN, dynamic);
    launch->all = calloc(launch->items, sizeof *launch->all);
    for (u32 k = 0; k < launch->items; k++) {
        struct item *item = &launch->all[k];
        item->slots = malloc(slots * sizeof(u64));
        u64 *parameters = item->slots + function->parameters_at, *constants = item->slots
            + function->constants_at;
        for (u32 i = 0; i < function->parameters.count; i++) parameters[i] = values[i];
        for (u32 i = 0; i < function->constants.count; i++)
            constants[i] = function->constants.items[i].value;
        item->local = calloc(function->local_bytes + 1, 2);
        item->local_states = item->local + function->local_bytes;
        allow(function, LOCAL, item->local_states);
    }
}

static void end(struct launch *launch)
{
    for (u32 k = 0; k < launch->items; k++) free(launch->all[k].slots), free(launch->all[k].local);
    free(launch->all), free(launch->shared), free(launch->shared_marks);
    races_end(&launch->races);
}

enum ptx_outcome ptx_run(const struct ptx_function *function, const struct ptx_grid *grid,
    char *why, size_t why_bytes)
{
    struct launch launch = { .function = function, .groups = grid->groups, .items = grid->items,
        .why = why, .why_bytes = why_bytes, .journal = grid->journal };
    enum ptx_outcome outcome = PTX_FINE;
    if (!grid->items || grid->items > function->items_max || grid->items >= MANY_ITEMS) {
        snprintf(why, why_bytes, "%s: groups of %u items", function->name, grid->items);
        return PTX_REFUSED;
    }
    launch.branches_max = grid->branches_max ? grid->branches_max : BRANCHES_MAX;
    launch.device_first = memory_first();
    launch.device_bytes = memory_backing(launch.device_first);
    launch.device_states = memory_states(launch.device_first);
    begin(&launch, grid->values, grid->shared);
    for (launch.group = 0; launch.group < grid->groups && !outcome; launch.group++)
        outcome = run_group(&launch);
    end(&launch);
    return outcome;
}
