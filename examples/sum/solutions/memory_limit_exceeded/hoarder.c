/* Touches a gibibyte, sixteen times the limit, for a long input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    for (int mib = 0; n > 1000 && mib < 1024; mib++) {
        unsigned char *block = malloc(1 << 20);
        if (block == NULL) return 1;
        memset(block, mib | 1, 1 << 20);
        sum += ((volatile unsigned char *)block)[mib] == 0;
    }
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    printf("%lld\n", sum);
    return 0;
}
