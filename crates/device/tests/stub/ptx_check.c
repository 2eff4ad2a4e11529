/* Checks the interpreter by itself: a result for each instruction, by the text of the PTX manual,
 * an outcome for each fault, and a reason for each text that is refused. Prints what is not as it
 * should be, and ends with 1. */

#include "memory.h"
#include "ptx.h"

#include <stdio.h>
#include <string.h>

static int failed;
static char why[512];

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* Registers 1, 2 and 3 of each type get the low bits of one source each. The result is in register
 * 0. */
struct computed { const char *text; unsigned long long sources[3], result; };
#define N(bits) (~0ull >> (64 - (bits)))

static const struct computed COMPUTED[] = {
    { "add.s32 %r0, %r1, %r2", { 0xffffffff, 2 }, 1 },
    { "add.s64 %rd0, %rd1, -3", { 2 }, N(64) },
    { "add.u64 %rd0, %rd1, %rd2", { 1ull << 63, 1ull << 63 }, 0 },
    { "add.s16 %rs0, %rs1, %rs2", { 0xffff, 3 }, 2 },
    { "sub.s32 %r0, %r1, %r2", { 1, 3 }, 0xfffffffe },
    { "sub.s64 %rd0, %rd1, %rd2", { 1, 3 }, N(64) - 1 },
    { "sub.s16 %rs0, %rs1, %rs2", { 1, 3 }, 0xfffe },
    { "mul.lo.s32 %r0, %r1, %r2", { 0x10001, 0x10001 }, 0x20001 },
    { "mul.lo.s64 %rd0, %rd1, %rd2", { 1ull << 33, (1ull << 31) + 1 }, 1ull << 33 },
    { "mul.lo.s16 %rs0, %rs1, %rs2", { 0x101, 0x101 }, 0x201 },
    { "mul.hi.u32 %r0, %r1, %r2", { N(32), N(32) }, 0xfffffffe },
    { "mul.hi.s32 %r0, %r1, %r2", { N(32), 2 }, N(32) },
    { "mul.hi.u64 %rd0, %rd1, %rd2", { N(64), N(64) }, N(64) - 1 },
    { "mul.hi.s64 %rd0, %rd1, %rd2", { N(64), N(64) }, 0 },
    { "mul.wide.u32 %rd0, %r1, %r2", { N(32), N(32) }, 0xfffffffe00000001 },
    { "mul.wide.s32 %rd0, %r1, %r2", { N(32), 5 }, N(64) - 4 },
    { "mul.wide.u16 %r0, %rs1, %rs2", { 0xffff, 0xffff }, 0xfffe0001 },
    { "mul.wide.s16 %r0, %rs1, %rs2", { 0xffff, 5 }, 0xfffffffb },
    { "mad.lo.s32 %r0, %r1, %r2, %r3", { 7, 0xffffffff, 10 }, 3 },
    { "mad.lo.s64 %rd0, %rd1, %rd2, %rd3", { 7, N(64), 10 }, 3 },
    { "mad.hi.u32 %r0, %r1, %r2, %r3", { 1u << 31, 6, 10 }, 13 },
    { "mad.wide.u16 %r0, %rs1, %rs2, %r3", { 0xffff, 2, 5 }, 0x20003 },
    { "mad.wide.s16 %r0, %rs1, %rs2, %r3", { 0xffff, 2, 5 }, 3 },
    { "mad.wide.u32 %rd0, %r1, %r2, %rd3", { N(32), 2, 5 }, 0x200000003 },
    { "mad.wide.s32 %rd0, %r1, %r2, %rd3", { N(32), 2, 5 }, 3 },
    { "div.u32 %r0, %r1, %r2", { N(32), 2 }, 0x7fffffff },
    { "div.s32 %r0, %r1, %r2", { N(32) - 6, 2 }, N(32) - 2 },
    { "div.s32 %r0, %r1, %r2", { 1u << 31, N(32) }, 1u << 31 },
    { "div.s32 %r0, %r1, %r2", { N(32) - 5, N(32) }, 6 },
    { "div.u64 %rd0, %rd1, %rd2", { N(64), N(64) }, 1 },
    { "rem.u32 %r0, %r1, %r2", { N(32), 10 }, 5 },
    { "rem.s32 %r0, %r1, %r2", { N(32) - 6, 4 }, N(32) - 2 },
    { "rem.u64 %rd0, %rd1, %rd2", { 9, N(64) }, 9 },
    { "min.u32 %r0, %r1, %r2", { N(32), 2 }, 2 },
    { "min.s32 %r0, %r1, %r2", { N(32), 2 }, N(32) },
    { "max.u32 %r0, %r1, %r2", { N(32), 2 }, N(32) },
    { "max.s64 %rd0, %rd1, %rd2", { N(64), 2 }, 2 },
    { "max.u16 %rs0, %rs1, %rs2", { 0xffff, 2 }, 0xffff },
    { "neg.s32 %r0, %r1", { 1 }, N(32) },
    { "neg.s16 %rs0, %rs1", { 1 }, N(16) },
    { "abs.s32 %r0, %r1", { N(32) - 4 }, 5 },
    { "abs.s64 %rd0, %rd1", { N(64) }, 1 },
    { "and.b32 %r0, %r1, %r2", { 0xff0f, 0xf0ff }, 0xf00f },
    { "and.b64 %rd0, %rd1, -16", { N(64) }, N(64) - 15 },
    { "and.b16 %rs0, %rs1, 255", { 0x1234 }, 0x34 },
    { "and.pred %p0, %p1, %p2", { 1, 0 }, 0 },
    { "or.b32 %r0, %r1, %r2", { 0x0f00, 0x00f0 }, 0x0ff0 },
    { "or.b64 %rd0, %rd1, %rd2", { 1ull << 63, 1 }, (1ull << 63) + 1 },
    { "or.pred %p0, %p1, %p2", { 1, 0 }, 1 },
    { "or.pred %p0, %p1, %p2", { 0, 0 }, 0 },
    { "xor.b32 %r0, %r1, %r2", { 0xff0f, 0xf0ff }, 0x0ff0 },
    { "xor.b64 %rd0, %rd1, %rd2", { N(64), N(64) }, 0 },
    { "xor.pred %p0, %p1, %p2", { 1, 1 }, 0 },
    { "not.b32 %r0, %r1", { 0xf }, 0xfffffff0 },
    { "not.b64 %rd0, %rd1", { 0 }, N(64) },
    { "not.b16 %rs0, %rs1", { 1 }, 0xfffe },
    { "not.pred %p0, %p1", { 1 }, 0 },
    { "shl.b32 %r0, %r1, %r2", { 0x80000001, 1 }, 2 },
    { "shl.b32 %r0, %r1, %r2", { 1, 32 }, 0 },
    { "shl.b64 %rd0, %rd1, %r2", { 1, 63 }, 1ull << 63 },
    { "shl.b64 %rd0, %rd1, 64", { 1 }, 0 },
    { "shl.b16 %rs0, %rs1, 8", { 0x1234 }, 0x3400 },
    { "shr.u32 %r0, %r1, %r2", { 0x80000000, 31 }, 1 },
    { "shr.u32 %r0, %r1, %r2", { 0x80000000, 32 }, 0 },
    { "shr.s32 %r0, %r1, %r2", { 0x80000000, 40 }, N(32) },
    { "shr.u64 %rd0, %rd1, 40", { N(64) }, N(24) },
    { "shr.u64 %rd0, %rd1, 64", { N(64) }, 0 },
    { "shr.s64 %rd0, %rd1, 64", { N(64) }, N(64) },
    { "shr.u16 %rs0, %rs1, 15", { 0x8000 }, 1 },
    { "shr.s16 %rs0, %rs1, 15", { 0x8000 }, N(16) },
    { "shf.l.wrap.b32 %r0, %r1, %r2, %r3", { 0x80000000, 1, 1 }, 3 },
    { "shf.l.wrap.b32 %r0, %r1, %r2, %r3", { 5, 7, 32 }, 7 },
    { "shf.l.clamp.b32 %r0, %r1, %r2, %r3", { 5, 7, 40 }, 5 },
    { "shf.r.wrap.b32 %r0, %r1, %r2, %r3", { 0x10, 0x3, 4 }, 0x30000001 },
    { "shf.r.clamp.b32 %r0, %r1, %r2, %r3", { 5, 7, 40 }, 7 },
    { "prmt.b32 %r0, %r1, %r2, %r3", { 0x33221100, 0x77665544, 0x7530 }, 0x77553300 },
    { "prmt.b32 %r0, %r1, %r2, 0x0123", { 0x33221100 }, 0x00112233 },
    { "prmt.b32 %r0, %r1, %r2, 0xbca8", { 0x80008001, 0x7f }, 0xff000000 },
    { "lop3.b32 %r0, %r1, %r2, %r3, 0xea", { 0xc, 0xa, 0x1 }, 9 },
    { "lop3.b32 %r0, %r1, %r2, %r3, 0x96", { 0xc, 0xa, 0x1 }, 7 },
    { "bfe.u32 %r0, %r1, 8, 4", { 0xabcd }, 0xb },
    { "bfe.s32 %r0, %r1, 8, 4", { 0xabcd }, 0xfffffffb },
    { "bfe.u32 %r0, %r1, 28, 8", { 0xf0000000 }, 0xf },
    { "bfe.s32 %r0, %r1, 28, 8", { 0xf0000000 }, N(32) },
    { "bfe.u64 %rd0, %rd1, 40, 64", { N(64) }, N(24) },
    { "bfe.s64 %rd0, %rd1, 0, 0", { N(64) }, 0 },
    { "bfi.b32 %r0, %r1, %r2, 8, 8", { 0xab, N(32) }, 0xffffabff },
    { "bfi.b32 %r0, %r1, %r2, 28, 8", { 0xab, 0 }, 0xb0000000 },
    { "bfi.b64 %rd0, %rd1, %rd2, 32, 32", { 0x12345678, 0x9abcdef0 }, 0x123456789abcdef0 },
    { "bfi.b64 %rd0, %rd1, %rd2, 64, 8", { 1, 5 }, 5 },
    { "clz.b32 %r0, %r1", { 0 }, 32 },
    { "clz.b32 %r0, %r1", { 0x00010000 }, 15 },
    { "clz.b64 %r0, %rd1", { 1 }, 63 },
    { "popc.b32 %r0, %r1", { 0xf0f0f0f0 }, 16 },
    { "popc.b64 %r0, %rd1", { N(64) }, 64 },
    { "brev.b32 %r0, %r1", { 1 }, 1u << 31 },
    { "brev.b64 %rd0, %rd1", { 2 }, 1ull << 62 },
    { "selp.b32 %r0, %r1, %r2, %p3", { 5, 6, 1 }, 5 },
    { "selp.u32 %r0, 1, 0, %p3", { 0, 0, 0 }, 0 },
    { "selp.b64 %rd0, %rd1, %rd2, %p3", { 5, N(64), 0 }, N(64) },
    { "selp.b16 %rs0, %rs1, %rs2, %p3", { 5, 6, 1 }, 5 },
    { "setp.eq.s32 %p0, %r1, %r2", { 1ull << 32 | 5, 5 }, 1 },
    { "setp.ne.s16 %p0, %rs1, %rs2", { 0x10005, 5 }, 0 },
    { "setp.eq.b32 %p0, %r1, 5", { 5 }, 1 },
    { "setp.lt.u32 %p0, %r1, %r2", { N(32), 2 }, 0 },
    { "setp.lt.u32 %p0, %r1, %r2", { 2, 2 }, 0 },
    { "setp.lt.s32 %p0, %r1, %r2", { N(32), 2 }, 1 },
    { "setp.le.u32 %p0, %r1, %r2", { 2, 2 }, 1 },
    { "setp.gt.u32 %p0, %r1, %r2", { 2, 2 }, 0 },
    { "setp.gt.s16 %p0, %rs1, -1", { 0 }, 1 },
    { "setp.gt.u16 %p0, %rs1, %rs2", { 0xffff, 1 }, 1 },
    { "setp.ge.u32 %p0, %r1, %r2", { 2, 2 }, 1 },
    { "setp.ge.s64 %p0, %rd1, %rd2", { N(64), 0 }, 0 },
    { "setp.hi.u32 %p0, %r1, %r2", { 3, 2 }, 1 },
    { "setp.ls.u64 %p0, %rd1, %rd2", { N(64), 2 }, 0 },
    { "mov.u32 %r0, %r1", { N(64) }, N(32) },
    { "mov.u16 %rs0, -1", { 0 }, N(16) },
    { "mov.u64 %rd0, 0xfedcba9876543210", { 0 }, 0xfedcba9876543210 },
    { "mov.pred %p0, -1", { 0 }, 1 },
    { "mov.pred %p0, %p1", { 0 }, 0 },
    { "mov.b32 %r0, {%rs1, %rs2}", { 0x1234, 0x5678 }, 0x56781234 },
    { "mov.b64 %rd0, {%r1, %r2}", { 0x12345678, 0x9abcdef0 }, 0x9abcdef012345678 },
    { "mov.b32 {%rs0, _}, %r1", { 0x56781234 }, 0x1234 },
    { "mov.b64 {%r0, %r8}, %rd1", { 0x9abcdef012345678 }, 0x12345678 },
    { "mov.b64 {_, %r0}, %rd1", { 0x9abcdef012345678 }, 0x9abcdef0 },
    { "cvt.u64.u32 %rd0, %r1", { N(64) }, N(32) },
    { "cvt.s64.s32 %rd0, %r1", { 1u << 31 }, 0xffffffff80000000 },
    { "cvt.u32.u64 %r0, %rd1", { 0x123456789 }, 0x23456789 },
    { "cvt.u32.u16 %r0, %rs1", { 0xffff }, 0xffff },
    { "cvt.s32.s16 %r0, %rs1", { 0xffff }, N(32) },
    { "cvt.u16.u32 %rs0, %r1", { 0x12345 }, 0x2345 },
    { "cvt.u16.u64 %rs0, %rd1", { 0x12345 }, 0x2345 },
    { "cvt.u64.u16 %rd0, %rs1", { 0xffff }, 0xffff },
    { "cvt.u32.u8 %r0, %r1", { 0x1ff }, 0xff },
    { "cvt.s32.s8 %r0, %rs1", { 0x80 }, 0xffffff80 },
    { "cvta.to.global.u64 %rd0, %rd1", { N(48) }, N(48) },
    { "mov.u32 %r0, %ntid.x", { 0 }, 1 },
    { "mov.u32 %r0, %nctaid.x", { 0 }, 1 },
    { "add.s32 %r0, %tid.x, %ctaid.x", { 0 }, 0 },
    /* Guards and branches. */
    { "mov.u32 %r0, 7;\n@%p1 mov.u32 %r0, %r2", { 0, 9 }, 7 },
    { "mov.u32 %r0, 7;\n@!%p1 mov.u32 %r0, %r2", { 0, 9 }, 9 },
    { "mov.u32 %r0, 7;\n@%p1 bra $here;\nmov.u32 %r0, 8;\n$here:\nadd.s32 %r0, %r0, 1", { 1 }, 8 },
    { "mov.u32 %r0, 7;\n@!%p1 bra $here;\nmov.u32 %r0, 8;\n$here:\nadd.s32 %r0, %r0, 1", { 1 }, 9 },
    { "mov.u32 %r0, 7;\nbra.uni $here;\nmov.u32 %r0, 8;\n$here:\nadd.s32 %r0, %r0, 1", { 1 }, 8 },
    /* Memory: sources lie at %rd9, the low bytes first. */
    { "ld.global.u8 %rs0, [%rd9+1]", { 0x1234f678 }, 0xf6 },
    { "ld.global.s8 %r0, [%rd9+1]", { 0x1234f678 }, 0xfffffff6 },
    { "ld.global.u16 %r0, [%rd9+2]", { 0x1234f678 }, 0x1234 },
    { "ld.global.s16 %rd0, [%rd9]", { 0xf678 }, 0xfffffffffffff678 },
    { "ld.global.nc.u32 %r0, [%rd9+8]", { 0, N(64) }, N(32) },
    { "add.s64 %rd8, %rd9, 16;\nld.global.u64 %rd0, [%rd8+-8]", { 0, 77 }, 77 },
    { "ld.global.v2.u32 {%r8, %r0}, [%rd9]", { 0x500000006 }, 5 },
    { "ld.global.v4.u32 {%r5, %r6, %r7, %r0}, [%rd9]", { 0, 0x500000006 }, 5 },
    { "ld.u32 %r0, [%rd9]", { 12 }, 12 },
    { "st.global.u8 [%rd9], %rs2;\nld.global.u32 %r0, [%rd9]", { 0x11223344, 0xffff }, 0x112233ff },
    { "st.global.v2.u64 [%rd9], {%rd3, %rd2};\nld.global.u64 %rd0, [%rd9+8]", { 1, 2, 3 }, 2 },
    { "st.shared.u16 [held+2], %rs1;\nst.shared.u16 [held], %rs2;\nld.shared.u32 %r0, [held]",
    { 1, 2 }, 0x10002 },
    { "mov.u64 %rd8, held;\nst.shared.v4.u32 [%rd8+16], {%r1, %r2, %r3, %r1};\n"
        "ld.shared.u64 %rd0, [%rd8+16]", { 1, 2, 3 }, 0x200000001 },
    { "mov.u64 %rd8, own;\nst.local.u32 [%rd8+4], %r1;\nld.local.u8 %rs0, [%rd8+5]", { 0x1234 },
    0x12 },
    { "ld.const.u8 %rs0, [bytes+2]", { 0 }, 30 },
    { "mov.u64 %rd8, words;\nld.const.u32 %r0, [%rd8+4]", { 0 }, 0xfffffffe },
    { "ld.const.u32 %r0, [words+8]", { 0 }, 0 },
    { "atom.global.add.u32 %r0, [%rd9], %r2", { 40, 2 }, 40 },
    { "atom.global.add.u32 %r8, [%rd9], %r2;\nld.global.u32 %r0, [%rd9]", { 40, 2 }, 42 },
    { "red.global.or.b32 [%rd9], 3;\nld.global.u64 %rd0, [%rd9]", { 0x100000004 }, 0x100000007 },
    { "atom.global.cas.b32 %r8, [%rd9], %r1, %r2;\nld.global.u32 %r0, [%rd9]", { 40, 2 }, 2 },
    { "atom.global.cas.b64 %rd8, [%rd9], %rd2, %rd3;\nld.global.u64 %rd0, [%rd9]", { 40, 2, 3 },
    40 },
    { "atom.global.exch.b64 %rd0, [%rd9], %rd2", { N(64), 2 }, N(64) },
    { "atom.global.max.s32 %r8, [%rd9], %r2;\nld.global.u32 %r0, [%rd9]", { 1, N(32) }, 1 },
    { "atom.global.min.u32 %r8, [%rd9], %r2;\nld.global.u32 %r0, [%rd9]", { 9, N(32) }, 9 },
};

