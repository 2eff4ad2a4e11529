/* Which packets have a payload to look into, and which group of rules they are of. */

/* No group, no id, no further output; of an entry: case does not count. */
#define NONE 0xffffffffu

/* Whether a packet has a payload to look into. */
FUNCTION int has_text(Packet p)
{
    u32 flags = header_flags(p);
    if (malformed(p) || flags & FLAG_FRAGMENT) return 0;
    if (!(flags & FLAG_TRANSPORT) && ip_protocol(p) != IP_PROTOCOL_SCTP) return 0;
    return payload_offset(p) < ip_end(p) && ip_end(p) <= frame_len(p);
}

FUNCTION int has_ports(u32 protocol)
{
    return protocol == IP_PROTOCOL_TCP || protocol == IP_PROTOCOL_UDP;
}

/* Ingress found both ports; what it found is believed within the frame only. */
FUNCTION int lacks_ports(Packet p)
{
    return has_ports(ip_protocol(p)) && l4_offset(p) + 4 > frame_len(p);
}

/* The number of a packet's group among all, by classes of its ports; the last class is that of
 * none. */
FUNCTION u32 number_of(Fields f, const GLOBAL u8 *port_classes, const GLOBAL u32 *numbers)
{
    u32 protocol = ip_protocol(f.packet), upper = 3, by_src = PORT_CLASSES - 1,
        by_dst = PORT_CLASSES - 1;
    if (protocol == IP_PROTOCOL_TCP) {
        upper = 0;
        by_src = port_classes[src_port_tcp(f)];
        by_dst = port_classes[0x10000 + dst_port_tcp(f)];
    } else if (protocol == IP_PROTOCOL_UDP) {
        upper = 1;
        by_src = port_classes[0x20000 + src_port_udp(f)];
        by_dst = port_classes[0x30000 + dst_port_udp(f)];
    } else if (protocol == IP_PROTOCOL_ICMP || protocol == IP_PROTOCOL_ICMPV6) {
        upper = 2;
    }
    return numbers[(upper * PORT_CLASSES + by_src) * PORT_CLASSES + by_dst];
}
