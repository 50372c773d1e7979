n = int(input())
print("\n".join(str(i * i) for i in range(1, n + 1)))
