# want: OK
# call: solve
# any: nil or deep
def solve(x):
    v = []
    for _ in range(20000):
        v = [v]
    return v
