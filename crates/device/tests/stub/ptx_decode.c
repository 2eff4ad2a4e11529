/* Makes instructions of statements. See ptx_code.h. */

#include "ptx_code.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS_MAX = 6 };

/* A statement in parts: guard, opcode, operands. */
struct statement { char *guard, *opcode, *operands[OPERANDS_MAX]; int count; };

struct row { const char *name, *form; char own; };
static const struct row ROWS[] = {
    { "", "", 0 },
#define OPERATION(id, name, own, form, ...) { name, form, own },
#include "ptx_operations.h"
#undef OPERATION
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static int row_of(const char *name)
{
    for (int i = 1; i < ROW_COUNT; i++)
        if (!strcmp(ROWS[i].name, name)) return i;
    return 0;
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
        *--end = 0;
    return text;
}

/* Operands are parted by commas outside of brackets. */
static int part(char *text, char **parts, int most)
{
    int count = 0, depth = 0;
    if (!*(text = trimmed(text))) return 0;
    for (char *at = text, *first = text;; at++) {
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        if (*at && (*at != ',' || depth)) continue;
        int is_last = !*at;
        *at = 0;
        if (count == most) return most + 1;
        parts[count++] = trimmed(first);
        if (is_last) return depth ? most + 1 : count;
        first = at + 1;
    }
}

static void take_apart(struct reader *reader, char *text, struct statement *to)
{
    *to = (struct statement){ 0 };
    text = trimmed(text);
    if (*text == '@') {
        to->guard = ++text;
        text += strcspn(text, " \t");
        if (*text) *text++ = 0;
    }
    to->opcode = text = trimmed(text);
    text += strcspn(text, " \t");
    if (*text) *text++ = 0;
    to->count = part(text, to->operands, OPERANDS_MAX);
    if (to->count > OPERANDS_MAX) ptx_fail(reader, "operands of %s", to->opcode);
}

static int width(char class) { return class == 'h' ? 2 : class == 'w' ? 4 : class == 'd' ? 8 : 0; }

/* The slot of a register, whose class has to be `class`: * for any number, + for one of at least
 * `bytes`. */
static u32 register_slot(struct reader *reader, const struct ptx_function *function,
    const char *name, char class, int bytes)
{
    for (u32 i = 0; i < function->ranges.count; i++) {
        const struct range *own = &function->ranges.items[i];
        size_t length = strlen(own->name);
        if (strncmp(own->name, name, length)) continue;
        char *end = (char *)name + length;
        unsigned long index = own->is_one ? 0 : strtoul(name + length, &end, 10);
        if (*end || !own->is_one && !isdigit((unsigned char)name[length]) || index >= own->count)
            continue;
        int is_fine = class == '*' || class == '+' ? width(own->class) >= (class == '+' ? bytes : 1)
            : own->class == class;
        if (!is_fine) ptx_fail(reader, "the type of %s", name);
        return own->first + index;
    }
    ptx_fail(reader, "unknown operand %s", name);
}

static u32 constant_slot(struct ptx_function *function, u64 value, int is_dynamic)
{
    *APPEND(function->constants) = (struct constant){ value, is_dynamic };
    return function->constants_at + function->constants.count - 1;
}

static u64 number_of(struct reader *reader, const char *text)
{
    char *end;
    u64 value = *text == '-' ? -strtoull(text + 1, &end, 0) : strtoull(text, &end, 0);
    if (*end == 'U') end++;
    if (*end || !isdigit((unsigned char)text[*text == '-']))
        ptx_fail(reader, "unknown operand %s", text);
    return value;
}

static const struct variable *variable_of(const struct ptx_function *function, const char *name)
{
    for (u32 i = 0; i < function->variables.count; i++)
        if (!strcmp(function->variables.items[i].name, name)) return &function->variables.items[i];
    for (u32 i = 0; i < function->module->variables.count; i++)
        if (!strcmp(function->module->variables.items[i].name, name))
            return &function->module->variables.items[i];
    return 0;
}

static u32 source(struct reader *reader, struct ptx_function *function, const char *text,
    char class)
{
    static const char *const SPECIAL[] = { "%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x" };
    for (int i = 0; class == 'w' && i < SINK; i++)
        if (!strcmp(text, SPECIAL[i])) return function->registers + i;
    if (*text == '%') return register_slot(reader, function, text, class, 0);
    const struct variable *variable = class == 'd' ? variable_of(function, text) : 0;
    if (variable) return constant_slot(function, BASE(variable->space) + variable->at,
        variable->is_dynamic);
    return constant_slot(function, number_of(reader, text), 0);
}

static struct instruction *add(struct reader *reader, struct ptx_function *function, int operation)
{
    struct instruction *own = APPEND(function->code);
    own->op = operation;
    own->line = reader->line;
    return own;
}

/* An instruction of the table. */
static void add_row(struct reader *reader, struct ptx_function *function, int row,
    const struct statement *from)
{
    const char *form = ROWS[row].form;
    u32 slots[OPERANDS_MAX] = { 0 };
    if ((size_t)from->count != strlen(form))
        ptx_fail(reader, "%d operands of %s", from->count, from->opcode);
    for (int i = 0; i < from->count; i++) {
        char class = form[i] == '=' ? ROWS[row].own : form[i];
        slots[i] = i ? source(reader, function, from->operands[i], class)
            : register_slot(reader, function, from->operands[i], class, 0);
    }
    struct instruction *own = add(reader, function, row);
    own->d = slots[0], own->a = slots[1], own->b = slots[2], own->c = slots[3], own->e = slots[4];
}

/* mov between a register and two of half its width: {low, high}. */
static void add_halves(struct reader *reader, struct ptx_function *function,
    const struct statement *from)
{
    int is_64 = !strcmp(from->opcode, "mov.b64"), is_pack = *from->operands[1] == '{';
    char *halves[2], *both = from->operands[!is_pack], *braced = from->operands[is_pack];
    size_t length = strlen(braced);
    char half = is_64 ? 'w' : 'h', whole = is_64 ? 'd' : 'w';
    if (*braced != '{' || braced[length - 1] != '}')
        ptx_fail(reader, "operands of %s", from->opcode);
    braced[length - 1] = 0;
    if (part(braced + 1, halves, 2) != 2) ptx_fail(reader, "operands of %s", from->opcode);
    u32 slots[3] = { is_pack ? register_slot(reader, function, both, whole, 0)
        : source(reader, function, both, whole) };
    for (int i = 0; i < 2; i++) {
        int is_sink = !is_pack && !strcmp(halves[i], "_");
        slots[i + 1] = is_sink ? function->registers + SINK : is_pack
            ? source(reader, function, halves[i], half)
            : register_slot(reader, function, halves[i], half, 0);
    }
    struct instruction *own = add(reader, function, is_pack ? is_64 ? OP_PACK_64 : OP_PACK_32
        : is_64 ? OP_UNPACK_64 : OP_UNPACK_32);
    if (is_pack) own->d = slots[0], own->a = slots[1], own->b = slots[2];
    else own->d = slots[1], own->a = slots[2], own->b = slots[0];
}

/* The modifiers of an access to memory. */
struct access { enum space space; int bytes, count, is_signed, atomic; };

static int index_of(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i])) return i;
    return -1;
}

