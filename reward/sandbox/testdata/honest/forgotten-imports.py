# stdin: "3 4\n"
# stdout: "7\n"
q = deque(map(int, input().split()))
heap = []
heappush(heap, q.popleft())
counts: List[int] = [heappop(heap), q.popleft()]
assert gcd(12, 18) == math.gcd(12, 18) == 6 and pow(2, 10, 1000) == 24 and Counter("aa")["a"] == 2
assert list(accumulate([1, 2])) == [1, 3] and bisect_left([1, 3], 2) == 1 and inf > 1 and datetime.date(2000, 1, 1)
print(sum(counts), file=stdout)
