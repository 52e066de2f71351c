# want: RTE
import resource
resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
while True:
    pass
