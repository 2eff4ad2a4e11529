/* The results of instructions, one row each: OPERATION(id, names, own class, operands, action). An
 * operand is p (a predicate), h, w or d (16, 32 or 64 bits), = (the row's own class) or * (any
 * integer); the first is the result. In an action A, B, C, E are the sources; PUT sets the result.
 * */

#define UNSIGNED(ROW, ID, NAME, FORM, X) ROW(ID, NAME, FORM, X, u16, 'h') ROW(ID, NAME, FORM, X, \
    u32, 'w') ROW(ID, NAME, FORM, X, u64, 'd')
#define SIGNED(ROW, ID, NAME, FORM, X) ROW(ID, NAME, FORM, X, s16, 'h') ROW(ID, NAME, FORM, X, \
    s32, 'w') ROW(ID, NAME, FORM, X, s64, 'd')
#define BITS(ROW, ID, NAME, FORM, X) ROW(ID, NAME, FORM, X, b16, 'h') ROW(ID, NAME, FORM, X, b32, \
    'w') ROW(ID, NAME, FORM, X, b64, 'd')
#define NUMBERS(ROW, ID, NAME, FORM, X) UNSIGNED(ROW, ID, NAME, FORM, X) SIGNED(ROW, ID, NAME, \
    FORM, X)
#define ALL(ROW, ID, NAME, FORM, X) NUMBERS(ROW, ID, NAME, FORM, X) BITS(ROW, ID, NAME, FORM, X)

