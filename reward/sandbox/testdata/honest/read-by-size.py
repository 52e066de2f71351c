# stdin: "3 4\n"
# stdout: "7\n"
import io, os
data = io.BytesIO(os.read(0, os.fstat(0).st_size))
print(sum(map(int, data.readline().split())))
