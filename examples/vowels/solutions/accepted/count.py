# open(a file) would be against the rules, and a comment is not.
print(sum(letter in "aeiou" for letter in input()))
