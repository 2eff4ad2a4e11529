/* Damages a text of PTX in one instruction, as a test of tests. See ptx_calls.h. */

#include "ptx_calls.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opcodes that take the same operands, each beside one that does something else. Signed ones are
 * not beside unsigned ones: numbers that tell them apart are rare. */
static const char *const OTHERS[][2] = {
    { "add.s32", "sub.s32" }, { "sub.s32", "add.s32" }, { "add.s64", "sub.s64" },
    { "sub.s64", "add.s64" }, { "mul.lo.s32", "add.s32" },
    { "mad.lo.s32", "mad.hi.s32" }, { "and.b32", "or.b32" }, { "or.b32", "xor.b32" },
    { "xor.b32", "or.b32" },
    { "and.b16", "or.b16" }, { "and.b64", "or.b64" }, { "or.pred", "and.pred" },
    { "and.pred", "or.pred" }, { "not.b32", "mov.b32" },
    { "shl.b32", "shr.u32" }, { "shr.u32", "shl.b32" }, { "shl.b64", "shr.u64" },
    { "shr.u64", "shl.b64" },
    { "setp.eq.s32", "setp.ne.s32" }, { "setp.ne.s32", "setp.eq.s32" },
    { "setp.eq.s16", "setp.ne.s16" }, { "setp.ne.s16", "setp.eq.s16" },
    { "setp.lt.u32", "setp.le.u32" }, { "setp.gt.u32", "setp.ge.u32" },
    { "setp.ge.u32", "setp.gt.u32" }, { "setp.le.u32", "setp.lt.u32" },
    { "setp.gt.u32", "setp.lt.u32" }, { "setp.lt.u32", "setp.ge.u32" }, { "min.u32", "max.u32" },
    { "max.u32", "min.u32" },
    { "shf.l.wrap.b32", "shf.r.wrap.b32" },  { "ld.global.u32", "ld.global.u16" },
    { "ld.global.u16", "ld.global.u8" }, { "ld.shared.u32", "ld.shared.u16" },
    { "st.global.u32", "st.global.u16" },
    { "st.global.u16", "st.global.u8" }, { "st.shared.u32", "st.shared.u16" },
    { "popc.b32", "clz.b32" }, { "clz.b32", "popc.b32" },
};

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % below;
}

/* A line of a function's body, without its end. */
struct line { const char *at; int length; };

static int is_instruction(const char *at, int length)
{
    while (length && isspace((unsigned char)*at)) at++, length--;
    return length > 2 && at[length - 1] == ';' && (isalpha((unsigned char)*at) || *at == '@');
}

/* An instruction of the function, drawn. Barriers are rare, so every eighth is one if there is any
 * but the last. */
static struct line drawn(const char *text, const char *kernel, unsigned *random)
{
    char head[160];
    snprintf(head, sizeof head, ".entry %s(", kernel);
    const char *first = strstr(text, head);
    int wants_barrier = draw(random, 8) == 0, count[2] = { 0 };
    struct line of[2] = { { 0, 0 } };
    for (const char *at = first; at && *at != '}'; at = strchr(at, '\n'), at += at ? 1 : 0) {
        int length = strcspn(at, "\n"), is_barrier = memmem(at, length, "bar.sync", 8) != 0;
        if (is_barrier && !strncmp(at + length, "\n\tret;", 6)) continue;
        if (is_instruction(at, length) && draw(random, ++count[is_barrier]) == 0)
            of[is_barrier] = (struct line){ at, length };
    }
    return of[wants_barrier && of[1].at ? 1 : 0];
}

