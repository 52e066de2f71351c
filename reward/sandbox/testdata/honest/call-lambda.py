# call: solve
# args: [1, 2]
# value: 3
solve = lambda a, b: a + b
