/* Synthetic work: rows of the product of two square matrices of SIDE * SIDE integers. Item i
 * computes one element; further items compute the same elements again. */

#define SIDE 256

KERNEL(matmul, 64)(
    const GLOBAL u32 *left, const GLOBAL u32 *right, GLOBAL u32 *product, u32 count)
{
    ITEMS {
        u32 i = index();
        if (i >= count) continue;
        u32 row = i / SIDE % SIDE, column = i % SIDE;
        u32 sum = 0;
        for (u32 k = 0; k < SIDE; k++) sum += left[row * SIDE + k] * right[k * SIDE + column];
        if (i < SIDE * SIDE) product[i] = sum;
    }
}
