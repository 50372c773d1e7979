/* The smallest honest program: what it costs is what any program costs. */
#include <stdio.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    printf("%lld\n", sum);
    return 0;
}
