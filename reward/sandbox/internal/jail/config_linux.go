//go:build linux && (amd64 || arm64)

package jail

import "golang.org/x/sys/unix"

// Config is what all cells of a pool have in common.
type Config struct {
	// Namespaces asks for every namespace and a root of its own. Without it the cell stays among the
	// other processes and files of the machine, kept from them by landlock and seccomp.
	Namespaces bool
	// OwnUser gives every cell a user of its own, which only root can.
	OwnUser bool
	// Exe is the interpreter, started with Args and Env, to which HOME and TMPDIR are added.
	Exe       string
	Args, Env []string
	// Readable are the files and directories that the cell sees, read-only and at the same place;
	// Links are symbolic links on the way to them, as pairs of path and target.
	Readable []string
	Links    [][2]string
	// Processes bounds the processes and threads of a cell; 0 where the users of the machine are
	// shared and the limit would count theirs.
	Processes uint64
	// ScratchBytes and ScratchFiles bound the scratch directory of a root of its own.
	ScratchBytes, ScratchFiles int
}

// Scratch is the one directory that a program may write to where the cell has a root of its own.
// Elsewhere it is a directory of the machine, which the cell is given.
const Scratch = "/tmp"

// insideID is the user and group of a program as it sees itself in a user namespace.
const insideID = 1000

// Descriptors that a cell is born with. The interpreter finds the first two; the third is read and
// closed before it starts.
const (
	ControlFD = 3
	SourceFD  = 4
	configFD  = 5
)

// namespaces are those that a cell has for itself.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

var devices = []string{"/dev/null", "/dev/random", "/dev/urandom"}
