# want: RTE
# stdout: ""
# stdin: port
import socket
host, port = "127.0.0.1", int(input())
def tcp(): socket.create_connection((host, port), 1)
def udp(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, port))
def six(): socket.socket(socket.AF_INET6)
def unix(): socket.socket(socket.AF_UNIX).connect("/run/systemd/journal/stdout")
def abstract(): socket.socket(socket.AF_UNIX).connect("\0grpo-canary-%d" % port)
def netlink(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def packet(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
def pair(): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
def vsock(): socket.socket(40, socket.SOCK_STREAM)
for way in (tcp, udp, six, unix, abstract, netlink, packet, pair, vsock):
    try:
        way()
        print("reached", way.__name__)
    except OSError:
        pass
tcp()
