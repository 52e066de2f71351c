//go:build linux && (amd64 || arm64)

package jail

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A limit on processes that leaves too little room is named, whether it is of the own control group or of one above.
func TestCrowded(t *testing.T) {
	for name, c := range map[string]struct {
		group, dir string
		most, used string
		crowded    bool
	}{
		"version 1":             {"8:pids:/a/b", "pids/a/b", "50", "30", true},
		"version 1, above":      {"8:pids:/a/b", "pids/a", "50", "30", true},
		"version 1, container":  {"8:pids:/docker/12ab", "pids", "50", "30", true},
		"version 2":             {"0::/a", "a", "50", "30", true},
		"version 2, container":  {"0::/", "", "50", "30", true},
		"enough":                {"0::/a", "a", "500", "30", false},
		"no bound":              {"0::/a", "a", "max", "30", false},
		"another of version 1":  {"7:memory:/a", "memory/a", "50", "30", false},
		"another group's bound": {"0::/a", "b", "50", "30", false},
	} {
		root := t.TempDir()
		put := func(path, text string) {
			path = filepath.Join(root, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
		}
		put("proc/self/cgroup", "3:cpu:/x\n"+c.group)
		put("sys/fs/cgroup/"+c.dir+"/pids.max", c.most)
		put("sys/fs/cgroup/"+c.dir+"/pids.current", c.used)
		said := crowded(root)
		if !c.crowded {
			require.Empty(t, said, name)
			continue
		}
		require.Contains(t, said, "may have 50 processes and threads (pids.max), and has 30; raise the limit by 40 or more", name)
	}
}

// The threads of all processes of one user are counted, and no others.
func TestThreadsOfAUser(t *testing.T) {
	proc := t.TempDir()
	for pid, text := range map[string]string{
		"1": "Name:\tinit\nUid:\t0\t0\t0\t0\nThreads:\t3\n", "20": "Name:\ta\nUid:\t7\t0\t0\t0\nThreads:\t5\n",
		"21": "Name:\tb\nUid:\t7\t7\t7\t7\nThreads:\t2\n", "self": "Uid:\t7\t7\t7\t7\nThreads:\t2\n",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "status"), []byte(text), 0o644))
	}
	require.Equal(t, 7, threads(proc, 7))
	require.Equal(t, 3, threads(proc, 0))
	require.Zero(t, threads(proc, 8))
}
