package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func examineCores() finding {
	f := finding{Name: "processors", OK: true, Found: strconv.Itoa(runtime.NumCPU())}
	if model := lineValue("/proc/cpuinfo", "model name"); model != "" {
		f.Found += " × " + model
	}
	if n := runtime.GOMAXPROCS(0); n != runtime.NumCPU() {
		f.Found += fmt.Sprintf(", of which this process may use %d", n)
	}
	return f
}

func examineMemory() finding {
	f := finding{Name: "memory", OK: true, Found: "unknown on this system"}
	total, free := kilobytes("/proc/meminfo", "MemTotal"), kilobytes("/proc/meminfo", "MemAvailable")
	if total > 0 {
		f.Found = fmt.Sprintf("%s, %s available", gib(total<<10), gib(free<<10))
	}
	if total > 0 && free < 2<<20 {
		f.Do = "the smallest Qwen3 needs 2 GiB: end what else is running"
	}
	return f
}

func examineGPU(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return finding{Name: "GPU", OK: true, Found: strings.ReplaceAll(text, "\n", "; ")}
	}
	return finding{
		Name: "GPU", OK: true, Found: "none: everything runs on the processors",
		Do: "for models beyond 1 B parameters use a machine with an NVIDIA GPU and its driver",
	}
}

// enoughDisk holds a model of 4 B parameters and the checkpoints of a run.
const enoughDisk = 20 << 30

func examineDisk() finding {
	f := finding{Name: "disk", OK: true}
	var found []string
	for _, dir := range []string{".", cacheDir(), os.TempDir()} {
		var fs syscall.Statfs_t
		for dir != "" && syscall.Statfs(dir, &fs) != nil {
			if filepath.Dir(dir) == dir {
				break
			}
			dir = filepath.Dir(dir) // not made yet
		}
		free := int64(fs.Bavail) * int64(fs.Bsize)
		path, err := filepath.Abs(dir)
		found = append(found, fmt.Sprintf("%s free in %s", gib(free), cmp.Or(path, dir)))
		if err == nil && free < 1<<30 {
			f.OK, f.Do = false, "make room in "+path
		} else if free < enoughDisk && f.Do == "" {
			f.Do = fmt.Sprintf("a model of 4 B parameters and its checkpoints want %s", gib(enoughDisk))
		}
	}
	f.Found = strings.Join(found, ", ")
	return f
}

// cacheDir is where models and data sets are kept.
func cacheDir() string {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return os.TempDir()
	}
	return dir
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func kilobytes(file, key string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(lineValue(file, key), " kB"), 10, 64) // 0 where nobody tells
	return n
}

// lineValue finds "key : value" in a file of the kernel; "" where it is not.
func lineValue(file, key string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
