# want: TLE
while True:
    pass
