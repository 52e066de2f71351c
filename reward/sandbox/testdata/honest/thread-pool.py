# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    print(sum(pool.map(int, input().split())))
