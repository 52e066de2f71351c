//go:build linux && (amd64 || arm64)

package jail

import "golang.org/x/sys/unix"

// Config is what all cells of a pool have in common.
type Config struct {
	// Namespaces gives a cell its own namespaces and root. Without it the cell shares those of the host,
	// and landlock and seccomp keep it from other processes and files.
	Namespaces bool
	// OwnUser gives every cell its own user, which requires root.
	OwnUser bool
	// Exe is the interpreter, started with Args and Env, to which HOME and TMPDIR are added.
	Exe       string
	Args, Env []string
	// Readable are the files and directories that the cell sees, read-only and at the same paths;
	// Links are the symbolic links on the way to them, as pairs of path and target.
	Readable []string
	Links    [][2]string
	// Processes bounds the processes and threads of a cell. It is 0, no bound, where a cell shares its user
	// with other processes, which the kernel would count too.
	Processes uint64
	// ScratchBytes and ScratchFiles bound the scratch directory of a cell with its own root.
	ScratchBytes, ScratchFiles int
}

// Scratch is the one directory that a program may write to in a cell with its own root. Other cells are
// given a directory of the host.
const Scratch = "/tmp"

// insideID is the user and group id of a program inside a user namespace.
const insideID = 1000

// Descriptors that a cell inherits. The interpreter uses the first two; the third is read and closed
// before it starts.
const (
	ControlFD = 3
	SourceFD  = 4
	configFD  = 5
)

// namespaces are the clone flags of a cell's own namespaces.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

var devices = []string{"/dev/null", "/dev/random", "/dev/urandom"}
