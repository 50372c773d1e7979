/* Sleeps over a long input. It uses no processor time, and is ended because it makes no progress. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>

int main(void) {
    long n;
    long long x, sum = 0;
    if (scanf("%ld", &n) != 1) return 1;
    if (n > 1000) {
        struct timespec hour = {3600, 0};
        nanosleep(&hour, NULL);
    }
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    printf("%lld\n", sum);
    return 0;
}
