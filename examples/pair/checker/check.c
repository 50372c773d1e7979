/* check INPUT OUTPUT EXPECTED: OUTPUT is a stream that can be read once. Always ends with 0; the word decides. */
#include <stdio.h>

static int say(const char *word, const char *comment, int percent) {
	printf("%s\n%s\n%d\n", word, comment, percent);
	return 0;
}

int main(int argc, char **argv) {
	FILE *input = argc > 3 ? fopen(argv[1], "r") : NULL;
	FILE *output = argc > 3 ? fopen(argv[2], "r") : NULL;
	long long n, a, b;
	char more;
	/* Only a broken package comes here: no participant is told WRONG for it. */
	if (!input || !output || fscanf(input, "%lld", &n) != 1) return 1;
	if (fscanf(output, "%lld %lld", &a, &b) != 2) return say("WRONG", "two numbers were expected", 0);
	if (fscanf(output, " %c", &more) == 1) return say("WRONG", "something follows the two numbers", 0);
	if (a < 1 || b < 1 || a > n || b > n) return say("WRONG", "a number is not between 1 and n", 0);
	if (a + b != n) return say("WRONG", "the numbers do not add up to n", 0);
	if (a - b > 1 || b - a > 1) return say("OK", "right, but they lie far apart", 50);
	return say("OK", "", 100);
}