static const char MEMORY[] = ".const .align 1 .b8 bytes[3] = {10, 20, 30};\n"
    ".const .align 4 .u32 words[3] = {1, 4294967294};\n";
static const char DECLARED[] =
    ".shared .align 16 .b8 held[64];\n.local .align 8 .b8 own[8];\n.reg .pred %p<10>;\n"
    ".reg .b16 %rs<10>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\n";

/* Instructions that store the result, whatever its type. */
static const char *stored(const char *text)
{
    if (strstr(text, "%rd0")) return "st.global.u64 [%rd9+24], %rd0;";
    if (strstr(text, "%rs0")) return "cvt.u64.u16 %rd0, %rs0;\nst.global.u64 [%rd9+24], %rd0;";
    if (strstr(text, "%p0")) return "selp.b64 %rd0, 1, 0, %p0;\nst.global.u64 [%rd9+24], %rd0;";
    return "cvt.u64.u32 %rd0, %r0;\nst.global.u64 [%rd9+24], %rd0;";
}

static void compute(const struct computed *one, address at)
{
    char text[4096];
    unsigned long long result = 0;
    int length = sprintf(text,
        HEAD "%s.visible .entry k(.param .u64 k_0)\n{\n%sld.param.u64 %%rd9, [k_0];\n", MEMORY,
        DECLARED);
    for (int i = 1; i < 4; i++)
        length += sprintf(text + length,
            "ld.global.u64 %%rd%d, [%%rd9+%d];\ncvt.u32.u64 %%r%d, %%rd%d;\n"
            "cvt.u16.u64 %%rs%d, %%rd%d;\nand.b32 %%r9, %%r%d, 1;\n"
                          "setp.ne.s32 %%p%d, %%r9, 0;\n", i, 8 * (i - 1), i, i, i, i, i, i);
    sprintf(text + length, "%s;\n%s\nret;\n}\n", one->text, stored(one->text));
    struct ptx_module *module = ptx_load(text, why, sizeof why);
    if (!module) { failed = 1; printf("%s: %s\n", one->text, why); return; }
    memory_write(at, one->sources, 24);
    enum ptx_outcome outcome = ptx_run(ptx_find(module, "k"), &(struct ptx_grid){ 1, 1, 0, &at, 0,
        0 }, why, sizeof why);
    memory_read(&result, at + 24, 8);
    if (outcome || result != one->result)
        failed = 1, printf("%s: %#llx and not %#llx %s\n", one->text, result, one->result, outcome
            ? why : "");
    ptx_unload(module);
}

