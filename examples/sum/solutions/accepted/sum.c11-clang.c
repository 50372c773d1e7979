/* The name asks for a toolchain: C11 with Clang. Reads character by character. */
#include <stdio.h>

static long long number(void) {
    int c = getchar();
    while (c == ' ' || c == '\n') c = getchar();
    int negative = c == '-';
    if (negative) c = getchar();
    long long value = 0;
    for (; c >= '0' && c <= '9'; c = getchar()) value = value * 10 + (c - '0');
    return negative ? -value : value;
}

int main(void) {
    long long n = number(), sum = 0;
    while (n-- > 0) sum += number();
    printf("%lld\n", sum);
    return 0;
}
