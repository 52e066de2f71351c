# want: RTE
import resource
resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))
