package memory

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree is a root of kernel files, by path.
func tree(t *testing.T, files map[string]string) system {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return system(root)
}

// bytes are the free bytes under each limit of a tree, in order.
func bytes(all []Room) (free []int64) {
	for _, r := range all {
		free = append(free, r.Bytes)
	}
	return free
}

func TestEveryLimitIsSeen(t *testing.T) {
	const meminfo = "MemTotal:       100 kB\nMemFree:         10 kB\nMemAvailable:     40 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []int64
	}{
		"the machine alone": {map[string]string{"proc/meminfo": meminfo}, []int64{40 << 10}},
		"version 2, with a limit of the group around it": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "700\n", "sys/fs/cgroup/a/b/memory.high": "900\n",
			"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "800\n",
			"sys/fs/cgroup/a/memory.stat": "anon 3\ninactive_file 50\n",
		}, []int64{40 << 10, 200, 250}},
		"version 2 in a container that cannot see where it is": {map[string]string{
			"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "10\n",
		}, []int64{990}},
		"version 1": {map[string]string{
			"proc/self/cgroup": "9:pids:/x\n4:cpu,memory:/jobs/7\n0::/\n",
			"sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes": "5000\n", "sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes": "3000\n",
			"sys/fs/cgroup/memory/jobs/7/memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
		}, []int64{2500}},
		"nothing": {nil, nil},
	} {
		require.Equal(t, c.want, bytes(tree(t, c.files).rooms()), name)
	}
}

func TestLimitsOfTheProcess(t *testing.T) {
	status := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.WriteFile(status, []byte("VmPeak:\t 9 kB\nVmSize:\t 3 kB\nVmData:\t 2 kB\n"), 0o644))
	get := func(which int, r *syscall.Rlimit) error {
		r.Cur = ^uint64(0)
		if which == syscall.RLIMIT_AS {
			r.Cur = 5 << 10
		}
		return nil
	}
	require.Equal(t, []Room{{Bytes: 2 << 10, Limit: "the 0.0 MB of address space (ulimit -v)", Mapped: true}}, limits(get, status))
}

func TestFreeIsWhatThisMachineHas(t *testing.T) {
	room, known := Free()
	require.True(t, known)
	require.Positive(t, room.Bytes)
	require.Contains(t, room.String(), "B of the ")
}
