/* Fields between frames in the mirror and their columns, where a device is given single fields of
 * packets that it has, or gives such back: an item a packet. Which fields they are is said by the
 * accessors' text. They have to do with all packets of a launch, whatever functions make of
 * them. */

PACKET_KERNEL(put_fields)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        put_fields_of(p, fields_of(p));
    }
}

PACKET_KERNEL(take_fields)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        take_fields_of(p, fields_of(p));
    }
}
