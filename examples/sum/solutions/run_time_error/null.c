/* Writes through a null pointer once the input is long. */
#include <stdio.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    long long *volatile where = n > 1000 ? NULL : &sum;
    while (n-- > 0 && scanf("%lld", &x) == 1) *where += x;
    printf("%lld\n", sum);
    return 0;
}
