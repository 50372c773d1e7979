/* The sum does not fit into 32 bits. */
#include <stdio.h>

int main(void) {
	long long a, b;
	if (scanf("%lld %lld", &a, &b) != 2) return 1;
	printf("%d\n", (int)(a + b));
	return 0;
}
