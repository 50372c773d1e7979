/* Works until its own clock says 200 ms of processor time, then answers. What is reported must be close to that. */
#include <stdio.h>
#include <time.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    while (clock() < CLOCKS_PER_SEC / 5) {
    }
    printf("%lld\n", sum);
    return 0;
}