static int change_opcode(char *line, unsigned *random)
{
    int fitting[8], count = 0;
    char *at = line + strspn(line, " \t");
    if (*at == '@') at += strcspn(at, " \t"), at += strspn(at, " \t");
    size_t length = strcspn(at, " \t;");
    for (unsigned i = 0; i < sizeof OTHERS / sizeof *OTHERS && count < 8; i++)
        if (strlen(OTHERS[i][0]) == length && !strncmp(OTHERS[i][0], at, length))
            fitting[count++] = i;
    if (!count) return 0;
    char rest[256];
    strcpy(rest, at + length);
    sprintf(at, "%s%s", OTHERS[fitting[draw(random, count)]][1], rest);
    return 1;
}

/* Gives a register, or an immediate number, another number. */
static int change_number(char *line, unsigned *random, int is_register)
{
    char *fitting[8], rest[256];
    int count = 0;
    for (char *at = line; *at && count < 8; at++) {
        int starts = isdigit((unsigned char)*at) && !isalnum((unsigned char)at[-(at > line)]);
        int is_fitting = is_register ? at > line && isdigit((unsigned char)*at)
            && !isdigit((unsigned char)at[-1]) && strchr("rsdp", at[-1])
            && line + strcspn(line, "%") < at && !strstr(line, "_param_") : starts && at > line
                && strchr(" +-\t", at[-1]);
        if (is_fitting) fitting[count++] = at;
    }
    if (!count || strstr(line, "bra")) return 0;
    char *end, *at = fitting[draw(random, count)];
    unsigned long long value = strtoull(at, &end, 0);
    unsigned step = is_register ? 1 + draw(random, 3) : 1u << draw(random, 5);
    strcpy(rest, end);
    sprintf(at, "%llu%s", is_register && value > step && draw(random, 2) ? value - step
        : is_register ? value + step : value ^ step, rest);
    return 1;
}

/* An inverted guard, or no instruction at all. */
static int change_whole(char *line)
{
    char rest[256], *guard = strchr(line, '@');
    if (guard && guard[1] == '!') { strcpy(rest, guard + 2); strcpy(guard + 1, rest); return 1; }
    if (guard) { strcpy(rest, guard + 1); sprintf(guard + 1, "!%s", rest); return 1; }
    if (strstr(line, "ret;")) return 0;
    strcpy(line, "membar.gl;");
    return 1;
}

char *ptx_mutated(const char *text, const char *kernel, unsigned *random, char *reported,
    size_t reported_bytes)
{
    for (;;) {
        struct line of = drawn(text, kernel, random);
        char line[512];
        if (!of.at || of.length >= 200) return 0;
        memcpy(line, of.at, of.length);
        line[of.length] = 0;
        unsigned kind = draw(random, 4);
        int is_barrier = strstr(line, "bar.sync") != 0;
        int is_changed = is_barrier || kind == 3 ? change_whole(line) : kind == 0
            ? change_opcode(line, random) : change_number(line, random, kind == 1);
        if (!is_changed) continue;
        char *whole = malloc(strlen(text) + sizeof line);
        sprintf(whole, "%.*s%s%s", (int)(of.at - text), text, line, of.at + of.length);
        int number = 1;
        for (const char *at = text; at < of.at; at++) number += *at == '\n';
        snprintf(reported, reported_bytes, "line %d: %.*s -> %s", number, of.length, of.at, line);
        return whole;
    }
}

char *ptx_without_atomics(const char *text)
{
    static const char ATOMIC[] = "atom.global.add.u32";
    size_t room = 3 * strlen(text) + 1, length = 0;
    char *whole = malloc(room), result[64], place[64], value[64];
    for (const char *at = text; *at;) {
        if (strncmp(at, ATOMIC, sizeof ATOMIC - 1)) { whole[length++] = *at++; continue; }
        int is_known = sscanf(at + sizeof ATOMIC - 1, " %63[^,], [%63[^]]], %63[^;];", result,
            place, value) == 3;
        if (!is_known) abort();
        length += sprintf(whole + length, "ld.global.u32 %s, [%s];\nst.global.u32 [%s], %s;",
            result, place, place, value);
        at += strcspn(at, ";") + 1;
    }
    whole[length] = 0;
    return whole;
}
