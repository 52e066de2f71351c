# want: RTE
import os, resource
resource.prlimit(os.getpid(), resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
