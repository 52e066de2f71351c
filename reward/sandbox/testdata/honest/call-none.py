# call: solve
# args: [1, 2]
# value: null
def solve(a, b):
    pass
