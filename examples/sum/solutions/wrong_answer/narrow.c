/* Adds in 32 bits: right for group 1, wrong for group 2. */
#include <stdint.h>
#include <stdio.h>

int main(void) {
    long n;
    long long x;
    uint32_t sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += (uint32_t)x;
    printf("%ld\n", (long)(int32_t)sum);
    return 0;
}
