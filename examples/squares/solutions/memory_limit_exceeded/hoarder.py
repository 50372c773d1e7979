n = int(input())
kept = []
if n > 10:
    for i in range(1024):
        kept.append(b"x" * (1 << 20))
print("\n".join(str(i * i) for i in range(1, n + 1)))
