# call: solve
# args: [1, 2]
# value: 3
def solve(a, b):
    return "helper"
class Solution:
    def solve(self, a, b):
        return a + b
