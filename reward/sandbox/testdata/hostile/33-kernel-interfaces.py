# want: RTE
# stdout: ""
NUMBERS = {"bpf": (321, 280), "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217), "kexec_load": (246, 104), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "init_module": (175, 105), "quotactl": (179, 60), "syslog": (103, 116), "swapon": (167, 224), "reboot": (169, 142), "fanotify_init": (300, 262), "inotify_init1": (294, 26), "seccomp": (317, 277), "acct": (163, 89), "landlock_create_ruleset": (444, 444), "vmsplice": (278, 75), "timer_create": (222, 107), "x32_getpid": (0x40000000 + 39, None)}
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    number = NUMBERS[name][platform.machine() != "x86_64"]
    if number is None:
        return
    ctypes.set_errno(0)
    if libc.syscall(number, *args) != -1:
        print("allowed", name)
call("bpf", 0, 0, 0)
call("io_uring_setup", 1, 0)
call("userfaultfd", 1)
call("perf_event_open", 0, 0, 0, 0, 0)
call("keyctl", 0, 0, 0, 0, 0)
call("add_key", 0, 0, 0, 0, 0)
call("kexec_load", 0, 0, 0, 0)
call("open_by_handle_at", 0, 0, 0)
call("name_to_handle_at", 0, b'/', 0, 0, 0)
call("init_module", 0, 0, b'')
call("quotactl", 0, 0, 0, 0)
call("syslog", 3, 0, 0)
call("swapon", b'/tmp', 0)
call("reboot", 0, 0, 0, 0)
call("fanotify_init", 0, 0)
call("inotify_init1", 0)
call("seccomp", 1, 0, 0)
call("acct", 0)
call("landlock_create_ruleset", 0, 0, 1)
call("vmsplice", 0, 0, 0, 0)
call("timer_create", 0, 0, 0)
call("x32_getpid")
raise PermissionError("denied")
