/* One kernel text for CUDA C++ (NVRTC), OpenCL C 1.2 and plain C (the host reference device).
 *
 * A kernel is written for a work-group. What every work-item of the group does stands in blocks
 * headed by ITEMS; at the end of such a block all items wait for each other. So a kernel runs in
 * plain C too, where ITEMS is a loop:
 *
 *     KERNEL(reverse, 64)(const GLOBAL u32 *in, GLOBAL u32 *out)
 *     {
 *         SHARED(u32, held, 64);
 *         ITEMS { held[item()] = in[index()]; }
 *         ITEMS { out[index()] = held[63 - item()]; }
 *     }
 *
 * Rules of the dialect:
 *  - C99 without recursion, function pointers, variable-length arrays and goto; no name begins with
 *    `wl_`.
 *  - Inside ITEMS: `continue` ends the item's part; no `return`, no `break` out of it. No ITEMS
 *    inside ITEMS. Outside ITEMS stand only declarations and what is the same for all items.
 *  - Within a block of ITEMS no item touches a byte that another writes, not even with the same
 *    value, except by atomics.
 *  - A variable of an item lives within its block; what must outlive it lies in SHARED memory or is
 *    read again.
 *  - Every pointer says where it points: GLOBAL, LOCAL (to SHARED memory), CONSTANT; pointers to an
 *    item's own variables say nothing.
 *  - Parameters are GLOBAL pointers, u32 and u64. Pointers that are not RESTRICT may name
 *    neighbouring memory, never the same: the launch is refused where a written argument overlaps
 *    another.
 *  - Words in memory are little-endian, as on every device that this runs on.
 */

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

# define PLATFORM_CUDA 1
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef uint4 u32x4;

# define KERNEL(name, group_size) extern "C" __global__ void __launch_bounds__(group_size) name
# define FUNCTION static __device__ __forceinline__
# define GLOBAL
# define LOCAL
# define CONSTANT
# define CONSTANT_TABLE static __device__ __constant__ const
# define RESTRICT __restrict__
# define UNROLL _Pragma("unroll")

/* Up to 48 KiB in all. Beyond, one SHARED_BIG a kernel, whose bytes the kernel's description
 * names. */
# define SHARED(type, name, count) __shared__ type name[count]
# define SHARED_BIG(type, name, count) extern __shared__ type name[]
# define ITEMS for (int wl_once = 1; wl_once; wl_once = 0, __syncthreads())

FUNCTION u32 item(void) { return threadIdx.x; }
FUNCTION u32 group(void) { return blockIdx.x; }
FUNCTION u32 groups(void) { return gridDim.x; }
FUNCTION u32 group_size(void) { return blockDim.x; }

FUNCTION u32 rotate_left(u32 x, u32 bits) { return __funnelshift_l(x, x, bits); }
FUNCTION u32 swap_bytes(u32 x) { return __byte_perm(x, 0, 0x0123); }
FUNCTION u32 count_ones(u32 x) { return __popc(x); }
FUNCTION u32 leading_zeros(u32 x) { return __clz(x); }
FUNCTION u32 add_atomic(GLOBAL u32 *to, u32 value) { return atomicAdd(to, value); }
FUNCTION u32 or_atomic(GLOBAL u32 *to, u32 value) { return atomicOr(to, value); }
FUNCTION u32x4 load16(const GLOBAL void *from) { return *(const u32x4 *)from; }
FUNCTION void store16(GLOBAL void *to, u32x4 value) { *(u32x4 *)to = value; }

#elif defined(__OPENCL_VERSION__)

# define PLATFORM_OPENCL 1
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef uint4 u32x4;

/* Inlined always: PoCL 3.1 gives wrong results where a call that reads shared memory stays one. */
# define FUNCTION static inline __attribute__((always_inline))
# define KERNEL(name, group_size) \
    __kernel __attribute__((reqd_work_group_size(group_size, 1, 1))) void name
