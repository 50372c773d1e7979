// Finds each square by adding ones, and starts over for the next: fine for ten of them, and never done with fifty thousand.
#include <cstdio>

int main() {
    long n;
    if (std::scanf("%ld", &n) != 1) return 1;
    for (long i = 1; i <= n; i++) {
        volatile long square = 0;
        for (long k = 0; k < i * i; k++) square = square + 1;
        std::printf("%ld\n", static_cast<long>(square));
    }
    return 0;
}
