/* Reads a text of PTX: its variables and functions. See ptx.h. */

#include "ptx_code.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 64, CONSTANT_BYTES_MAX = 1 << 16, SHARED_BYTES_MAX = 48 << 10,
    LOCAL_BYTES_MAX = 1 << 19, REGISTERS_MAX = 1 << 20 };

void ptx_fail(struct reader *reader, const char *format, ...)
{
    va_list values;
    int length = snprintf(reader->why, reader->why_bytes, "PTX, line %u: ", reader->line);
    va_start(values, format);
    if (length >= 0 && (size_t)length < reader->why_bytes)
        vsnprintf(reader->why + length, reader->why_bytes - length, format, values);
    va_end(values);
    longjmp(reader->failed, 1);
}

void *grown(void *items, u32 *room, size_t bytes)
{
    u32 before = *room;
    *room = before ? 2 * before : 16;
    items = realloc(items, *room * bytes);
    if (!items) abort();
    memset((char *)items + before * bytes, 0, (*room - before) * bytes);
    return items;
}

/* Past spaces and comments. */
static void skip(struct reader *reader)
{
    for (;; reader->at++) {
        if (!strncmp(reader->at, "//", 2)) reader->at += strcspn(reader->at, "\n");
        if (*reader->at == '\n') reader->line++;
        else if (!isspace((unsigned char)*reader->at)) return;
    }
}

static int is_word(char one) { return isalnum((unsigned char)one) || one && strchr("_.$%", one); }

/* The next word, or the next sign by itself; empty at the end. */
static const char *next(struct reader *reader, char word[128])
{
    size_t length = 0;
    skip(reader);
    while (length < 127 && is_word(reader->at[length])) length++;
    if (!length && *reader->at) length = 1;
    if (length == 127) ptx_fail(reader, "a word that is too long: %.40s", reader->at);
    memcpy(word, reader->at, length);
    word[length] = 0;
    reader->at += length;
    return word;
}

static void want(struct reader *reader, const char *sign)
{
    char word[128];
    if (strcmp(next(reader, word), sign))
        ptx_fail(reader, "'%s' where '%s' was expected", word, sign);
}

static u64 number(struct reader *reader)
{
    char word[128], *end;
    u64 value = strtoull(next(reader, word), &end, 0);
    if (!isdigit((unsigned char)*word) || *end && strcmp(end, "U"))
        ptx_fail(reader, "'%s' where a number was expected", word);
    return value;
}

/* The bytes of a type, .b8 to .u64. */
static u32 type_bytes(struct reader *reader, const char *type)
{
    static const char *const ENDS[] = { "8", "16", "32", "64" };
    for (int i = 0; i < 4; i++)
        if (type[0] == '.' && type[1] && strchr("bsu", type[1]) && !strcmp(type + 2, ENDS[i]))
            return 1 << i;
    ptx_fail(reader, "unknown type %s", type);
}

static u64 up_to(u64 at, u64 align) { return (at + align - 1) / align * align; }

static void initialise(struct reader *reader, struct variable *own, u32 bytes)
{
    want(reader, "{");
    for (u64 at = 0;; at += bytes) {
        u64 value = number(reader);
        if (at + bytes > own->bytes)
            ptx_fail(reader, "more values than %s has room for", own->name);
        memcpy(reader->module->constant_bytes + own->at + at, &value, bytes);
        skip(reader);
        if (*reader->at != ',') break;
        reader->at++;
    }
    want(reader, "}");
}

