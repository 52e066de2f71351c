# call: solve
# args: [12345678901234567890123]
# value: [null, true, -1.5, 1000000000000000000000000000000, "caf\u00e9", [12345678901234567890123], {"1": [2, 3]}]
from collections import OrderedDict
def solve(x):
    return (None, True, -1.5, 10**30, "caf\u00e9", [x], OrderedDict([(1, (2, 3))]))
