# want: RTE
import os, resource
resource.prlimit(os.getppid() or 1, resource.RLIMIT_CPU, (1, 1))