#define INDEX_OF(word, words) index_of(word, words, sizeof words / sizeof *words)

static struct access access_of(struct reader *reader, const char *opcode)
{
    static const char *const SPACES[] = { "?", "global", "shared", "local", "const", "param" };
    static const char *const HINTS[] = { "nc", "volatile", "weak", "relaxed", "gpu", "cta", "sys",
        "ca", "cg", "cs", "lu", "cv", "wb", "wt" };
    static const char *const TYPES[] = { "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32",
        "b64", "u64", "s64" };
    static const char *const ATOMICS[] = { "add", "and", "or", "xor", "min", "max", "exch", "cas" };
    struct access to = { GENERIC, 0, 1, 0, -1 };
    int is_atomic = !strncmp(opcode, "atom.", 5) || !strncmp(opcode, "red.", 4);
    char text[128], *rest = text, *word;
    if (strlen(opcode) >= sizeof text) ptx_fail(reader, "unknown instruction %s", opcode);
    strcpy(text, opcode);
    strsep(&rest, ".");
    while ((word = strsep(&rest, "."))) {
        int space = INDEX_OF(word, SPACES), type = INDEX_OF(word, TYPES), atomic = is_atomic
            ? INDEX_OF(word, ATOMICS) : -1;
        if (space > 0 && !to.space) to.space = space;
        else if (type >= 0 && !to.bytes) to.bytes = 1 << type / 3, to.is_signed = type % 3 == 2;
        else if (atomic >= 0 && to.atomic < 0) to.atomic = atomic;
        else if (!is_atomic && to.count == 1 && (!strcmp(word, "v2") || !strcmp(word, "v4")))
            to.count = word[1] - '0';
        else if (INDEX_OF(word, HINTS) < 0) ptx_fail(reader, "unknown instruction %s", opcode);
    }
    if (!to.bytes || is_atomic && (to.atomic < 0 || to.bytes < 4) || to.bytes * to.count > 16)
        ptx_fail(reader, "unknown instruction %s", opcode);
    return to;
}

