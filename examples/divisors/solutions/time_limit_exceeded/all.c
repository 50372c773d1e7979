#include <stdio.h>

int main(void) {
	long long n, d, count = 0;
	if (scanf("%lld", &n) != 1) return 1;
	for (d = 1; d <= n; d++)
		if (n % d == 0) count++;
	printf("%lld\n", count);
	return 0;
}
