/* Ethernet addresses of a frame that is sent to a neighbour. */

FUNCTION void put_le16(GLOBAL u8 *at, u32 word) { at[0] = (u8)word; at[1] = (u8)(word >> 8); }
FUNCTION void put_le32(GLOBAL u8 *at, u32 word)
{
    put_le16(at, word);
    put_le16(at + 2, word >> 16);
}

/* Writes a destination, whose first four bytes are `first` and the others the low half of `second`,
 * and the function's own address as the source: its first two bytes are OWN_MAC_START, the others
 * OWN_MAC_REST. All are little-endian. Both as three words where they lie side by side. */
FUNCTION void write_mac_addresses(Fields f, u32 first, u32 second)
{
    Packet p = f.packet;
    if (link_of(p) != LINKTYPE_ETHERNET || frame_len(p) < 12) return;
    GLOBAL u8 *dst = eth_dst_to_write(f), *src = eth_src_to_write(f);
    if (src == dst + 6 && (dst - p.arena) % 4 == 0) {
        GLOBAL u32 *words = (GLOBAL u32 *)dst;
        words[0] = first;
        words[1] = (second & 0xffff) | (u32)OWN_MAC_START << 16;
        words[2] = (u32)OWN_MAC_REST;
    } else {
        put_le32(dst, first);
        put_le16(dst + 4, second);
        put_le16(src, (u32)OWN_MAC_START);
        put_le32(src + 2, (u32)OWN_MAC_REST);
    }
}
