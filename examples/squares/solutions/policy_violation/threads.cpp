// One thread for each square. Never compiled: neither the header nor the name is allowed.
#include <cstdio>
#include <thread>

int main() {
    long n;
    if (std::scanf("%ld", &n) != 1) return 1;
    for (long i = 1; i <= n; i++) std::thread([i] { std::printf("%ld\n", i * i); }).join();
}
