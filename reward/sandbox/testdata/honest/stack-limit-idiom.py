# stdin: "3 4\n"
# stdout: "7\n"
import resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 28, resource.getrlimit(resource.RLIMIT_STACK)[1]))
print(sum(map(int, input().split())))
