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

// enter turns the calling process into a cell and replaces it by the interpreter. It returns only on
// failure.
func enter() error {
	// Landlock, seccomp and the user are properties of a thread; the new program inherits those of the
	// thread that calls exec.
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
	if err := dropPrivileges(c, uid); err != nil {
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

// dieFirst makes the cell and its children the OOM killer's first choice when the whole machine runs out of
// memory, rather than the trainer, which is larger than any program. It comes before the new root hides
// /proc; without privileges the cell cannot undo it. It does nothing where /proc is read-only.
func dieFirst() {
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}

// sameAddresses turns address space randomisation off. The default hash of a Python object is its address (classes,
// for one, and None), so the order of a set of them would change from run to run, and sometimes the verdict with it.
// A container may forbid this; then it stays random.
func sameAddresses() {
	const noRandomAddresses = 0x40000
	unix.RawSyscall(unix.SYS_PERSONALITY, noRandomAddresses, 0, 0)
}

// readConfig reads the configuration file with pread, because all cells share its offset.
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

// stackLimit makes room for deep recursion in C code. It must be set before the interpreter starts.
const stackLimit = 512 << 20

// noCore is a core limit that prevents core dumps. With 0 the kernel would still start a core_pattern pipe handler; with 1 it does not.
const noCore = 1

// setLimits sets the limits that are the same for every test. The others are set by the child that the
// zygote forks for a test.
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

// lower sets a soft limit, as far as the hard limit allows, and leaves the hard limit as it is.
func lower(resource int, most uint64) error {
	var l unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &l); err != nil {
		return err
	}
	l.Cur = min(most, l.Max)
	return unix.Prlimit(0, resource, &l, nil)
}

// dropPrivileges leaves the process no capability, no way to gain one, and no user but its own. It also
// asks again to be killed when the supervisor dies, because a change of user cancels that.
func dropPrivileges(c *Config, uid int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no-new-privileges: %w", err)
	}
	for capability := uintptr(0); ; capability++ {
		// EINVAL is the end of the list; EPERM means an ordinary user, who has none to drop.
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

// become changes user and group of this thread only, which is the one that calls exec.
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
