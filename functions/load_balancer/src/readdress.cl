/* By MAC, an item a packet: the frame goes as it is to the backend's Ethernet address. The tag says
 * that there is one. */

PACKET_KERNEL(readdress)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || tag_of(p) != TO_MAC) continue;
        u32 rest = swap_bytes(scratch(p, WORD_LOW));
        write_mac_addresses(fields_of(p), swap_bytes(port_of(p)) >> 16 | rest << 16, rest >> 16);
    }
}
