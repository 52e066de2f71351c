# call: solve
# args: [[1, 2]]
# value: [1, 2, 3]
def solve(xs):
    xs.append(3)
    return xs
