# want: OK
# stdout: "[]\nFalse\n"
import os
print(sorted(set(os.environ) - {"PYTHONHASHSEED", "PYTHONUTF8", "MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "HOME", "TMPDIR",
                                "PATH", "TZ", "LC_ALL", "LC_CTYPE"}))
print(any("canary" in v for v in os.environ.values()))
