//go:build linux && (amd64 || arm64)

package jail

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot replaces the root of this mount namespace by a read-only file system that holds only the
// interpreter, three devices and a small scratch directory. There is no /proc and no /sys, and the old
// root is unmounted.
func newRoot(c *Config, uid int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Every mount is cloned before the new root covers a part of the old one.
	const readonly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID
	var trees []tree
	for _, path := range c.Readable {
		t, err := cloneTree(path, readonly|unix.MOUNT_ATTR_NODEV)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	for _, path := range devices {
		t, err := cloneTree(path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	const base = "/tmp" // any directory will do: only this namespace sees the mount
	if err := unix.Mount("cell", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=4096,mode=0755"); err != nil {
		return fmt.Errorf("mount root: %w", err)
	}
	if err := os.Chdir(base); err != nil {
		return err
	}
	for _, t := range trees {
		if err := t.attach(); err != nil {
			return err
		}
	}
	for _, link := range c.Links {
		if err := makeParent(link[0][1:]); err != nil {
			return err
		}
		if err := os.Symlink(link[1], link[0][1:]); err != nil {
			return err
		}
	}
	if err := scratch(c, uid); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, ".", 0, &unix.MountAttr{Attr_set: readonly | unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("make root read-only: %w", err)
	}
	// This stacks the old root on top of the new one at the same place, from where it is unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return os.Chdir("/")
}

func scratch(c *Config, uid int) error {
	if err := os.MkdirAll(Scratch[1:], 0o755); err != nil {
		return err
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0700,uid=%d,gid=%d", c.ScratchBytes, c.ScratchFiles, uid, uid)
	err := unix.Mount("scratch", Scratch[1:], "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
	if err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	return nil
}

// tree is a detached clone of a mount, ready to be attached to the new root.
type tree struct {
	path string
	dir  bool
	fd   int
}

// cloneTree clones the mounts at a path, detached and held by a descriptor, and sets attributes on all of them.
func cloneTree(path string, attributes uint64) (tree, error) {
	info, err := os.Stat(path)
	if err != nil {
		return tree{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("open_tree %s: %w", path, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return tree{}, fmt.Errorf("mount_setattr %s: %w", path, err)
	}
	return tree{path: path, dir: info.IsDir(), fd: fd}, nil
}

// attach mounts the tree at its old path, relative to the current directory.
func (t tree) attach() error {
	at := t.path[1:]
	if err := makeParent(at); err != nil {
		return err
	}
	if t.dir {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	} else {
		f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount %s: %w", t.path, err)
	}
	return unix.Close(t.fd)
}

// makeParent makes the directory that a path will be in.
func makeParent(path string) error {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return os.MkdirAll(path[:i], 0o755)
	}
	return nil
}