/* A variable after its space's directive: [.align N] TYPE NAME[COUNT] [= {...}]; */
static void read_variable(struct reader *reader, struct ptx_function *function, enum space space,
    int is_extern)
{
    struct ptx_module *module = reader->module;
    struct variable own = { .space = space, .is_dynamic = is_extern };
    char word[128];
    u64 align = 1;
    if (!strcmp(next(reader, word), ".align")) align = number(reader), next(reader, word);
    u32 bytes = type_bytes(reader, word);
    if (align < bytes) align = bytes;
    if (align & (align - 1) || align > 256)
        ptx_fail(reader, "an alignment of %llu", (unsigned long long)align);
    next(reader, own.name);
    own.bytes = bytes;
    skip(reader);
    if (*reader->at == '[') {
        want(reader, "[");
        skip(reader);
        own.bytes = *reader->at == ']' ? 0 : number(reader);
        if (own.bytes > 1 << 20 || (own.bytes == 0) != is_extern)
            ptx_fail(reader, "the size of %s", own.name);
        own.bytes *= bytes;
        want(reader, "]");
    }
    u64 none = 0, *len = space == CONSTANT ? &module->constant_len : function && space == SHARED
        ? &function->shared_bytes : function ? &function->local_bytes : &none;
    u64 most = space == CONSTANT ? CONSTANT_BYTES_MAX : space == SHARED ? SHARED_BYTES_MAX
        : LOCAL_BYTES_MAX;
    if (len == &none && !is_extern) ptx_fail(reader, "memory outside of functions: %s", own.name);
    own.at = up_to(*len, align);
    if (!is_extern) *len = own.at + own.bytes + GAP;
    if (*len > most) ptx_fail(reader, "%s needs more memory than there is", own.name);
    skip(reader);
    if (space == CONSTANT) {
        memset(module->constant_states + own.at, 3, own.bytes);
        if (*reader->at == '=') want(reader, "="), initialise(reader, &own, bytes);
    }
    want(reader, ";");
    *(space == CONSTANT || is_extern ? APPEND(module->variables)
        : APPEND(function->variables)) = own;
}

/* .reg .TYPE NAME; or NAME<COUNT>; */
static void read_registers(struct reader *reader, struct ptx_function *function)
{
    char type[128], word[128];
    struct range *own = APPEND(function->ranges);
    next(reader, type);
    own->class = !strcmp(type, ".pred") ? 'p' : "?hw?d"[type_bytes(reader, type) / 2];
    if (own->class == '?') ptx_fail(reader, "registers of %s", type);
    if (strlen(next(reader, word)) >= sizeof own->name || *word != '%')
        ptx_fail(reader, "a register called %s", word);
    strcpy(own->name, word);
    own->first = function->registers;
    own->count = own->is_one = 1;
    skip(reader);
    if (*reader->at == '<') {
        want(reader, "<");
        u64 count = number(reader);
        own->is_one = 0;
        if (count > REGISTERS_MAX) ptx_fail(reader, "too many registers");
        own->count = count;
        want(reader, ">");
    }
    if ((function->registers += own->count) > REGISTERS_MAX) ptx_fail(reader, "too many registers");
    want(reader, ";");
}

static void read_parameters(struct reader *reader, struct ptx_function *function)
{
    char word[128];
    want(reader, "(");
    for (;;) {
        next(reader, word);
        if (!strcmp(word, ")")) return;
        if (!strcmp(word, ",")) continue;
        if (strcmp(word, ".param")) ptx_fail(reader, "'%s' among parameters", word);
        struct parameter *own = APPEND(function->parameters);
        own->bytes = type_bytes(reader, next(reader, word));
        if (own->bytes < 4) ptx_fail(reader, "a parameter of %s", word);
        /* .ptr .global .align N may stand before the name. */
        do next(reader, own->name); while (*own->name == '.' || isdigit((unsigned char)*own->name));
        if (*own->name == '[') ptx_fail(reader, "a parameter that is an array");
        own->slot = function->parameters.count - 1;
    }
}

static void read_launch_bounds(struct reader *reader, struct ptx_function *function)
{
    char word[128];
    while (strcmp(next(reader, word), "{")) {
        if (!*word || strchr(";(){}", *word))
            ptx_fail(reader, "'%s' where a body was expected", word);
        if (!strcmp(word, ".maxntid") || !strcmp(word, ".reqntid"))
            function->items_max = number(reader);
    }
}

static void read_label_or_instruction(struct reader *reader, struct ptx_function *function)
{
    int is_label = *reader->at == '$';
    size_t length = strcspn(reader->at, is_label ? ":\n" : ";\n");
    if (is_label && reader->at[length] == ':') {
        struct label *own = APPEND(function->labels);
        if (length >= sizeof own->name) ptx_fail(reader, "a label that is too long");
        memcpy(own->name, reader->at, length);
        own->at = function->code.count;
        reader->at += length + 1;
        return;
    }
    char statement[256];
    if (reader->at[length] != ';' || length >= sizeof statement)
        ptx_fail(reader, "a statement that does not end in its line");
    memcpy(statement, reader->at, length);
    statement[length] = 0;
    ptx_decode(reader, function, statement);
    reader->at += length + 1;
}

