# want: RTE
# stdout: ""
NUMBERS = {"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51), "pivot_root": (155, 41), "clone": (56, 220), "clone_thread": (56, 220), "clone3": (435, 435), "open_tree": (428, 428), "fsopen": (430, 430), "setuid": (105, 146), "setgid": (106, 144), "capset": (126, 91), "sethostname": (170, 161), "personality": (135, 92)}
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    number = NUMBERS[name][platform.machine() != "x86_64"]
    if number is None:
        return
    ctypes.set_errno(0)
    if libc.syscall(number, *args) != -1:
        print("allowed", name)
call("unshare", 0x10000000)
call("setns", 0, 0)
call("mount", 0, 0, 0, 0, 0)
call("umount2", b'/tmp', 2)
call("chroot", b'/tmp')
call("pivot_root", b'.', b'.')
call("clone", 0x10000000 | 17, 0, 0, 0, 0)
call("clone_thread", 0x10010000, 0, 0, 0, 0)
call("clone3", 0, 0)
call("open_tree", -100, b'/', 1)
call("fsopen", b'tmpfs', 0)
call("setuid", 0)
call("setgid", 0)
call("capset", 0, 0)
call("sethostname", b'x', 1)
call("personality", 0xffffffff)
raise PermissionError("denied")
