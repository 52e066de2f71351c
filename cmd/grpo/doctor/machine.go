package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed-7879b91d/grpo/internal/cachedir"
	"github.com/seed-7879b91d/grpo/internal/memory"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
)

func examineCores() Finding {
	f := Finding{Name: "processors", OK: true, Found: strconv.Itoa(runtime.NumCPU())}
	if model := lineValue("/proc/cpuinfo", "model name"); model != "" {
		f.Found += " × " + model
	}
	if n := runtime.GOMAXPROCS(0); n != runtime.NumCPU() {
		f.Found += fmt.Sprintf(", of which this process may use %d", n)
	}
	return f
}

// examineOrders lists the summation orders. Every processor supports all of them, so nothing can be missing.
func examineOrders(unit cpu.TileUnit) Finding {
	f := Finding{Name: "orders", OK: true, Found: "serial and tiles have instructions; order=auto takes tiles"}
	why := unit.Reason
	if forced := os.Getenv("GRPO_CPU"); unit.Native && forced != "" && forced != "amx" {
		why = "GRPO_CPU is " + forced
	}
	if why != "" {
		f.Found = "serial has instructions, and order=auto takes it; tiles is emulated, to the same bits: " + why
	}
	return f
}

func examineMemory() Finding {
	f := Finding{Name: "memory", OK: true, Found: "unknown on this system"}
	if room, known := memory.Free(); known {
		f.Found = "free for this process: " + room.String()
		if room.Bytes < 2<<30 {
			f.Do = "the smallest Qwen3 needs 2 GiB: stop other programs, or raise the limit"
		}
	}
	return f
}

// enoughDisk is enough for a model of 4 B parameters and the checkpoints of a run.
const enoughDisk = 20 << 30

func examineDisk() Finding {
	f := Finding{Name: "disk", OK: true}
	var found []string
	for _, dir := range []string{".", cacheDir(), os.TempDir()} {
		var fs syscall.Statfs_t
		for dir != "" && syscall.Statfs(dir, &fs) != nil {
			if filepath.Dir(dir) == dir {
				break
			}
			dir = filepath.Dir(dir) // it may not exist yet
		}
		free := int64(fs.Bavail) * int64(fs.Bsize)
		path, err := filepath.Abs(dir)
		if fs.Blocks == 0 {
			found = append(found, "unknown size of "+cmp.Or(path, dir))
			continue
		}
		found = append(found, fmt.Sprintf("%s free in %s", gib(free), cmp.Or(path, dir)))
		if err == nil && free < 1<<30 {
			f.OK, f.Do = false, "make room in "+path
		} else if free < enoughDisk && f.Do == "" {
			f.Do = fmt.Sprintf("a model of 4 B parameters and its checkpoints need %s", gib(enoughDisk))
		}
	}
	f.Found = strings.Join(found, ", ")
	return f
}

// cacheDir is where models and data sets are cached.
func cacheDir() string {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return dir
	}
	dir, _, _ := cachedir.Find("grpo")
	return cmp.Or(dir, os.TempDir())
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// lineValue finds "key : value" in a file of /proc; "" if it is missing.
func lineValue(file, key string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
