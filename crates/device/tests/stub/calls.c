/* Calls of the stub's functions: tests count them and make some fail. What cuda.h forbids is
 * printed and counted, and so is what would be slow or undefined on a GPU; the program ends with a
 * line for each, which the tests look at. With $STUB_MAY_WAIT waits are not counted. */

#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;

/* A function, how often it succeeded, and at which call from now on it gives `code`; at all of them
 * where that is negative. */
static struct called { char name[48]; int times, at, code; } called[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int misuses, stalls, unwritten;

static struct called *of(const char *name)
{
    struct called *at = called;
    while (at->name[0] && strcmp(at->name, name)) at++;
    snprintf(at->name, sizeof at->name, "%s", name);
    return at;
}

/* $STUB_FAIL is a function, the number of its call and the error, as in cuInit:1:999. */
static void read_fail(void)
{
    char name[48];
    int at, code;
    const char *text = getenv("STUB_FAIL");
    if (!text || sscanf(text, "%47[^:]:%d:%d", name, &at, &code) != 3) return;
    struct called *own = of(name);
    own->at = at;
    own->code = code;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

int call_fate(const char *name)
{
    pthread_once(&once, read_fail);
    pthread_mutex_lock(&lock);
    struct called *own = of(name);
    int code = own->at < 0 || own->at > 0 && --own->at == 0 ? own->code : 0;
    own->times += !code;
    pthread_mutex_unlock(&lock);
    return code;
}

int stub_times(const char *name)
{
    pthread_mutex_lock(&lock);
    int times = of(name)->times;
    pthread_mutex_unlock(&lock);
    return times;
}

/* The `at`th call from now on fails, 1 being the next. */
void stub_fail_at(const char *name, int at, int code)
{
    pthread_mutex_lock(&lock);
    struct called *own = of(name);
    own->at = at;
    own->code = code;
    pthread_mutex_unlock(&lock);
}

void stub_fail(const char *name, int code) { stub_fail_at(name, 1, code); }

/* The functions that were called, by number; null after the last. */
const char *stub_name(int number)
{
    return number < 64 && called[number].name[0] ? called[number].name : 0;
}

/* Errors after which nothing in a context succeeds, by the texts of cuda.h 13.0. */
int is_loss(int code)
{
    static const int codes[] = { 4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718,
        719, 721, 806, 810, 911, 999 };
    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code) return 1;
    return 0;
}

static void count(int *what)
{
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_mutex_unlock(&lock);
}

int misused(const char *name, int code, const char *why)
{
    count(&misuses);
    fprintf(stderr, "stub: %s gives %d: %s\n", name, code, why);
    return code;
}

void stalled(const char *name)
{
    if (getenv("STUB_MAY_WAIT")) return;
    count(&stalls);
    fprintf(stderr, "stub: %s waits for the device\n", name);
}

void copied_unwritten(address from, size_t bytes)
{
    count(&unwritten);
    const unsigned char *states = memory_states(from);
    size_t first = 0, all = 0;
    while (first < bytes && states[first] != UNWRITTEN) first++;
    for (size_t i = 0; i < bytes; i++) all += states[i] == UNWRITTEN;
    fprintf(stderr,
        "stub: of %zu bytes copied back %zu were never written, the first of them byte %zu\n",
        bytes, all, first);
}

int stub_misuses(void) { return misuses; }
int stub_stalls(void) { return stalls; }
int stub_unwritten(void) { return unwritten; }

__attribute__((destructor)) static void report(void)
{
    fprintf(
        stderr, "stub: %d misuses, %d stalls, %d unwritten copies\n", misuses, stalls, unwritten);
}
