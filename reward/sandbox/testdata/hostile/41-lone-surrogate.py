# want: RTE
print("\ud800")
