/*
 * Sends Ethernet frames for some seconds, as fast as a core can. The system's test call for XDP
 * programs hands them to the interface, without a socket.
 *
 * flood INTERFACE SECONDS LENGTH...
 *
 * The length of each frame is drawn from those. It is UDP over IPv4 between unused addresses, of
 * one of 256 flows. The other end of a veth pair takes such frames if it has GRO or an XDP program.
 * Prints how many the interface has sent since it was made.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define LENGTHS_MAX 64
#define FRAME 2048
#define BATCH 64
/* Where fields are in a frame. */
#define IP_LENGTH 16
#define IP_CHECKSUM 24
#define FLOW 35
#define UDP_LENGTH 38
#define HEADERS 42

static unsigned char frame[FRAME];
static struct bpf_insn program[16 + 16 * LENGTHS_MAX];
static unsigned steps;

static void put(unsigned at, unsigned value)
{
    frame[at] = value >> 8, frame[at + 1] = value & 255;
}

static void fill(unsigned length)
{
    static const unsigned char head[] = { 2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, 8, 0, 0x45, 0 };
    memcpy(frame, head, sizeof head);
    put(IP_LENGTH, length - 14), put(IP_CHECKSUM, 0);
    frame[22] = 64, frame[23] = 17;
    memcpy(frame + 26, "\x0a\x09\x00\x01\x0a\x09\x00\x02", 8);
    unsigned sum = 0;
    for (int at = 14; at < 34; at += 2) sum += frame[at] << 8 | frame[at + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    put(IP_CHECKSUM, ~(sum + (sum >> 16)));
    frame[34] = 0x10, frame[36] = 0x20;
    put(UDP_LENGTH, length - 34);
}

static void add(unsigned code, unsigned to, unsigned from, int offset, int value)
{
    program[steps++] = (struct bpf_insn){ code, to, from, offset, value };
}

/* Stores the two bytes of `frame` at `at`. */
static void store(unsigned to, unsigned at)
{
    unsigned short value;
    memcpy(&value, frame + at, sizeof value);
    add(BPF_ST | BPF_H | BPF_MEM, to, 0, at, value);
}

/* Cuts a frame of `longest` bytes to one of `count` lengths, writes its flow, and sends it. */
static void write_program(char **lengths, unsigned count, unsigned longest)
{
    enum { DRAWN = 0, DATA = 2, END = 3, CONTEXT = 6, RANDOM = 7 };
    add(BPF_ALU64 | BPF_MOV | BPF_X, CONTEXT, 1, 0, 0);
    add(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_prandom_u32);
    add(BPF_ALU64 | BPF_MOV | BPF_X, RANDOM, DRAWN, 0, 0);
    add(BPF_ALU64 | BPF_RSH | BPF_K, RANDOM, 0, 0, 24);
    add(BPF_ALU64 | BPF_MOD | BPF_K, DRAWN, 0, 0, count);
    for (unsigned number = 0; number < count; number++) {
        unsigned length = atoi(lengths[number]), jump = steps;
        fill(length);
        add(BPF_JMP | BPF_JNE | BPF_K, DRAWN, 0, 0, number);
        add(BPF_ALU64 | BPF_MOV | BPF_X, 1, CONTEXT, 0, 0);
        add(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, (int)length - (int)longest);
        add(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_xdp_adjust_tail);
        add(BPF_LDX | BPF_W | BPF_MEM, DATA, CONTEXT, 0, 0);
        add(BPF_LDX | BPF_W | BPF_MEM, END, CONTEXT, 4, 0);
        add(BPF_ALU64 | BPF_MOV | BPF_X, 1, DATA, 0, 0);
        add(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, HEADERS);
        add(BPF_JMP | BPF_JGT | BPF_X, 1, END, 4, 0);
        store(DATA, IP_LENGTH), store(DATA, IP_CHECKSUM), store(DATA, UDP_LENGTH);
        add(BPF_STX | BPF_B | BPF_MEM, DATA, RANDOM, FLOW, 0);
        add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_TX);
        add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
        program[jump].off = steps - jump - 1;
    }
    add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_DROP);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static long bpf(int command, union bpf_attr *values)
{
    return syscall(SYS_bpf, command, values, sizeof *values);
}

static unsigned long sent_by(const char *interface)
{
    unsigned long packets = 0;
    char line[512];
    size_t length = strlen(interface);
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *name = line + strspn(line, " ");
        if (strncmp(name, interface, length) || name[length] != ':') continue;
        sscanf(name + length + 1, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &packets);
    }
    if (file) fclose(file);
    return packets;
}

/* A signal ends the test call. */
static void ring(int number) { (void)number; }

int main(int count, char **words)
{
    if (count < 4 || count - 3 > LENGTHS_MAX) return 2;
    int longest = 0;
    for (int at = 3; at < count; at++) {
        int length = atoi(words[at]);
        if (length < HEADERS || length > FRAME) return 2;
        longest = length > longest ? length : longest;
    }
    write_program(words + 3, count - 3, longest);
    union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP };
    load.insns = (unsigned long)program, load.insn_cnt = steps;
    load.license = (unsigned long)"MIT";
    int loaded = bpf(BPF_PROG_LOAD, &load);
    if (loaded < 0) return perror("BPF_PROG_LOAD"), 1;
    fill(longest);
    struct xdp_md context = { .data_end = longest, .ingress_ifindex = if_nametoindex(words[1]) };
    union bpf_attr run = { .test = { .prog_fd = loaded, .repeat = 1u << 31, .batch_size = BATCH } };
    run.test.data_in = (unsigned long)frame, run.test.data_size_in = longest;
    run.test.ctx_in = (unsigned long)&context, run.test.ctx_size_in = sizeof context;
    run.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    struct sigaction action = { .sa_handler = ring };
    sigaction(SIGALRM, &action, NULL);
    double seconds = atof(words[2]);
    struct itimerval timer = { .it_value = { (long)seconds, (seconds - (long)seconds) * 1e6 } };
    setitimer(ITIMER_REAL, &timer, NULL);
    if (bpf(BPF_PROG_TEST_RUN, &run) < 0 && errno != EINTR) return perror("BPF_PROG_TEST_RUN"), 1;
    printf("%lu\n", sent_by(words[1]));
    return 0;
}