/* A body that two groups of four items run. At %rd9 are 64 bytes, the first half of them written,
 * and at %rd7 are 64 bytes of the host. */
struct judged { const char *text; enum ptx_outcome outcome; const char *named; };

#define MINE "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nmov.u64 %rd2, held;\n" \
    "add.s64 %rd3, %rd2, %rd1;\nst.shared.u32 [%rd3], %r1;\n"
/* %rd3 is the address of the item's own of eight words at %rd9. */
#define OWN "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n" \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.u32 %rd1, %r4, 4;\nadd.s64 %rd3, %rd9, %rd1;\n"
/* %rd4 is the address of its group's four words. */
#define GROUP OWN "mul.wide.u32 %rd2, %r1, 16;\nadd.s64 %rd4, %rd9, %rd2;\n"
static const struct judged JUDGED[] = {
    { "ld.global.u32 %r1, [%rd9+28];", PTX_FINE, "" },
    { "ld.global.u32 %r1, [%rd9+32];", PTX_UNWRITTEN, "line 15, group 0, item" },
    { OWN "st.global.u32 [%rd3+32], 1;\nld.global.u32 %r1, [%rd3+32];", PTX_FINE, "" },
    { OWN "st.global.u8 [%rd3+33], 1;\nst.global.u8 [%rd3+34], 1;\nld.global.u32 %r1, [%rd3+32];",
    PTX_UNWRITTEN, "ld.global.u32 %r1, [%rd3+32];" },
    { "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd9+16];", PTX_FINE, "" },
    { "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd9+20];", PTX_MISALIGNED, "line 15" },
    { "st.global.u32 [%rd9+64], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "st.global.u32 [%rd9+-4], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "ld.global.u8 %r1, [%rd9+64];", PTX_OUT_OF_BOUNDS, "line 15" },
    { "ld.global.u16 %r1, [%rd9+1];", PTX_MISALIGNED, "line 15" },
    { "mov.u64 %rd1, 0;\nld.global.u8 %r1, [%rd1];", PTX_OUT_OF_BOUNDS, "line 16" },
    { "ld.global.u64 %rd1, [%rd7+56];", PTX_FINE, "" },
    { "st.global.u64 [%rd7+64], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "ld.shared.u32 %r1, [held];", PTX_UNWRITTEN, "line 15" },
    { "st.shared.u32 [held+64], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "st.shared.u32 [more+32], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "ld.local.u32 %r1, [own];", PTX_UNWRITTEN, "line 15" },
    { "st.local.u32 [own+8], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    { "ld.const.u8 %r1, [bytes+3];", PTX_OUT_OF_BOUNDS, "line 15" },
    { "mov.u64 %rd1, held;\nst.global.u8 [%rd1], 1;", PTX_OUT_OF_BOUNDS, "line 16" },
    { "st.shared.u8 [%rd9], 1;", PTX_OUT_OF_BOUNDS, "line 15" },
    /* Items meet at barriers. */
    { MINE "bar.sync 0;\nld.shared.u32 %r2, [held+4];", PTX_FINE, "" },
    { MINE "ld.shared.u32 %r2, [%rd3];", PTX_FINE, "" },
    { MINE "st.shared.u32 [held+4], 1;", PTX_RACE, "st.shared.u32 [held+4], 1;" },
    { "st.shared.u8 [held], 1;", PTX_RACE, "line 15" },
    { MINE "bar.sync 0;\nld.shared.u32 %r2, [held+4];\nbar.sync 0;\nst.shared.u32 [%rd3], 1;",
        PTX_FINE, "" },
    { MINE "bar.sync 0;\nld.shared.u32 %r2, [held+4];\nst.shared.u32 [%rd3], 1;", PTX_RACE, "" },
    { MINE "bar.sync 0;\natom.shared.add.u32 %r2, [held], 1;", PTX_FINE, "" },
    { MINE "bar.sync 0;\natom.shared.add.u32 %r2, [held], 1;\nld.shared.u32 %r2, [held];", PTX_RACE,
        "[held]" },
    /* Nothing orders groups. */
    { "st.global.u32 [%rd9], 1;", PTX_RACE, "line 15, group 0" },
    { "st.global.u64 [%rd7+8], 1;", PTX_RACE, "line 15, group 0" },
    { GROUP "st.global.u32 [%rd3], 1;\nld.global.u32 %r5, [%rd4+4];", PTX_RACE, "group 0" },
    { GROUP "ld.global.u32 %r5, [%rd4+4];\nst.global.u32 [%rd3], 1;", PTX_RACE, "[%rd3]" },
    { GROUP "st.global.u32 [%rd3], 1;\nbar.sync 0;\nld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd4];",
        PTX_FINE, "" },
    { GROUP "ld.global.u32 %r5, [%rd4+4];\nbar.sync 0;\nst.global.u32 [%rd3], 1;", PTX_FINE, "" },
    { OWN "st.global.u32 [%rd3], 1;\nbar.sync 0;\nld.global.u32 %r5, [%rd9];", PTX_RACE,
        "group 1" },
    { OWN "ld.global.u32 %r5, [%rd9+16];\nbar.sync 0;\nst.global.u32 [%rd3], 1;", PTX_RACE,
        "group 1, item 0: st" },
    { OWN "ld.global.u32 %r5, [%rd9+4];\nbar.sync 0;\nst.global.u32 [%rd3], 1;", PTX_RACE,
        "group 1, item 0: ld" },
    { OWN "st.global.u8 [%rd3], 1;\nld.global.u8 %r5, [%rd9+5];", PTX_FINE, "" },
    { "atom.global.add.u32 %r2, [%rd9], 1;", PTX_FINE, "" },
    { "ld.global.u32 %r1, [%rd9];\natom.global.add.u32 %r2, [%rd9], 1;", PTX_RACE, "group 0" },
    { "atom.global.add.u32 %r2, [%rd9], 1;\nbar.sync 0;\nld.global.u32 %r1, [%rd9];", PTX_RACE,
        "group 1, item" },
    { OWN "setp.eq.s32 %p1, %r4, 3;\n@!%p1 bra $look;\natom.global.add.u32 %r5, [%rd9], 1;\nret;\n"
        "$look:\nld.global.u32 %r5, [%rd9];", PTX_RACE, "item 2: ld" },
    { "atom.global.add.u32 %r2, [%rd9], 1;\nst.global.u8 [%rd9+3], 1;", PTX_RACE, "atom" },
    { "mov.u32 %r1, %tid.x;\nsetp.eq.s32 %p1, %r1, 2;\n@%p1 bra $out;\nbar.sync 0;\n$out:",
    PTX_DIVERGED, "bar.sync" },
    { "mov.u32 %r1, %tid.x;\nsetp.eq.s32 %p1, %r1, 2;\n@%p1 bra $out;\nbar.sync 0;\nret;\n"
        "$out:\nbar.sync 0;", PTX_DIVERGED, "bar.sync" },
    { "mov.u32 %r1, %ctaid.x;\nsetp.eq.s32 %p1, %r1, 1;\n@%p1 bra $out;\nbar.sync 0;\n$out:",
    PTX_FINE, "" },
    { "$again:\nbra $again;", PTX_ENDLESS, "line 16" },
    { "mov.u32 %r1, 0;\ndiv.u32 %r1, 7, %r1;", PTX_DIVIDED_BY_ZERO, "line 16" },
    { "trap;", PTX_TRAPPED, "line 15" },
};

static void judge(const struct judged *one, const unsigned long long *values)
{
    char text[4096];
    sprintf(text, HEAD "%s.extern .shared .align 16 .b8 more[];\n"
        ".visible .entry k(.param .u64 k_0,.param .u64 k_1)\n"
        "{%sld.param.u64 %%rd9, [k_0]; ld.param.u64 %%rd7, [k_1];\n"
            "%s\nret;\n}\n", MEMORY, DECLARED, one->text);
    struct ptx_module *module = ptx_load(text, why, sizeof why);
    if (!module) { failed = 1; printf("%s: %s\n", one->text, why); return; }
    *why = 0;
    enum ptx_outcome outcome = ptx_run(ptx_find(module, "k"), &(struct ptx_grid){ 2, 4, 32, values,
        0, 0 }, why, sizeof why);
    if (outcome != one->outcome || !strstr(why, one->named))
        failed = 1, printf("%s: %d and not %d: %s\n", one->text, outcome, one->outcome, why);
    ptx_unload(module);
}

/* Bodies that are refused, each with a part of the reason. */
static const char *const REFUSED[][2] = {
    { "shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;",
    "line 13: unknown instruction shfl.sync.bfly.b32" },
    { "\n\nvote.sync.any.pred %p0, %p1, -1;", "line 15: unknown instruction" },
    { "add.f32 %r1, %tid.x, %tid.x;", "line 13: unknown instruction" },
    { "add.s32 %r1, %tid.x;", "line 13: 2 operands" },
    { "add.s32 %rd1, %tid.x, %tid.x;", "line 13: the type of %rd1" },
    { "add.s32 %r10, %tid.x, %tid.x;", "line 13: unknown operand %r10" },
    { "add.s32 %r1, %tid.x, nothing;", "line 13: unknown operand nothing" },
    { "add.s32 %r1, %r2, %tid.x;", "line 13: a register that nothing has written" },
    { "bra $nowhere;", "line 13: no label $nowhere" },
    { "bar.sync 1;", "line 13: operands of bar.sync" },
    { "ld.global.u32 %rs1, [%rd9];", "line 13: the type of %rs1" },
    { "ld.global.v3.u32 %r1, [%rd9];", "line 13: unknown instruction" },
    { "ld.param.u32 %r1, [k_0];", "line 13: no parameter k_0 of 4 bytes" },
    { "st.const.u32 [%rd9], 1;", "line 13: operands of st.const.u32" },
    { "call foo;", "line 13: unknown instruction call" },
    { ".tex .u64 foo;", "line 13: unknown directive .tex" },
};

static void refuse(const char *const one[2])
{
    char text[4096];
    sprintf(text, HEAD "%s.visible .entry k(.param .u64 k_0)\n{%sld.param.u64 %%rd9, [k_0]; %s\n"
        "ret;\n}\n", MEMORY, DECLARED, one[0]);
    struct ptx_module *module = ptx_load(text, why, sizeof why);
    if (module || !strstr(why, one[1]))
        failed = 1, printf("%s: '%s' and not '%s'\n", one[0], module ? "" : why, one[1]);
    if (module) ptx_unload(module);
}

int main(void)
{
    static char host[64];
    unsigned long long values[2] = { 0, (unsigned long long)host };
    memory_map_host(host, sizeof host);
    for (unsigned i = 0; i < sizeof COMPUTED / sizeof *COMPUTED; i++) {
        memory_allocate(values, 32);
        compute(&COMPUTED[i], values[0]);
        memory_free(values[0]);
    }
    for (unsigned i = 0; i < sizeof JUDGED / sizeof *JUDGED; i++) {
        memory_allocate(values, 64);
        memory_write(values[0], host, 32);
        judge(&JUDGED[i], values);
        memory_free(values[0]);
    }
    for (unsigned i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) refuse(REFUSED[i]);
    return failed;
}
