/* The finding of `before` of a translator or balancer for a packet, in its scratch words: the
 * first has a tag in its low half, 0 for nothing, and a port in its high half; then comes an
 * address, from its low word on, of one word where there is no IPv6. */

FUNCTION u32 tag_of(Packet p) { return scratch(p, WORD_HEAD) & 0xffff; }
FUNCTION u32 port_of(Packet p) { return scratch(p, WORD_HEAD) >> 16; }

/* The words of IPv6, the highest first; of IPv4 the last. */
typedef struct {
    u32 words[4];
} Address;

FUNCTION Address address_of(Packet p)
{
    Address to;
#if HAS_V6
    to.words[0] = scratch(p, WORD_HIGH_2);
    to.words[1] = scratch(p, WORD_HIGH_1);
    to.words[2] = scratch(p, WORD_HIGH_0);
#else
    to.words[0] = to.words[1] = to.words[2] = 0;
#endif
    to.words[3] = scratch(p, WORD_LOW);
    return to;
}
