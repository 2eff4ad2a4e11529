/* Lists of what a kernel finds in packets, in room that a launch has for all of them. It begins
 * with a head of two words: how many numbers were taken, also such as there was no room for, and
 * whether there was none for some list. A list is its length and its numbers. The packet's word
 * says where: 0 where nothing was found, and NO_ROOM where the CPU has to look for it again. */

#define FINDINGS_HEAD 2
#define NO_ROOM 0xffffffffu

/* Takes room for a list of `len` numbers; gives what the packet's word has to be. */
FUNCTION u32 begin_list(GLOBAL u32 *findings, u32 findings_room, u32 len)
{
    if (len == 0) return 0;
    /* Once there was no room nothing more is taken, so that the count does not go round. */
    if (len >= findings_room || or_atomic(findings + 1, 0)) return NO_ROOM;
    u32 at = add_atomic(findings, len + 1);
    if (at > findings_room - len - 1) {
        or_atomic(findings + 1, 1);
        return NO_ROOM;
    }
    findings[FINDINGS_HEAD + at] = len;
    return at + 1;
}

/* Number `i` of the list under `word`, for which there was room. */
FUNCTION void put_finding(GLOBAL u32 *findings, u32 word, u32 i, u32 number)
{
    findings[FINDINGS_HEAD + word + i] = number;
}
