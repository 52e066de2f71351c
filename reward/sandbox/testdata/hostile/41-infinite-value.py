# want: OK
# call: solve
# value: 
def solve(x):
    return [float("inf"), float("nan")]