/* [BASE], [BASE+OFFSET] */
static void place(struct reader *reader, struct ptx_function *function, char *text, u32 *base,
    u32 *offset)
{
    size_t length = strlen(text);
    if (*text != '[' || text[length - 1] != ']')
        ptx_fail(reader, "'%s' where an address was expected", text);
    text[length - 1] = 0;
    char *plus = strchr(++text, '+');
    if (plus) *plus++ = 0;
    *base = source(reader, function, text, 'd');
    *offset = constant_slot(function, plus ? number_of(reader, plus) : 0, 0);
}

/* The slot of a value to load or store, or where those of a vector are listed. */
static u32 values(struct reader *reader, struct ptx_function *function, char *text,
    const struct access *access, int is_load)
{
    char *parts[4] = { text };
    u32 slots[4];
    size_t length = strlen(text);
    if (access->count > 1) {
        if (*text != '{' || text[length - 1] != '}')
            ptx_fail(reader, "'%s' where a vector was expected", text);
        text[length - 1] = 0;
        if (part(text + 1, parts, 4) != access->count) ptx_fail(reader, "the length of a vector");
    }
    for (int i = 0; i < access->count; i++)
        slots[i] = is_load || *parts[i] == '%' ? register_slot(reader, function, parts[i], '+',
            access->bytes)
            : constant_slot(function, number_of(reader, parts[i]), 0);
    if (access->count == 1) return slots[0];
    u32 first = function->lists.count;
    for (int i = 0; i < access->count; i++) *APPEND(function->lists) = slots[i];
    return first;
}

static struct instruction *add_access(struct reader *reader, struct ptx_function *function,
    int operation, const struct access *access)
{
    struct instruction *own = add(reader, function, operation);
    own->bytes = access->bytes, own->count = access->count, own->is_signed = access->is_signed;
    own->space = access->space, own->atomic = access->atomic;
    return own;
}

static void add_parameter(struct reader *reader, struct ptx_function *function,
    const struct statement *from, const struct access *access)
{
    char name[128];
    size_t length = strlen(from->operands[1]);
    if (length < 3 || length >= sizeof name || access->count != 1)
        ptx_fail(reader, "operands of %s", from->opcode);
    memcpy(name, from->operands[1] + 1, length - 2);
    name[length - 2] = 0;
    for (u32 i = 0; i < function->parameters.count; i++) {
        const struct parameter *own = &function->parameters.items[i];
        if (strcmp(own->name, name) || own->bytes != (u32)access->bytes) continue;
        u32 slot = register_slot(reader, function, from->operands[0], access->bytes == 8 ? 'd'
            : 'w', 0);
        struct instruction *move = add(reader, function, access->bytes == 8 ? OP_MOV_u64
            : OP_MOV_u32);
        move->d = slot;
        move->a = function->parameters_at + own->slot;
        return;
    }
    ptx_fail(reader, "no parameter %s of %d bytes", name, access->bytes);
}

