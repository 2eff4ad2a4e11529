/* A function of PTX in its compact form, made by ptx_parse.c and ptx_decode.c, run by ptx_run.c. An
 * item has one array of slots: registers, then what PTX's special registers hold, parameters and
 * constants. So every operand is a slot. */

#ifndef STUB_PTX_CODE_H
#define STUB_PTX_CODE_H

#include <setjmp.h>
#include <stdint.h>

#include "ptx.h"

typedef uint8_t u8, b8; typedef uint16_t u16, b16; typedef uint32_t u32, b32; typedef uint64_t u64,
    b64;
typedef int8_t s8; typedef int16_t s16; typedef int32_t s32; typedef int64_t s64;

enum space { GENERIC, GLOBAL, SHARED, LOCAL, CONSTANT, PARAMETER };

/* Where the addresses of a space begin. Global ones are the device's and the host's. */
#define BASE(space) ((u64)(space) << 40)

/* Operations: those of the table, and those that need more than operands. */
enum operation {
    OP_NONE,
#define OPERATION(id, ...) OP_##id,
#include "ptx_operations.h"
#undef OPERATION
    OP_LOAD, OP_LOAD_GLOBAL, OP_LOAD_SHARED, OP_STORE, OP_STORE_GLOBAL, OP_STORE_SHARED, OP_ATOMIC,
    OP_BRANCH, OP_BRANCH_IF, OP_BRANCH_UNLESS, OP_SKIP_IF, OP_SKIP_UNLESS, OP_BARRIER, OP_RETURN
};

enum atomic { ATOMIC_ADD, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_MIN, ATOMIC_MAX,
    ATOMIC_EXCHANGE, ATOMIC_COMPARE };

/* `d` is the result's slot; of a vector, where its slots stand in `lists`. A load or store has its
 * address in `a` plus `b`, a stored or added value in `c`; a branch its target in `d` and its
 * predicate in `a`. */
struct instruction {
    u16 op;
    u8 bytes, count, is_signed, space, atomic;
    u32 line, d, a, b, c, e;
};

/* A variable of shared, local or constant memory. Gaps follow it, so that each access out of bounds
 * is seen. */
struct variable { char name[128]; enum space space; int is_dynamic; u64 at, bytes; };

struct range { char name[32], class; u32 first, count; int is_one; };
struct parameter { char name[128]; u32 bytes, slot; };
struct label { char name[64]; u32 at; };
struct constant { u64 value; int is_dynamic; };

#define LIST(type) struct { type *items; u32 count, room; }
/* A new item of a list, all zeroes. */
#define APPEND(list) ((list).count == (list).room \
    ? (void)((list).items = grown((list).items, &(list).room, sizeof *(list).items)) : (void)0, \
    &(list).items[(list).count++])
void *grown(void *items, unsigned *room, size_t bytes);

/* SINK takes results that are not wanted. */
enum special { ITEM, ITEMS, GROUP, GROUPS, SINK, SPECIALS };

struct ptx_function {
    struct ptx_module *module;
    char name[128];
    LIST(struct parameter) parameters;
    LIST(struct range) ranges;
    LIST(struct variable) variables;
    LIST(struct instruction) code;
    LIST(struct constant) constants;
    LIST(u32) lists;
    LIST(struct label) labels, jumps;
    /* Slots: registers, specials, parameters, constants. */
    u32 registers, parameters_at, constants_at, items_max;
    u64 shared_bytes, local_bytes, dynamic_at;
};

struct ptx_module {
    char *text;
    /* Where each line begins. */
    LIST(const char *) lines;
    LIST(struct variable) variables;
    LIST(struct ptx_function *) functions;
    u8 *constant_bytes, *constant_states;
    u64 constant_len;
};

/* A text being read. Whatever is wrong ends it through `failed`. */
struct reader { const char *at; u32 line; struct ptx_module *module; char *why; size_t why_bytes;
    jmp_buf failed; };
_Noreturn void ptx_fail(struct reader *reader, const char *format, ...);

/* ptx_decode.c: adds the instruction of one statement, without its semicolon, to the function's
 * code. */
void ptx_decode(struct reader *reader, struct ptx_function *function, char *statement);
/* Gives branches their places, and checks the registers. */
void ptx_finish(struct reader *reader, struct ptx_function *function);
/* Calls `see` for the slots that an instruction reads, then for those that it writes. */
void ptx_operands(const struct ptx_function *function, const struct instruction *own,
    void (*see)(void *to, u32 slot, int is_written), void *to);
/* ptx_registers.c: wants every register that is read to be written on some way there. */
void ptx_check_registers(struct reader *reader, struct ptx_function *function);

#endif
