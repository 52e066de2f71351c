# want: TLE CE
x = 10
print(len(str(x**(10**8))))
