total = sum(range(10))
