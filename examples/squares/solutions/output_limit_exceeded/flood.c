/* One endless token: no comparison can say that it is wrong, so it has to be stopped for its length. */
#include <stdio.h>
#include <string.h>

static char block[1 << 16];

int main(void) {
    long n;
    if (scanf("%ld", &n) != 1) return 1;
    if (n <= 10) {
        for (long i = 1; i <= n; i++) printf("%ld\n", i * i);
        return 0;
    }
    memset(block, '1', sizeof block);
    for (;;) {
        if (fwrite(block, 1, sizeof block, stdout) != sizeof block) return 1;
    }
}
