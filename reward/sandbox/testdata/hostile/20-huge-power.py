# want: TLE
9**9**9
