/* Finds reads of registers that no way to the read writes. A compiler makes no such reads. It does
 * make reads of registers that only some ways write. */

#include "ptx_code.h"

#include <stdlib.h>
#include <string.h>

/* For a place in the code that branches lead to or that follows one, a bit for each register that
 * some way there writes. */
struct ways { const struct ptx_function *function; u32 words; u64 **at; };

struct seen { u64 *written; const struct ptx_function *function; int is_unwritten; };

static void see(void *to, u32 slot, int is_written)
{
    struct seen *seen = to;
    u64 bit = (u64)1 << slot % 64;
    if (slot >= seen->function->registers) return;
    if (is_written) seen->written[slot / 64] |= bit;
    else seen->is_unwritten |= !(seen->written[slot / 64] & bit);
}

/* Another way leads to a place: whether more may be written there than was known. */
static int meet(struct ways *ways, u32 at, const u64 *written)
{
    int is_more = !ways->at[at];
    if (is_more) ways->at[at] = calloc(ways->words, sizeof(u64));
    for (u32 i = 0; i < ways->words; i++) {
        is_more |= (written[i] & ~ways->at[at][i]) != 0;
        ways->at[at][i] |= written[i];
    }
    return is_more;
}

static int is_branch(const struct instruction *own) { return own->op >= OP_BRANCH
    && own->op <= OP_BRANCH_UNLESS; }

/* From a place on to the next branch: whether what is known of another place changed. The line of a
 * bad read, or 0, is in `line`. */
static int follow(struct ways *ways, const u8 *leads, u32 at, u64 *written, u32 *line)
{
    const struct instruction *code = ways->function->code.items;
    struct seen seen = { written, ways->function, 0 };
    memcpy(written, ways->at[at], ways->words * sizeof(u64));
    for (u32 first = at;; at++) {
        if (at != first && leads[at]) return meet(ways, at, written);
        ptx_operands(ways->function, &code[at], see, &seen);
        if (seen.is_unwritten && !*line) *line = code[at].line;
        int is_guarded = at && (code[at - 1].op == OP_SKIP_IF || code[at - 1].op == OP_SKIP_UNLESS);
        if (code[at].op == OP_RETURN && !is_guarded) return 0;
        if (is_branch(&code[at])) {
            int is_changed = meet(ways, code[at].d, written);
            return (code[at].op != OP_BRANCH && meet(ways, at + 1, written)) | is_changed;
        }
    }
}

void ptx_check_registers(struct reader *reader, struct ptx_function *function)
{
    u32 count = function->code.count, words = function->registers / 64 + 1, line = 0;
    struct ways ways = { function, words, calloc(count + 1, sizeof(u64 *)) };
    u8 *leads = calloc(count + 1, 1);
    u64 *written = calloc(words, sizeof(u64));
    for (u32 i = 0; i < count; i++)
        if (is_branch(&function->code.items[i]))
            leads[function->code.items[i].d] = leads[i + 1] = 1;
    leads[0] = 1;
    meet(&ways, 0, written);
    for (int is_changed = 1; is_changed;) {
        is_changed = line = 0;
        for (u32 i = 0; i < count; i++)
            if (leads[i] && ways.at[i]) is_changed |= follow(&ways, leads, i, written, &line);
    }
    for (u32 i = 0; i <= count; i++) free(ways.at[i]);
    free(ways.at), free(leads), free(written);
    reader->line = line;
    if (line) ptx_fail(reader, "a register that nothing has written");
}
