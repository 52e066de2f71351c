//go:build linux && (amd64 || arm64)

package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter makes the calling process a cell, and then the interpreter. It returns only to say what
// failed.
func enter() error {
	// Landlock, seccomp and the user are properties of a thread, and exec takes them from the thread
	// that calls it.
	runtime.LockOSThread()
	c, err := readConfig(configFD)
	if err != nil {
		return err
	}
	unix.Close(configFD)
	uid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("setsid: %w", err)
	}
	dieFirst()
	scratch := os.Args[2]
	if c.Namespaces {
		if err := unix.Sethostname([]byte("cell")); err != nil {
			return fmt.Errorf("sethostname: %w", err)
		}
		if err := newRoot(c, uid); err != nil {
			return err
		}
		scratch = Scratch
	}
	if err := setLimits(c); err != nil {
		return err
	}
	if err := dropPowers(c, uid); err != nil {
		return err
	}
	if abi := LandlockABI(); abi > 0 {
		if err := landlock(abi, c.Readable, devices, scratch); errors.Is(err, unix.EACCES) {
			return fmt.Errorf("%w (every user must be able to reach it)", err)
		} else if err != nil {
			return err
		}
	} else if !c.Namespaces {
		return fmt.Errorf("this kernel has no landlock")
	}
	if err := os.Chdir(scratch); err != nil {
		return err
	}
	sameAddresses()
	if err := zygoteFilter().install(); err != nil {
		return err
	}
	env := append(c.Env, "HOME="+scratch, "TMPDIR="+scratch)
	return fmt.Errorf("exec %s: %w", c.Exe, syscall.Exec(c.Exe, c.Args, env))
}

// dieFirst makes the cell and all its children the first that the kernel ends when the whole machine runs
// out of memory: not the trainer, which is larger than any program. It is done while /proc is in sight, and
// without a power that could take it back. Where /proc is read-only the limits of a test stand alone.
func dieFirst() {
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}

// sameAddresses asks for the same memory layout in every cell. What has no hash of its own, None and classes among
// it, has that of its address, so the order of a set would be another in every run, and sometimes the verdict too.
// A container may forbid this, and then it is.
func sameAddresses() {
	const noRandomAddresses = 0x40000
	unix.RawSyscall(unix.SYS_PERSONALITY, noRandomAddresses, 0, 0)
}

// readConfig reads the file that all cells share; the offset of its descriptor is shared too.
func readConfig(fd int) (*Config, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cell configuration: %w", err)
	}
	text := make([]byte, st.Size)
	if _, err := unix.Pread(fd, text, 0); err != nil {
		return nil, fmt.Errorf("cell configuration: %w", err)
	}
	c := new(Config)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("cell configuration: %w", err)
	}
	return c, nil
}

// stackLimit lets legal deep recursion in C code work; it has to be there before the interpreter is.
const stackLimit = 512 << 20

// noCore keeps a crash to itself. With a limit of 0 a program that takes crashes through a pipe would be started for each.
const noCore = 1

// setLimits sets the limits that are the same for every test. Those that depend on the test are set
// by the zygote, in the process of the test.
func setLimits(c *Config) error {
	limits := map[int]uint64{
		unix.RLIMIT_NOFILE: openFiles, unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_MEMLOCK: 0,
		unix.RLIMIT_NICE: 0, unix.RLIMIT_RTPRIO: 0, unix.RLIMIT_SIGPENDING: pendingSignals,
	}
	if c.Processes > 0 {
		limits[unix.RLIMIT_NPROC] = c.Processes
	}
	for resource, value := range limits {
		if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: value, Max: value}, nil); err != nil {
			if resource == unix.RLIMIT_NPROC {
				return fmt.Errorf("%d processes, which ulimit -u must allow: %w", value, err)
			}
			return fmt.Errorf("limit %d: %w", resource, err)
		}
	}
	if err := lower(unix.RLIMIT_CORE, noCore); err != nil {
		return fmt.Errorf("core limit: %w", err)
	}
	if err := lower(unix.RLIMIT_STACK, stackLimit); err != nil {
		return fmt.Errorf("stack limit: %w", err)
	}
	return nil
}

// lower sets a limit to what it may be at most, and leaves how far it can be raised.
func lower(resource int, most uint64) error {
	var l unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &l); err != nil {
		return err
	}
	l.Cur = min(most, l.Max)
	return unix.Prlimit(0, resource, &l, nil)
}

// dropPowers leaves the process no capability, no way to gain one, and no user but its own. It also
// asks to be killed when the supervisor dies; changing the user would have cancelled that.
func dropPowers(c *Config, uid int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no-new-privileges: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		// EINVAL is the end of the list; EPERM is an ordinary user, who has none to drop.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err == unix.EINVAL || err == unix.EPERM {
			break
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if c.OwnUser {
		if err := become(uid); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent-death signal: %w", err)
	}
	return nil
}

// become changes user and group, for this thread alone: it is the one that goes on.
func become(uid int) error {
	id := uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return fmt.Errorf("setresgid %d: %w", uid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return fmt.Errorf("setresuid %d: %w", uid, errno)
	}
	return nil
}
