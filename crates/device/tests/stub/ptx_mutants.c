/* Mutants of functions, run beside them. See ptx_calls.h. */

#include "memory.h"
#include "ptx_calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Launches that a mutant may live through, texts of a kernel that have mutants, and branches that a
 * mutant may take. */
enum { LAUNCHES_MAX = 200, TEXTS_MAX = 3, BRANCHES_MAX = 1 << 18 };

struct mutant { const struct ptx_function *function; char reported[256]; int launches, is_found; };
/* The mutants of a text's kernel. */
struct family { char name[128]; unsigned long long text; struct mutant *mutants; int count;
    struct family *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct family *families;

static void report(void)
{
    int found = 0, all = 0;
    for (struct family *own = families; own; own = own->next)
        for (int i = 0; i < own->count; i++) {
            struct mutant *mutant = &own->mutants[i];
            all += 1, found += mutant->is_found;
            if (!mutant->is_found)
                fprintf(stderr, "mutants: %s lives after %d launches: %s\n", own->name,
                mutant->launches, mutant->reported);
        }
    fprintf(stderr, "mutants: %d of %d found\n", found, all);
}

static unsigned long long hash(const char *text)
{
    unsigned long long all = 14695981039346656037ull;
    for (; *text; text++) all = (all ^ (unsigned char)*text) * 1099511628211ull;
    return all;
}

static struct family *make(const char *name, const char *text, unsigned long long number)
{
    const char *seed = getenv("STUB_MUTANT_SEED");
    unsigned random = (seed ? strtoul(seed, 0, 10) : 1) ^ (unsigned)hash(name);
    struct family *own = calloc(1, sizeof *own);
    snprintf(own->name, sizeof own->name, "%s", name);
    own->text = number;
    own->mutants = calloc(atoi(getenv("STUB_MUTANTS")), sizeof *own->mutants);
    while (own->count < atoi(getenv("STUB_MUTANTS"))) {
        char why[256];
        struct mutant *mutant = &own->mutants[own->count++];
        char *damaged = ptx_mutated(text, name, &random, mutant->reported, sizeof mutant->reported);
        struct ptx_module *module = damaged ? ptx_load(damaged, why, sizeof why) : 0;
        mutant->is_found = !module;
        if (module) mutant->function = ptx_find(module, name);
        free(damaged);
    }
    if (!families) atexit(report);
    own->next = families;
    return families = own;
}

static struct family *family_of(const struct ptx_function *function)
{
    const char *text = ptx_text(function);
    unsigned long long number = hash(text);
    for (struct family *own = families; own; own = own->next)
        if (own->text == number && !strcmp(own->name, ptx_name(function))) return own;
    /* Texts for more layouts differ in numbers. */
    int texts = 0;
    for (struct family *own = families; own; own = own->next)
        texts += !strcmp(own->name, ptx_name(function));
    return texts == TEXTS_MAX ? 0 : make(ptx_name(function), text, number);
}

/* Memory as it was before these stores. */
static void undo(const struct ptx_journal *journal)
{
    for (unsigned i = journal->count; i-- > 0;) {
        const struct ptx_store *own = &journal->items[i];
        memcpy(own->at, own->before, own->length);
        memcpy(own->states, own->states_before, own->length);
    }
}

/* The bytes that each store's place holds now. */
static unsigned char (*places(const struct ptx_journal *journal))[16]
{
    unsigned char (*all)[16] = calloc(journal->count + 1, sizeof *all);
    for (unsigned i = 0; i < journal->count; i++)
        memcpy(all[i], journal->items[i].at, journal->items[i].length);
    return all;
}

static int are_at_places(const struct ptx_journal *journal, unsigned char (*all)[16])
{
    int are = 1;
    for (unsigned i = 0; i < journal->count && are; i++)
        are = !memcmp(journal->items[i].at, all[i], journal->items[i].length);
    return are;
}

static void put_at_places(const struct ptx_journal *journal, unsigned char (*all)[16])
{
    for (unsigned i = 0; i < journal->count; i++) {
        memcpy(journal->items[i].at, all[i], journal->items[i].length);
        memset(journal->items[i].states, WRITTEN, journal->items[i].length);
    }
}

/* Whether a mutant faults, or leaves other memory than the function whose stores are `first`, which
 * left `after`. */
static int is_seen(const struct mutant *mutant, const struct ptx_grid *grid,
    const struct ptx_journal *first, unsigned char (*after)[16])
{
    char why[512];
    struct ptx_journal journal = { 0 };
    struct ptx_grid own = *grid;
    own.branches_max = BRANCHES_MAX;
    own.journal = &journal;
    undo(first);
    int is = ptx_run(mutant->function, &own, why, sizeof why) || !are_at_places(first, after);
    unsigned char (*left)[16] = places(&journal);
    undo(&journal);
    put_at_places(first, after);
    is |= !are_at_places(&journal, left);
    free(left);
    free(journal.items);
    return is;
}

enum ptx_outcome ptx_run_mutants(const struct ptx_function *function, const struct ptx_grid *grid,
    char *why, size_t why_bytes)
{
    struct ptx_journal journal = { 0 };
    struct ptx_grid own = *grid;
    own.journal = &journal;
    pthread_mutex_lock(&lock);
    struct family *family = family_of(function);
    enum ptx_outcome outcome = ptx_run(function, &own, why, why_bytes);
    unsigned char (*after)[16] = places(&journal);
    for (int i = 0; family && !outcome && i < family->count; i++) {
        struct mutant *mutant = &family->mutants[i];
        if (mutant->is_found || mutant->launches == LAUNCHES_MAX) continue;
        mutant->launches++;
        mutant->is_found = is_seen(mutant, grid, &journal, after);
    }
    free(after);
    free(journal.items);
    pthread_mutex_unlock(&lock);
    return outcome;
}
