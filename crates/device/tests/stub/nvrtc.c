/* The part of NVRTC's interface that the device uses, by the system's C compiler, for machines
 * without a GPU: a kernel text is compiled as plain C, and what stands for the cubin is an ELF's
 * first bytes (for PTX, a comment's) and the path of a library in $STUB_FOLDER, which the stub of
 * the driver loads. Kernels are found by their heads, KERNEL(name, group)(parameters), which stand
 * at the start of a line or are what a macro HEAD_OF_name says. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INVALID_INPUT = 3, INVALID_OPTION = 5, COMPILATION = 6 };

struct program { char *text, *log; char path[4096]; int is_ptx; };

int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 99; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int *archs) { *archs = 90; return 0; }

int nvrtcCreateProgram(struct program **to, const char *text, const char *name, int headers,
    const char **sources, const char **names)
{
    if (headers || sources || names || !name) return INVALID_INPUT;
    *to = calloc(1, sizeof **to);
    (*to)->text = strdup(text);
    (*to)->log = strdup("");
    return 0;
}

int nvrtcDestroyProgram(struct program **program)
{
    free((*program)->text);
    free((*program)->log);
    free(*program);
    *program = 0;
    return 0;
}

/* The function that runs a kernel for every group. All of its parameters are of one register; which
 * are pointers is in a text. */
static void write_run(FILE *out, const char *head)
{
    char name[128], kinds[64] = ".";
    int commas = 0;
    if (sscanf(head, "KERNEL(%127[A-Za-z0-9_],", name) != 1) return;
    for (const char *at = strstr(head, ")(") + 2; *at && *at != ')'; at++) {
        if (*at == ',' && commas < 62) kinds[++commas] = '.';
        if (*at == '*') kinds[commas] = 'p';
    }
    fprintf(out,
        "void wl_run_%s(u64 **values, u32 number)\n{\n    wl_groups = number;\n    wl_group_size = "
        "wl_size_of_%s;\n",
        name, name);
    fprintf(out, "    for (wl_group = 0; wl_group < number; wl_group++) ((void (*)())%s)(", name);
    for (int i = 0; i <= commas; i++) fprintf(out, "%s*values[%d]", i ? ", " : "", i);
    fprintf(out, ");\n}\nconst char wl_kinds_of_%s[] = \"%s\";\n", name, kinds);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    if (file) fread(text, 1, (1 << 16) - 1, file), fclose(file);
    return text;
}

int nvrtcCompileProgram(struct program *program, int count, const char **options)
{
    static const char DRIVEN[] = "cc -O1 -std=gnu11 -shared -fPIC -fno-strict-aliasing -fwrapv -w "
                                 "-o '%s.so' '%s' 2>'%s.log'";
    char command[3 * 4096], log[4096 + 8];
    program->is_ptx = count > 0 && !strcmp(options[0], "--gpu-architecture=compute_90");
    if (count < 1 || !program->is_ptx && strcmp(options[0], "--gpu-architecture=sm_90"))
        return INVALID_OPTION;
    snprintf(program->path, sizeof program->path - 8, "%s/kernels-XXXXXX.c", getenv("STUB_FOLDER"));
    FILE *source = fdopen(mkstemps(program->path, 2), "w");
    if (!source) return INVALID_INPUT;
    fputs(program->text, source);
    fputs("\n#line 1 \"stub\"\n", source);
    for (const char *at = program->text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        const char *head = !strncmp(at, "#define HEAD_OF_", 16) ? strchr(at + 16, ' ') + 1 : at;
        if (!strncmp(head, "KERNEL(", 7)) write_run(source, head);
    }
    fclose(source);
    snprintf(command, sizeof command, DRIVEN, program->path, program->path, program->path);
    int failed = system(command);
    snprintf(log, sizeof log, "%s.log", program->path);
    free(program->log);
    program->log = read_all(log);
    strcat(program->path, ".so");
    return failed ? COMPILATION : 0;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return 0;
}
int nvrtcGetProgramLog(struct program *program, char *log) { strcpy(log, program->log); return 0; }
static int image_size(struct program *program, size_t *size)
{
    *size = 4 + strlen(program->path) + 1;
    return 0;
}

static int image(struct program *program, char *to, const char *first)
{
    memcpy(to, first, 4);
    strcpy(to + 4, program->path);
    return 0;
}

/* There is no cubin for a virtual architecture. */
int nvrtcGetCUBINSize(struct program *program, size_t *size)
{
    return program->is_ptx ? (*size = 0) : image_size(program, size);
}
int nvrtcGetCUBIN(struct program *program, char *to)
{
    return program->is_ptx ? INVALID_INPUT : image(program, to, "\177ELF");
}
int nvrtcGetPTXSize(struct program *program, size_t *size) { return image_size(program, size); }
int nvrtcGetPTX(struct program *program, char *to) { return image(program, to, "//  "); }