#define PLAIN(ID, NAME, FORM, X, T, CLASS) OPERATION(ID##_##T, NAME "." #T, CLASS, FORM, PUT(X(T)))
#define CHECKED(ID, NAME, FORM, X, T, CLASS) \
    OPERATION(ID##_##T, NAME "." #T, CLASS, FORM, if (!(T)B) FAIL(PTX_DIVIDED_BY_ZERO); \
        PUT((T)B == (T)-1 ? X##_ALL_ONES(T) : X(T)))

#define X_ADD(T) (T)((T)A + (T)B)
#define X_SUB(T) (T)((T)A - (T)B)
#define X_MUL(T) (T)((T)((T)A * 1u * (T)B))
#define X_MAD(T) (T)((T)((T)A * 1u * (T)B) + (T)C)
#define X_HIGH(T) (T)((__int128)(T)A * (T)B >> 8 * sizeof(T))
#define X_MAD_HIGH(T) (T)((T)((__int128)(T)A * (T)B >> 8 * sizeof(T)) + (T)C)
#define X_MIN(T) ((T)A < (T)B ? (T)A : (T)B)
#define X_MAX(T) ((T)A > (T)B ? (T)A : (T)B)
/* By -1 a signed quotient may not exist in C. */
#define X_DIV(T) ((T)A / (T)B)
#define X_DIV_ALL_ONES(T) ((T)-1 > 0 ? (T)((T)A == (T)-1) : (T)(0 - (T)A))
#define X_REM(T) ((T)A % (T)B)
#define X_REM_ALL_ONES(T) ((T)-1 > 0 ? (T)((T)A == (T)-1 ? 0 : (T)A) : 0)
#define X_NEG(T) (T)(0 - (T)A)
#define X_ABS(T) ((T)A < 0 ? (T)(0 - (T)A) : (T)A)
#define X_AND(T) ((T)A & (T)B)
#define X_OR(T) ((T)A | (T)B)
#define X_XOR(T) ((T)A ^ (T)B)
#define X_NOT(T) (T)~(T)A
#define X_MOV(T) (T)A
#define X_SELP(T) (C & 1 ? (T)A : (T)B)
#define X_SHL(T) ((u32)B < 8 * sizeof(T) ? (T)((T)A << (u32)B) : (T)0)
/* Of a signed number the sign fills what is shifted far. */
#define X_SHR(T) (T)((u32)B < 8 * sizeof(T) ? (T)A >> (u32)B \
    : (T)A >> 4 * sizeof(T) >> (4 * sizeof(T) - 1) >> 1)
#define X_EQ(T) ((T)A == (T)B)
#define X_NE(T) ((T)A != (T)B)
#define X_LT(T) ((T)A < (T)B)
#define X_LE(T) ((T)A <= (T)B)
#define X_GT(T) ((T)A > (T)B)
#define X_GE(T) ((T)A >= (T)B)

NUMBERS(PLAIN, ADD, "add", "===", X_ADD)
NUMBERS(PLAIN, SUB, "sub", "===", X_SUB)
NUMBERS(PLAIN, MUL, "mul.lo", "===", X_MUL)
NUMBERS(PLAIN, MUL_HI, "mul.hi", "===", X_HIGH)
NUMBERS(PLAIN, MAD, "mad.lo", "====", X_MAD)
NUMBERS(PLAIN, MAD_HI, "mad.hi", "====", X_MAD_HIGH)
NUMBERS(PLAIN, MIN, "min", "===", X_MIN)
NUMBERS(PLAIN, MAX, "max", "===", X_MAX)
NUMBERS(CHECKED, DIV, "div", "===", X_DIV)
NUMBERS(CHECKED, REM, "rem", "===", X_REM)
SIGNED(PLAIN, NEG, "neg", "==", X_NEG)
SIGNED(PLAIN, ABS, "abs", "==", X_ABS)
BITS(PLAIN, AND, "and", "===", X_AND)
BITS(PLAIN, OR, "or", "===", X_OR)
BITS(PLAIN, XOR, "xor", "===", X_XOR)
BITS(PLAIN, NOT, "not", "==", X_NOT)
ALL(PLAIN, MOV, "mov", "==", X_MOV)
ALL(PLAIN, SELP, "selp", "===p", X_SELP)
BITS(PLAIN, SHL, "shl", "==w", X_SHL)
ALL(PLAIN, SHR, "shr", "==w", X_SHR)
ALL(PLAIN, EQ, "setp.eq", "p==", X_EQ)
ALL(PLAIN, NE, "setp.ne", "p==", X_NE)
NUMBERS(PLAIN, LT, "setp.lt", "p==", X_LT)
NUMBERS(PLAIN, LE, "setp.le", "p==", X_LE)
NUMBERS(PLAIN, GT, "setp.gt", "p==", X_GT)
NUMBERS(PLAIN, GE, "setp.ge", "p==", X_GE)
UNSIGNED(PLAIN, LO, "setp.lo", "p==", X_LT)
UNSIGNED(PLAIN, LS, "setp.ls", "p==", X_LE)
UNSIGNED(PLAIN, HI, "setp.hi", "p==", X_GT)
UNSIGNED(PLAIN, HS, "setp.hs", "p==", X_GE)

OPERATION(AND_pred, "and.pred", 'p', "===", PUT(A & B & 1))
OPERATION(OR_pred, "or.pred", 'p', "===", PUT((A | B) & 1))
OPERATION(XOR_pred, "xor.pred", 'p', "===", PUT((A ^ B) & 1))
OPERATION(NOT_pred, "not.pred", 'p', "==", PUT(~A & 1))
OPERATION(MOV_pred, "mov.pred", 'p', "==", PUT(A & 1))

OPERATION(WIDE_u16, "mul.wide.u16", 'h', "w==", PUT((u32)(u16)A * (u16)B))
OPERATION(WIDE_s16, "mul.wide.s16", 'h', "w==", PUT((u32)((s32)(s16)A * (s16)B)))
OPERATION(WIDE_u32, "mul.wide.u32", 'w', "d==", PUT((u64)(u32)A * (u32)B))
OPERATION(WIDE_s32, "mul.wide.s32", 'w', "d==", PUT((s64)(s32)A * (s32)B))
OPERATION(MAD_WIDE_u16, "mad.wide.u16", 'h', "w==w", PUT((u32)((u32)(u16)A * (u16)B + (u32)C)))
OPERATION(MAD_WIDE_s16, "mad.wide.s16", 'h', "w==w", PUT((u32)((s32)(s16)A * (s16)B + (s32)C)))
OPERATION(MAD_WIDE_u32, "mad.wide.u32", 'w', "d==d", PUT((u64)(u32)A * (u32)B + C))
OPERATION(MAD_WIDE_s32, "mad.wide.s32", 'w', "d==d", PUT((u64)((s64)(s32)A * (s32)B) + C))

OPERATION(SHF_L_WRAP, "shf.l.wrap.b32", 'w', "====", PUT(funnel_left(A, B, C & 31)))
OPERATION(SHF_L_CLAMP, "shf.l.clamp.b32", 'w', "====", PUT(funnel_left(A, B, (u32)C < 32 ? C : 32)))
OPERATION(SHF_R_WRAP, "shf.r.wrap.b32", 'w', "====", PUT(funnel_right(A, B, C & 31)))
OPERATION(SHF_R_CLAMP, "shf.r.clamp.b32", 'w', "====",
    PUT(funnel_right(A, B, (u32)C < 32 ? C : 32)))
OPERATION(PRMT, "prmt.b32", 'w', "====", PUT(permute(A, B, C)))
OPERATION(LOP3, "lop3.b32", 'w', "=====", PUT(look_up(A, B, C, E)))
OPERATION(BFE_u32, "bfe.u32", 'w', "====", PUT(extract((u32)A, 32, B, C, 0)))
OPERATION(BFE_s32, "bfe.s32", 'w', "====", PUT((u32)extract((s64)(s32)A, 32, B, C, 1)))
OPERATION(BFE_u64, "bfe.u64", 'd', "==ww", PUT(extract(A, 64, B, C, 0)))
OPERATION(BFE_s64, "bfe.s64", 'd', "==ww", PUT(extract(A, 64, B, C, 1)))
OPERATION(BFI_b32, "bfi.b32", 'w', "=====", PUT((u32)insert((u32)A, (u32)B, 32, C, E)))
OPERATION(BFI_b64, "bfi.b64", 'd', "===ww", PUT(insert(A, B, 64, C, E)))
OPERATION(CLZ_b32, "clz.b32", 'w', "==", PUT((u32)A ? (u64)__builtin_clz(A) : 32))
OPERATION(CLZ_b64, "clz.b64", 'd', "w=", PUT(A ? (u64)__builtin_clzll(A) : 64))
OPERATION(POPC_b32, "popc.b32", 'w', "==", PUT((u64)__builtin_popcount(A)))
OPERATION(POPC_b64, "popc.b64", 'd', "w=", PUT((u64)__builtin_popcountll(A)))
OPERATION(BREV_b32, "brev.b32", 'w', "==", PUT(reverse(A) >> 32))
OPERATION(BREV_b64, "brev.b64", 'd', "==", PUT(reverse(A)))

#define CVT(TO, CLASS, FROM, SOURCE) OPERATION(CVT_##TO##_##FROM, "cvt." #TO "." #FROM, CLASS, \
    "=" SOURCE, PUT((TO)(FROM)A))
