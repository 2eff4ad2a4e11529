/*
 * The peer of router_lookup: DPDK's rte_fib and rte_fib6 on the same prefixes, next hops and
 * addresses.
 *
 * rte_fib [EAL options] -- PREFIXES
 *
 * Reads one prefix a line, draws addresses as router_lookup does, and prints build time and
 * millions of look-ups a second for each way of look-up that the library offers. Sums of next hops
 * must be those of router_lookup.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_memory.h>
#include <rte_vect.h>

#define LOOKUPS (1 << 22)
#define BURST 256
#define ROUNDS 9
#define PREFIXES_MAX (2 << 20)

struct prefix4 { uint32_t address; uint8_t len; uint16_t hop; };
struct prefix6 { uint8_t address[16]; uint8_t len; uint16_t hop; };
typedef unsigned __int128 u128;

static struct prefix4 *v4;
static struct prefix6 *v6;
static uint32_t count4, count6;
static uint64_t state = 1;

static uint64_t next(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15ull);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static u128 next128(void)
{
	u128 high = next();
	return high << 64 | next();
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_value);
	return values[ROUNDS / 2];
}

static void read_prefixes(const char *name)
{
	FILE *file = fopen(name, "r");
	char line[128];
	if (file == NULL)
		exit(fprintf(stderr, "can't open %s\n", name));
	v4 = calloc(PREFIXES_MAX, sizeof(*v4));
	v6 = calloc(PREFIXES_MAX, sizeof(*v6));
	while (fgets(line, sizeof(line), file) && count4 < PREFIXES_MAX && count6 < PREFIXES_MAX) {
		line[strcspn(line, "\r\n")] = 0;
		uint32_t hash = 0x811c9dc5;
		for (const char *c = line; *c; c++)
			hash = (hash ^ (uint8_t)*c) * 0x01000193;
		char *slash = strchr(line, '/');
		if (slash == NULL)
			continue;
		*slash = 0;
		uint16_t hop = 1 + hash % 250;
		uint8_t len = atoi(slash + 1);
		struct in_addr address;
		if (inet_pton(AF_INET, line, &address) == 1)
			v4[count4++] = (struct prefix4){ ntohl(address.s_addr), len, hop };
		else if (inet_pton(AF_INET6, line, v6[count6].address) == 1) {
			v6[count6].len = len;
			v6[count6++].hop = hop;
		}
	}
	fclose(file);
}

static void report4(struct rte_fib *fib, const char *table, const char *way, const char *name,
		    uint32_t *addresses)
{
	uint64_t hops[BURST], sum = 0;
	double times[ROUNDS];
	for (uint32_t i = 0; i < LOOKUPS; i += BURST) {
		rte_fib_lookup_bulk(fib, addresses + i, hops, BURST);
		for (int k = 0; k < BURST; k++)
			sum += hops[k];
	}
	for (int round = 0; round < ROUNDS; round++) {
		double start = now();
		for (uint32_t i = 0; i < LOOKUPS; i += BURST) {
			rte_fib_lookup_bulk(fib, addresses + i, hops, BURST);
			__asm__ volatile("" : : "r"(hops) : "memory");
		}
		times[round] = now() - start;
	}
        printf("%-10s %-8s %7.1f M/s  sum %lu  %s\n", table, name, LOOKUPS / median(times) / 1e6,
            sum, way);
}

static void measure4(
    enum rte_fib_dir24_8_nh_sz width, const char *table, uint32_t *uniform, uint32_t *drawn)
{
	static const struct { enum rte_fib_lookup_type type; const char *name; } ways[] = {
		{ RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO, "scalar-macro" },
		{ RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE, "scalar-inline" },
		{ RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI, "scalar-uni" },
		{ RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512, "avx512" },
		{ RTE_FIB_LOOKUP_DEFAULT, "default" },
	};
	struct rte_fib_conf conf = { .type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = PREFIXES_MAX,
		.dir24_8 = { .nh_sz = width, .num_tbl8 = 1 << 14 } };
	double start = now();
	struct rte_fib *fib = rte_fib_create(table, SOCKET_ID_ANY, &conf);
	if (fib == NULL)
		exit(fprintf(stderr, "rte_fib_create: %s\n", rte_strerror(rte_errno)));
	uint32_t refused = 0;
	for (uint32_t i = 0; i < count4; i++)
		refused += rte_fib_add(fib, v4[i].address, v4[i].len, v4[i].hop) != 0;
	printf("build, IPv4        %7.1f ms  %s, %u refused\n", (now() - start) * 1e3, table, refused);
	for (unsigned i = 0; i < RTE_DIM(ways); i++) {
		if (rte_fib_select_lookup(fib, ways[i].type) != 0) {
			printf("%-10s %s is not offered\n", table, ways[i].name);
			continue;
		}
		report4(fib, table, ways[i].name, "uniform", uniform);
		report4(fib, table, ways[i].name, "table", drawn);
	}
	rte_fib_free(fib);
}

static void report6(
    struct rte_fib6 *fib, const char *way, const char *name, uint8_t (*addresses)[16])
{
	uint64_t hops[BURST], sum = 0;
	double times[ROUNDS];
	for (uint32_t i = 0; i < LOOKUPS; i += BURST) {
		rte_fib6_lookup_bulk(fib, addresses + i, hops, BURST);
		for (int k = 0; k < BURST; k++)
			sum += hops[k];
	}
	for (int round = 0; round < ROUNDS; round++) {
		double start = now();
		for (uint32_t i = 0; i < LOOKUPS; i += BURST) {
			rte_fib6_lookup_bulk(fib, addresses + i, hops, BURST);
			__asm__ volatile("" : : "r"(hops) : "memory");
		}
		times[round] = now() - start;
	}
	printf("%-10s %-8s %7.1f M/s  sum %lu  %s\n", "v6", name, LOOKUPS / median(times) / 1e6, sum, way);
}

static void measure6(uint8_t (*uniform)[16], uint8_t (*drawn)[16])
{
	static const struct { enum rte_fib6_lookup_type type; const char *name; } ways[] = {
		{ RTE_FIB6_LOOKUP_TRIE_SCALAR, "scalar" },
		{ RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512, "avx512" },
		{ RTE_FIB6_LOOKUP_DEFAULT, "default" },
	};
	struct rte_fib6_conf conf = { .type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = PREFIXES_MAX,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = 1 << 18 } };
	double start = now();
	struct rte_fib6 *fib = rte_fib6_create("v6", SOCKET_ID_ANY, &conf);
	if (fib == NULL) {
		printf("rte_fib6_create: %s\n", rte_strerror(rte_errno));
		return;
	}
	uint32_t refused = 0;
	for (uint32_t i = 0; i < count6; i++)
		refused += rte_fib6_add(fib, v6[i].address, v6[i].len, v6[i].hop) != 0;
	printf("build, IPv6        %7.1f ms  %u refused\n", (now() - start) * 1e3, refused);
	for (unsigned i = 0; i < RTE_DIM(ways); i++) {
		if (rte_fib6_select_lookup(fib, ways[i].type) != 0) {
			printf("v6         %s is not offered\n", ways[i].name);
			continue;
		}
		report6(fib, ways[i].name, "uniform", uniform);
		report6(fib, ways[i].name, "table", drawn);
	}
	rte_fib6_free(fib);
}

static void put128(uint8_t *to, u128 value)
{
	for (int i = 15; i >= 0; i--, value >>= 8)
		to[i] = value;
}

static u128 get128(const uint8_t *from)
{
	u128 value = 0;
	for (int i = 0; i < 16; i++)
		value = value << 8 | from[i];
	return value;
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	if (used < 0 || argc - used < 2)
		return fprintf(stderr, "usage: rte_fib [EAL options] -- PREFIXES\n"), 2;
	read_prefixes(argv[used + 1]);
	printf("%u IPv4 and %u IPv6 prefixes, vectors of up to %u bits\n", count4, count6,
	       rte_vect_get_max_simd_bitwidth());

	uint32_t *uniform = malloc(LOOKUPS * sizeof(*uniform)), *drawn = malloc(LOOKUPS * sizeof(*drawn));
	uint8_t(*uniform6)[16] = malloc(LOOKUPS * 16), (*drawn6)[16] = malloc(LOOKUPS * 16);
	for (int i = 0; i < LOOKUPS; i++)
		uniform[i] = next();
	for (int i = 0; i < LOOKUPS; i++) {
		struct prefix4 *p = &v4[next() % count4];
		drawn[i] = p->address | ((uint32_t)next() & (p->len == 32 ? 0 : UINT32_MAX >> p->len));
	}
	for (int i = 0; i < LOOKUPS; i++)
		put128(uniform6[i], next128());
	for (int i = 0; i < LOOKUPS; i++) {
		struct prefix6 *p = &v6[next() % count6];
		u128 host = p->len == 128 ? 0 : ~(u128)0 >> p->len;
		put128(drawn6[i], get128(p->address) | (next128() & host));
	}
	measure4(RTE_FIB_DIR24_8_2B, "v4 16-bit", uniform, drawn);
	measure4(RTE_FIB_DIR24_8_4B, "v4 32-bit", uniform, drawn);
	measure6(uniform6, drawn6);
	return 0;
}
