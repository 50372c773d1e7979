print(sum(letter in "aeiou" for letter in open("/dev/stdin").read()))
