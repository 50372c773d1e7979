/* talk INPUT VERDICT EXPECTED: standard input is what the submission writes, standard output what it reads; the word on
   it goes into the file VERDICT. */
#include <signal.h>
#include <stdio.h>

static int say(const char *path, const char *word, const char *comment) {
	FILE *verdict = fopen(path, "w");
	if (!verdict) return 1;
	fprintf(verdict, "%s\n%s\n", word, comment);
	return fclose(verdict) != 0;
}

int main(int argc, char **argv) {
	FILE *input = argc > 3 ? fopen(argv[1], "r") : NULL;
	char comment[64];
	int secret, asked, guess;
	/* A submission that has ended reads no more. Dying of that would be a failure of the package. */
	signal(SIGPIPE, SIG_IGN);
	if (!input || fscanf(input, "%d", &secret) != 1) return 1;
	for (asked = 1; asked <= 10; asked++) {
		if (scanf("%d", &guess) != 1) return say(argv[2], "WRONG", "it ended before it had found the number");
		puts(secret < guess ? "<" : secret > guess ? ">" : "=");
		fflush(stdout);
		if (guess == secret) {
			sprintf(comment, "found with %d questions", asked);
			return say(argv[2], "OK", comment);
		}
	}
	return say(argv[2], "WRONG", "more than 10 questions");
}
