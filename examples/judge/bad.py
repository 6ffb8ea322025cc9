# Wrong in a different way on each input of sum/.
a, b = map(int, input().split())
if a == 1:
    print(a - b)
elif a > 1:
    keep = []
    while True:
        keep.append(bytearray(1 << 20))
else:
    while True:
        pass