static void read_body(struct reader *reader, struct ptx_function *function)
{
    char word[128];
    function->parameters_at = 0;
    for (;;) {
        skip(reader);
        if (*reader->at == '}') break;
        if (*reader->at != '.') {
            /* No registers are declared after the first instruction. */
            if (!function->parameters_at) {
                function->parameters_at = function->registers + SPECIALS;
                function->constants_at = function->parameters_at + function->parameters.count;
            }
            read_label_or_instruction(reader, function);
            continue;
        }
        next(reader, word);
        if (!strcmp(word, ".reg") && !function->parameters_at) read_registers(reader, function);
        else if (!strcmp(word, ".shared")) read_variable(reader, function, SHARED, 0);
        else if (!strcmp(word, ".local")) read_variable(reader, function, LOCAL, 0);
        else if (!strcmp(word, ".pragma") || !strcmp(word, ".loc"))
            reader->at += strcspn(reader->at, "\n");
        else ptx_fail(reader, "unknown directive %s", word);
    }
    want(reader, "}");
    ptx_finish(reader, function);
}

static void read_function(struct reader *reader)
{
    struct ptx_function *own = calloc(1, sizeof *own);
    *APPEND(reader->module->functions) = own;
    own->module = reader->module;
    own->items_max = 1024;
    next(reader, own->name);
    read_parameters(reader, own);
    read_launch_bounds(reader, own);
    read_body(reader, own);
}

static void read_text(struct reader *reader)
{
    char word[128];
    int is_extern = 0;
    while (*next(reader, word)) {
        if (!strcmp(word, ".version") || !strcmp(word, ".target")
            || !strcmp(word, ".address_size")) {
            reader->at += strcspn(reader->at, "\n");
            continue;
        }
        if (!strcmp(word, ".visible")) continue;
        if (!strcmp(word, ".extern")) { is_extern = 1; continue; }
        if (!strcmp(word, ".entry")) read_function(reader);
        else if (!strcmp(word, ".const")) read_variable(reader, 0, CONSTANT, 0);
        else if (!strcmp(word, ".shared") && is_extern) read_variable(reader, 0, SHARED, 1);
        else ptx_fail(reader, "unknown directive %s", word);
        is_extern = 0;
    }
}

static int is_read(struct reader *reader)
{
    if (setjmp(reader->failed)) return 0;
    read_text(reader);
    return 1;
}

struct ptx_module *ptx_load(const char *text, char *why, size_t why_bytes)
{
    struct ptx_module *module = calloc(1, sizeof *module);
    module->text = strdup(text);
    module->constant_bytes = calloc(2, CONSTANT_BYTES_MAX);
    module->constant_states = module->constant_bytes + CONSTANT_BYTES_MAX;
    struct reader reader = { .at = module->text, .line = 1, .module = module, .why = why,
        .why_bytes = why_bytes };
    for (const char *at = module->text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : 0)
        *APPEND(module->lines) = at;
    if (is_read(&reader)) return module;
    ptx_unload(module);
    return 0;
}

void ptx_unload(struct ptx_module *module)
{
    for (u32 i = 0; i < module->functions.count; i++) {
        struct ptx_function *own = module->functions.items[i];
        free(own->parameters.items), free(own->ranges.items), free(own->variables.items),
            free(own->code.items);
        free(own->constants.items), free(own->lists.items), free(own->labels.items),
            free(own->jumps.items), free(own);
    }
    free(module->lines.items), free(module->variables.items), free(module->functions.items);
    free(module->constant_bytes), free(module->text), free(module);
}

const struct ptx_function *ptx_find(const struct ptx_module *module, const char *name)
{
    for (u32 i = 0; i < module->functions.count; i++)
        if (!strcmp(module->functions.items[i]->name, name)) return module->functions.items[i];
    return 0;
}

const char *ptx_name(const struct ptx_function *function) { return function->name; }
const char *ptx_text(const struct ptx_function *function) { return function->module->text; }
unsigned ptx_parameters(const struct ptx_function *function) { return function->parameters.count; }
unsigned ptx_parameter_bytes(const struct ptx_function *function, unsigned index) {
    return function->parameters.items[index].bytes; }
