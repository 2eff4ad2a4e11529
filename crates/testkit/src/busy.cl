/* Work that only its device's clock knows: nothing is read or written. */

PACKET_KERNEL(busy)
{
    ITEMS { }
}
