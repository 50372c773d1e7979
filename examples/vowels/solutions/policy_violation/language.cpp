// Right, but C++ is not among the languages of this problem.
#include <iostream>
#include <string>

int main() {
	std::string line;
	std::getline(std::cin, line);
	int vowels = 0;
	for (char letter : line) vowels += std::string("aeiou").find(letter) != std::string::npos;
	std::cout << vowels << "\n";
}
