# stdin: "3 4\n"
# stdout: "7\n"
# cpu: 2000
import pickle
from dataclasses import dataclass
@dataclass
class Pair:
    a: int
    b: int
pair = pickle.loads(pickle.dumps(Pair(*map(int, input().split()))))
print(pair.a + pair.b)
