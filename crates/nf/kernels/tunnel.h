/* Parts of encapsulation and decapsulation: lengths of headers, their class, the link's type. */

/* Bytes of an IP header without options. */
FUNCTION u32 ip_header_len(u32 version) { return version == 4 ? 20 : 40; }

/* Traffic class of the IP header at `ip`. */
FUNCTION u32 class_of(const GLOBAL u8 *ip, u32 version)
{
    return version == 4 ? traffic_class_v4_at(ip) : traffic_class_v6_at(ip) >> 20 & 255;
}

/* Tells the link header before `l3` which version follows, where it has a place for that: a
 * loopback has an address family, of which one byte isn't zero. */
FUNCTION void set_kind(GLOBAL u8 *frame, u32 link, u32 l3, u32 version)
{
    if (link == LINKTYPE_NULL || link == LINKTYPE_LOOP) {
        u32 family = link == LINKTYPE_LOOP ? LOOP_FAMILY_IPV6 : NULL_FAMILY_IPV6;
        frame[frame[0] ? 0 : 3] = (u8)(version == 4 ? LOOPBACK_FAMILY_IPV4 : family);
        return;
    }
    u32 at = link == LINKTYPE_ETHERNET ? l3 - 2 : link == LINKTYPE_LINUX_SLL ? SLL_KIND : SLL2_KIND;
    int has_kind =
        link == LINKTYPE_ETHERNET || link == LINKTYPE_LINUX_SLL || link == LINKTYPE_LINUX_SLL2;
    if (has_kind && l3 >= 2 && at + 2 <= l3)
        put_be16(frame + at, version == 4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
}