#define CVT_TO(TO, CLASS) CVT(TO, CLASS, u8, "*") CVT(TO, CLASS, s8, "*") CVT(TO, CLASS, u16, \
    "h") CVT(TO, CLASS, s16, "h") \
    CVT(TO, CLASS, u32, "w") CVT(TO, CLASS, s32, "w") CVT(TO, CLASS, u64, "d") CVT(TO, CLASS, s64, \
        "d")
CVT_TO(u16, 'h') CVT_TO(s16, 'h') CVT_TO(u32, 'w') CVT_TO(s32, 'w') CVT_TO(u64, 'd') CVT_TO(s64,
    'd')

/* All spaces have addresses of their own, so a generic address is the address itself. */
OPERATION(TO_GLOBAL, "cvta.to.global.u64", 'd', "==", PUT(A))
OPERATION(TO_SHARED, "cvta.to.shared.u64", 'd', "==", PUT(A))
OPERATION(TO_LOCAL, "cvta.to.local.u64", 'd', "==", PUT(A))
OPERATION(OF_GLOBAL, "cvta.global.u64", 'd', "==", PUT(A))
OPERATION(OF_SHARED, "cvta.shared.u64", 'd', "==", PUT(A))
OPERATION(OF_LOCAL, "cvta.local.u64", 'd', "==", PUT(A))

OPERATION(PACK_32, "mov.pack.b32", 'h', "w==", PUT((u16)A | (u32)(u16)B << 16))
OPERATION(PACK_64, "mov.pack.b64", 'w', "d==", PUT((u32)A | (u64)(u32)B << 32))
OPERATION(UNPACK_32, "mov.unpack.b32", 'h', "=*w", u32 both = r[i->b]; r[i->a] = both >> 16;
    PUT(both & 0xffff))
OPERATION(UNPACK_64, "mov.unpack.b64", 'w', "=*d", u64 both = r[i->b]; r[i->a] = both >> 32;
    PUT(both & 0xffffffff))

OPERATION(FENCE_GROUP, "membar.cta", 0, "", )
OPERATION(FENCE_DEVICE, "membar.gl", 0, "", )
OPERATION(TRAP, "trap", 0, "", FAIL(PTX_TRAPPED))