# define GLOBAL __global
# define LOCAL __local
# define CONSTANT __constant
# define CONSTANT_TABLE __constant const
# define RESTRICT restrict
# define UNROLL

# define SHARED(type, name, count) __local type name[count]
# define SHARED_BIG(type, name, count) __local type name[count]
# define ITEMS \
    for (int wl_once = 1; wl_once; \
         wl_once = 0, barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE))

FUNCTION u32 item(void) { return (u32)get_local_id(0); }
FUNCTION u32 group(void) { return (u32)get_group_id(0); }
FUNCTION u32 groups(void) { return (u32)get_num_groups(0); }
FUNCTION u32 group_size(void) { return (u32)get_local_size(0); }

FUNCTION u32 rotate_left(u32 x, u32 bits) { return rotate(x, bits); }
FUNCTION u32 swap_bytes(u32 x) { return as_uint(as_uchar4(x).wzyx); }
FUNCTION u32 count_ones(u32 x) { return popcount(x); }
FUNCTION u32 leading_zeros(u32 x) { return clz(x); }
FUNCTION u32 add_atomic(GLOBAL u32 *to, u32 value) { return atomic_add(to, value); }
FUNCTION u32 or_atomic(GLOBAL u32 *to, u32 value) { return atomic_or(to, value); }
FUNCTION u32x4 load16(const GLOBAL void *from) { return *(const GLOBAL u32x4 *)from; }
FUNCTION void store16(GLOBAL void *to, u32x4 value) { *(GLOBAL u32x4 *)to = value; }

#else

# define PLATFORM_HOST 1
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u32 x, y, z, w; } u32x4;

/* The loop over the groups is made by the device from the kernel's description. One thread runs a
 * launch. */
static _Thread_local u32 wl_item, wl_group, wl_groups, wl_group_size;

# define KERNEL(name, group_size) enum { wl_size_of_##name = group_size }; static void name
# define FUNCTION __attribute__((unused)) static inline
# define GLOBAL
# define LOCAL
# define CONSTANT
# define CONSTANT_TABLE static const
# define RESTRICT restrict
# define UNROLL

# define SHARED(type, name, count) type name[count]
# define SHARED_BIG(type, name, count) type name[count]
# define ITEMS for (wl_item = 0; wl_item < wl_group_size; wl_item++)

FUNCTION u32 item(void) { return wl_item; }
FUNCTION u32 group(void) { return wl_group; }
FUNCTION u32 groups(void) { return wl_groups; }
FUNCTION u32 group_size(void) { return wl_group_size; }

FUNCTION u32 rotate_left(u32 x, u32 bits) { return x << (bits & 31) | x >> (-bits & 31); }
FUNCTION u32 swap_bytes(u32 x) { return __builtin_bswap32(x); }
FUNCTION u32 count_ones(u32 x) { return (u32)__builtin_popcount(x); }
FUNCTION u32 leading_zeros(u32 x) { return x ? (u32)__builtin_clz(x) : 32; }
FUNCTION u32 add_atomic(u32 *to, u32 value) { u32 before = *to; *to += value; return before; }
FUNCTION u32 or_atomic(u32 *to, u32 value) { u32 before = *to; *to |= value; return before; }
FUNCTION u32x4 load16(const void *from)
{
    return *(const u32x4 *)__builtin_assume_aligned(from, 16);
}
FUNCTION void store16(void *to, u32x4 value) { *(u32x4 *)__builtin_assume_aligned(to, 16) = value; }

#endif

/* The item's number in the whole launch, and how many there are. */
FUNCTION u32 index(void) { return group() * group_size() + item(); }
FUNCTION u32 items(void) { return groups() * group_size(); }

FUNCTION u32x4 make16(u32 x, u32 y, u32 z, u32 w)
{
    u32x4 all;
    all.x = x; all.y = y; all.z = z; all.w = w;
    return all;
}

/* A little-endian word from an address that need not be a multiple of four. */
FUNCTION u32 load_bytes(const GLOBAL u8 *from)
{
    return from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24;
}
