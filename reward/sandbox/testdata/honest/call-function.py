# call: solve
# args: [1, 2]
# value: 3
def solve(a, b):
    return a + b
if __name__ == "__main__":
    print(solve(*map(int, input().split())))
