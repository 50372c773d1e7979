#include <stdio.h>

int main(void) {
	int low = 1, high = 1000;
	while (low <= high) {
		int middle = (low + high) / 2;
		char answer;
		printf("%d\n", middle);
		fflush(stdout);
		if (scanf(" %c", &answer) != 1) return 1;
		if (answer == '=') return 0;
		if (answer == '<') high = middle - 1;
		else low = middle + 1;
	}
	return 1;
}
