/* The question stays in this program's buffer, so both sides wait for each other. */
#include <stdio.h>

int main(void) {
	char answer;
	printf("500\n");
	return scanf(" %c", &answer) != 1;
}