static void add_load(struct reader *reader, struct ptx_function *function,
    const struct statement *from)
{
    struct access access = access_of(reader, from->opcode);
    u32 base, offset;
    if (from->count != 2) ptx_fail(reader, "operands of %s", from->opcode);
    if (access.space == PARAMETER) { add_parameter(reader, function, from, &access); return; }
    u32 to = values(reader, function, from->operands[0], &access, 1);
    place(reader, function, from->operands[1], &base, &offset);
    int operation = access.space == GLOBAL ? OP_LOAD_GLOBAL : access.space == SHARED
        ? OP_LOAD_SHARED : OP_LOAD;
    struct instruction *own = add_access(reader, function, operation, &access);
    own->d = to, own->a = base, own->b = offset;
}

static void add_store(struct reader *reader, struct ptx_function *function,
    const struct statement *from)
{
    struct access access = access_of(reader, from->opcode);
    u32 base, offset;
    if (from->count != 2 || access.space == CONSTANT || access.space == PARAMETER)
        ptx_fail(reader, "operands of %s", from->opcode);
    place(reader, function, from->operands[0], &base, &offset);
    u32 of = values(reader, function, from->operands[1], &access, 0);
    int operation = access.space == GLOBAL ? OP_STORE_GLOBAL : access.space == SHARED
        ? OP_STORE_SHARED : OP_STORE;
    struct instruction *own = add_access(reader, function, operation, &access);
    own->c = of, own->a = base, own->b = offset;
}

static void add_atomic(struct reader *reader, struct ptx_function *function,
    const struct statement *from, int has_result)
{
    struct access access = access_of(reader, from->opcode);
    char class = access.bytes == 8 ? 'd' : 'w';
    u32 base, offset, first = has_result ? 1 : 0, is_compare = access.atomic == ATOMIC_COMPARE;
    if ((u32)from->count != first + 2 + is_compare || access.space > SHARED)
        ptx_fail(reader, "operands of %s", from->opcode);
    u32 to = has_result ? register_slot(reader, function, from->operands[0], class, 0)
        : function->registers + SINK;
    place(reader, function, from->operands[first], &base, &offset);
    u32 of = source(reader, function, from->operands[first + 1], class);
    u32 other = is_compare ? source(reader, function, from->operands[first + 2], class) : of;
    struct instruction *own = add_access(reader, function, OP_ATOMIC, &access);
    own->d = to, own->a = base, own->b = offset, own->c = of, own->e = other;
}

static void add_branch(struct reader *reader, struct ptx_function *function,
    const struct statement *from, u32 predicate, int is_not)
{
    struct label *jump = APPEND(function->jumps);
    if (from->count != 1 || strlen(from->operands[0]) >= sizeof jump->name)
        ptx_fail(reader, "operands of %s", from->opcode);
    strcpy(jump->name, from->operands[0]);
    jump->at = function->code.count;
    struct instruction *own = add(reader, function, !from->guard ? OP_BRANCH : is_not
        ? OP_BRANCH_UNLESS : OP_BRANCH_IF);
    own->a = predicate;
}

static void add_bare(struct reader *reader, struct ptx_function *function,
    const struct statement *from)
{
    static const char *const BARRIERS[] = { "bar.sync", "barrier.sync", "barrier.sync.aligned" };
    const char *name = from->opcode;
    int is_barrier = INDEX_OF(name, BARRIERS) >= 0, is_end = !strcmp(name, "ret")
        || !strcmp(name, "exit");
    if (!is_barrier && !is_end) ptx_fail(reader, "unknown instruction %s", name);
    if (from->count != is_barrier || is_barrier && strcmp(from->operands[0], "0"))
        ptx_fail(reader, "operands of %s", name);
    add(reader, function, is_barrier ? OP_BARRIER : OP_RETURN);
}

