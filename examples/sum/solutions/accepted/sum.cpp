#include <iostream>

int main() {
    long n;
    std::cin >> n;
    long long sum = 0;
    for (long long x; n > 0 && std::cin >> x; --n) sum += x;
    std::cout << sum << '\n';
}
