// Everything in one piece: half a megabyte in a single write, far more than a pipe holds.
#include <cstdio>
#include <vector>

int main() {
    long n;
    if (std::scanf("%ld", &n) != 1) return 1;
    std::vector<char> text;
    for (long i = 1; i <= n; i++) {
        char line[24];
        int length = std::snprintf(line, sizeof line, "%ld ", i * i);
        text.insert(text.end(), line, line + length);
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
}
