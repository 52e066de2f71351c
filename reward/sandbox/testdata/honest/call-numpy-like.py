# call: solve
# args: [1, 2]
# value: [1, 2]
class int64:
    def __init__(self, v):
        self.v = v
    def tolist(self):
        return self.v
int64.__module__ = "numpy"
def solve(a, b):
    return [int64(a), int64(b)]
