// Sends frames with random contents from a node: flood INTERFACE KIND SECONDS.
// Kinds: igmp2, igmp3, mld (reports of random groups), mac (random source addresses), tcp (random
// addresses and ports), arp (ARP and neighbour discovery), out (prints instead).
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

static uint64_t state = 88172645463325252ULL;

static void noise(unsigned char *to, int bytes) {
    for (int i = 0; i < bytes; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        to[i] = (unsigned char)(state >> 16);
    }
}

static void word(unsigned char *to, int value) {
    to[0] = (unsigned char)(value >> 8);
    to[1] = (unsigned char)value;
}

static void set(unsigned char *to, const char *bytes, int length) { memcpy(to, bytes, (size_t)length); }

static void ipv4(unsigned char *ip, int protocol, int payload) {
    ip[0] = 0x45;
    word(ip + 2, 20 + payload);
    ip[8] = 1;
    ip[9] = (unsigned char)protocol;
    set(ip + 12, "\x0a\x00\x00\x02", 4);
}

static int igmp2(unsigned char *ip) {
    ipv4(ip, 2, 8);
    set(ip + 16, "\xe0\x00\x00\x16", 4);
    ip[20] = 0x16;
    noise(ip + 24, 4);
    ip[24] = (unsigned char)(225 + ip[24] % 14);
    return 28;
}

static int igmp3(unsigned char *ip) {
    int records = 180;
    ipv4(ip, 2, 8 + 8 * records);
    set(ip + 16, "\xe0\x00\x00\x16", 4);
    ip[20] = 0x22;
    word(ip + 26, records);
    for (int i = 0; i < records; i++) {
        unsigned char *record = ip + 28 + 8 * i;
        record[0] = 4;
        noise(record + 4, 4);
        record[4] = (unsigned char)(225 + record[4] % 14);
    }
    return 28 + 8 * records;
}

static int mld(unsigned char *ip) {
    int records = 70, payload = 16 + 20 * records;
    ip[0] = 0x60;
    word(ip + 4, payload);
    ip[7] = 1;
    set(ip + 8, "\xfe\x80", 2);
    ip[23] = 2;
    set(ip + 24, "\xff\x02", 2);
    ip[39] = 0x16;
    set(ip + 40, "\x3a\x00\x05\x02\x00\x00\x01\x00", 8);
    ip[48] = 143;
    word(ip + 54, records);
    for (int i = 0; i < records; i++) {
        unsigned char *record = ip + 56 + 20 * i;
        record[0] = 4;
        set(record + 4, "\xff\x0e", 2);
        noise(record + 6, 14);
    }
    return 40 + payload;
}

static int tcp(unsigned char *ip) {
    ipv4(ip, 6, 21);
    noise(ip + 16, 12);
    ip[16] = 10;
    ip[32] = 0x50;
    ip[33] = 2;
    return 46;
}

static int arp(unsigned char *ip, const unsigned char *own) {
    set(ip, "\x00\x01\x08\x00\x06\x04\x00\x01", 8);
    memcpy(ip + 8, own, 6);
    noise(ip + 14, 4);
    noise(ip + 24, 4);
    return 46;
}

static int solicitation(unsigned char *ip) {
    ip[0] = 0x60;
    ip[5] = 24;
    ip[6] = 58;
    ip[7] = 255;
    set(ip + 8, "\xfe\x80", 2);
    noise(ip + 16, 8);
    set(ip + 24, "\xff\x02", 2);
    set(ip + 35, "\x01\xff", 2);
    noise(ip + 37, 3);
    ip[40] = 135;
    noise(ip + 48, 16);
    return 64;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "flood INTERFACE KIND SECONDS\n");
        return 2;
    }
    const char *kind = words[2];
    double end = seconds() + atof(words[3]);
    unsigned long sent = 0;
    if (!strcmp(kind, "out")) {
        for (; seconds() < end; sent++) puts("a line of a program that prints all that it does, for ever and ever");
        return 0;
    }
    int raw = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    struct ifreq request = {0};
    strncpy(request.ifr_name, words[1], IFNAMSIZ - 1);
    ioctl(raw, SIOCGIFINDEX, &request);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = request.ifr_ifindex};
    ioctl(raw, SIOCGIFHWADDR, &request);
    unsigned char own[6];
    memcpy(own, request.ifr_hwaddr.sa_data, 6);
    while (seconds() < end) {
        for (int i = 0; i < 64; i++, sent++) {
            unsigned char frame[1514] = {0}, *ip = frame + 14;
            int length, type = ETH_P_IP;
            memset(frame, 0xff, 6);
            memcpy(frame + 6, own, 6);
            if (!strcmp(kind, "igmp2") || !strcmp(kind, "igmp3")) {
                set(frame, "\x01\x00\x5e\x00\x00\x16", 6);
                length = kind[4] == '2' ? igmp2(ip) : igmp3(ip);
            } else if (!strcmp(kind, "mld")) {
                set(frame, "\x33\x33\x00\x00\x00\x16", 6);
                length = mld(ip);
                type = ETH_P_IPV6;
            } else if (!strcmp(kind, "tcp")) {
                length = tcp(ip);
            } else if (!strcmp(kind, "arp") && i % 2) {
                length = arp(ip, own);
                type = ETH_P_ARP;
            } else if (!strcmp(kind, "arp")) {
                set(frame, "\x33\x33\xff", 3);
                length = solicitation(ip);
                type = ETH_P_IPV6;
            } else {
                noise(frame + 7, 5);
                frame[6] = 6;
                length = 46;
                type = 0x88b5;
            }
            word(frame + 12, type);
            sendto(raw, frame, (size_t)(14 + length), 0, (struct sockaddr *)&to, sizeof to);
        }
    }
    fprintf(stderr, "%lu frames\n", sent);
    return 0;
}
