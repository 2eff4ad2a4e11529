/*
 * Sends Ethernet frames for some seconds.
 *
 * sender INTERFACE SECONDS RATE LENGTH...
 *
 * RATE is in frames a second, each at its own time; with 0 it sends as fast as the interface takes
 * them. The lengths repeat. Each frame is UDP over IPv4 between unused addresses, one of 256
 * flows.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define FLOWS 256
#define BATCH 64
#define FRAME 2048

static unsigned char frames[FLOWS][FRAME];

static void fill(unsigned char *frame, unsigned length, unsigned flow)
{
    static const unsigned char head[] = { 2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98, 8, 0, 0x45, 0 };
    memcpy(frame, head, sizeof head);
    frame[16] = (length - 14) >> 8, frame[17] = (length - 14) & 255;
    frame[22] = 64, frame[23] = 17;
    memcpy(frame + 26, "\x0a\x09\x00\x01\x0a\x09\x00\x02", 8);
    unsigned sum = 0;
    for (int at = 14; at < 34; at += 2) sum += frame[at] << 8 | frame[at + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16));
    frame[24] = sum >> 8, frame[25] = sum;
    frame[34] = 0x10, frame[35] = flow, frame[36] = 0x20;
    frame[38] = (length - 34) >> 8, frame[39] = (length - 34) & 255;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    if (count < 5) return 2;
    int fd = socket(AF_PACKET, SOCK_RAW, 0), bypass = 1;
    struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(words[1]) };
    if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to)) return perror("bind"), 1;
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass);
    static struct iovec parts[FLOWS];
    static struct mmsghdr messages[FLOWS];
    for (int flow = 0; flow < FLOWS; flow++) {
        unsigned length = atoi(words[4 + flow % (count - 4)]);
        fill(frames[flow], length, flow);
        parts[flow] = (struct iovec){ frames[flow], length };
        messages[flow].msg_hdr = (struct msghdr){ .msg_iov = &parts[flow], .msg_iovlen = 1 };
    }
    double begins = now(), seconds = atof(words[2]), rate = atof(words[3]), passed;
    unsigned long sent = 0, tried = 0;
    while ((passed = now() - begins) < seconds) {
        unsigned at = tried % FLOWS, most = FLOWS - at < BATCH ? FLOWS - at : BATCH;
        unsigned long due = rate ? (unsigned long)(passed * rate) : tried + BATCH;
        if (due <= tried) continue;
        unsigned next = due - tried < most ? due - tried : most;
        int done = sendmmsg(fd, messages + at, next, MSG_DONTWAIT);
        if (done > 0) sent += done;
        tried += next;
    }
    printf("%lu\n", sent);
    return 0;
}
