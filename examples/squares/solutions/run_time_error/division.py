n = int(input())
for i in range(1, n + 1):
    print(i * i * (n - 10) // (n - 10))