static int begins(const char *text, const char *first)
{
    return !strncmp(text, first, strlen(first));
}

void ptx_decode(struct reader *reader, struct ptx_function *function, char *text)
{
    struct statement from;
    take_apart(reader, text, &from);
    int is_not = from.guard && *from.guard == '!', row = row_of(from.opcode),
        is_branch = !strcmp(from.opcode, "bra") || !strcmp(from.opcode, "bra.uni");
    u32 predicate = from.guard ? register_slot(reader, function, from.guard + is_not, 'p', 0) : 0;
    if (is_branch) { add_branch(reader, function, &from, predicate, is_not); return; }
    if (from.guard) add(reader, function, is_not ? OP_SKIP_IF : OP_SKIP_UNLESS)->a = predicate;
    int is_halves = begins(from.opcode, "mov.b") && from.count == 2
        && (*from.operands[0] == '{' || *from.operands[1] == '{');
    if (is_halves) add_halves(reader, function, &from);
    else if (row) add_row(reader, function, row, &from);
    else if (begins(from.opcode, "ld.")) add_load(reader, function, &from);
    else if (begins(from.opcode, "st.")) add_store(reader, function, &from);
    else if (begins(from.opcode, "atom.")) add_atomic(reader, function, &from, 1);
    else if (begins(from.opcode, "red.")) add_atomic(reader, function, &from, 0);
    else add_bare(reader, function, &from);
}

void ptx_finish(struct reader *reader, struct ptx_function *function)
{
    add(reader, function, OP_RETURN);
    for (u32 i = 0; i < function->jumps.count; i++) {
        const struct label *jump = &function->jumps.items[i], *label = function->labels.items;
        const struct label *end = label + function->labels.count;
        struct instruction *own = &function->code.items[jump->at];
        while (label < end && strcmp(label->name, jump->name)) label++;
        reader->line = own->line;
        if (label == end) ptx_fail(reader, "no label %s", jump->name);
        own->d = label->at;
    }
    function->dynamic_at = (function->shared_bytes + 127) / 128 * 128;
    for (u32 i = 0; i < function->constants.count; i++)
        if (function->constants.items[i].is_dynamic)
            function->constants.items[i].value += function->dynamic_at;
    ptx_check_registers(reader, function);
}

static void operands_of_row(const struct instruction *own, void (*see)(void *, u32, int), void *to)
{
    const u32 slots[] = { own->d, own->a, own->b, own->c, own->e };
    int is_unpack = own->op == OP_UNPACK_32 || own->op == OP_UNPACK_64,
        count = strlen(ROWS[own->op].form);
    for (int i = 1 + is_unpack; i < count; i++) see(to, slots[i], 0);
    for (int i = 0; i < 1 + is_unpack && count; i++) see(to, slots[i], 1);
}

void ptx_operands(const struct ptx_function *function, const struct instruction *own,
    void (*see)(void *, u32, int), void *to)
{
    int is_load = own->op >= OP_LOAD && own->op <= OP_LOAD_SHARED, is_store = own->op >= OP_STORE
        && own->op <= OP_STORE_SHARED;
    int is_guarded = own->op >= OP_BRANCH_IF && own->op <= OP_SKIP_UNLESS;
    if (own->op < OP_LOAD) { operands_of_row(own, see, to); return; }
    if (is_guarded || is_load || is_store || own->op == OP_ATOMIC) see(to, own->a, 0);
    if (own->op == OP_ATOMIC) see(to, own->c, 0), see(to, own->e, 0), see(to, own->d, 1);
    for (u32 i = 0; (is_load || is_store) && i < own->count; i++) {
        u32 first = is_load ? own->d : own->c;
        see(to, own->count == 1 ? first : function->lists.items[first + i], is_load);
    }
}
