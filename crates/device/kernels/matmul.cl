/* Synthetic work: rows of the product of two square matrices of SIDE * SIDE. Item i computes one
 * element; further items compute the same elements again. */

#define SIDE 256

KERNEL(matmul, 64)(
    const GLOBAL float *left, const GLOBAL float *right, GLOBAL float *product, u32 count)
{
    ITEMS {
        u32 i = index();
        if (i >= count) continue;
        u32 row = i / SIDE % SIDE, column = i % SIDE;
        float sum = 0;
        for (u32 k = 0; k < SIDE; k++) sum += left[row * SIDE + k] * right[k * SIDE + column];
        if (i < SIDE * SIDE) product[i] = sum;
    }
}
