// An ordinary submission: adds what it reads, with iostream, linked statically.
#include <iostream>
#include <vector>

int main()
{
	std::vector<long> numbers;
	for (long number; std::cin >> number;)
		numbers.push_back(number);
	long sum = 0;
	for (long number : numbers)
		sum += number;
	std::cout << numbers.size() << ' ' << sum << std::endl;
}
