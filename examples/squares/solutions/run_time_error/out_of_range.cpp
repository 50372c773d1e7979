// The vector is one short, and at() says so with an exception that nobody catches.
#include <cstdio>
#include <vector>

int main() {
    long n;
    if (std::scanf("%ld", &n) != 1) return 1;
    std::vector<long> squares;
    for (long i = 1; i < n; i++) squares.push_back(i * i);
    for (long i = 0; i < n; i++) std::printf("%ld\n", squares.at(i));
}
