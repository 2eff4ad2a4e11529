/* An item a packet: what `run` does. */
PACKET_KERNEL(guard_ttl)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || reject_malformed(p, place)) continue;
        u32 version = ip_version(p);
        if (version != 4 && version != 6) continue;
        Fields f = fields_of(p);
        if ((version == 4 ? ttl_v4(f) : ttl_v6(f)) < LEAST) drop(p, LOW_TTL, place);
    }
}
