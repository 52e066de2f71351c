package rebuild

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// mainPackage is the package of the program.
const mainPackage = "./cmd/grpo"

// flags are flags for go build that give the same program as this one, with the GPU backend.
func flags(info *debug.BuildInfo) []string {
	all := []string{"-tags=gpu"}
	if setting(info, "-trimpath") == "true" {
		all = append(all, "-trimpath")
	}
	if setting(info, "vcs.revision") == "" {
		all = append(all, "-buildvcs=false") // as go run does, so that a record of the version is the same
	}
	return all
}

// build builds the program.
func (b *builder) build(ctx context.Context, goTool string, from source, program string) error {
	b.Say("found an NVIDIA driver: building grpo with its GPU backend, once, which takes a minute or two")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	env, err := environment(ctx, goTool, from.dir)
	if err != nil {
		return b.cannot("the go command fails: %v", err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, goTool, args...)
		cmd.Dir, cmd.Env = from.dir, env
		return cmd
	}
	list := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, flags(b.info)...)
	stale, _ := command(append(list, mainPackage)...).Output() // on an error, the build reports it
	half := program + ".half"
	defer os.Remove(half)
	make := append([]string{"build", "-v", "-o", half}, flags(b.info)...)
	said, err := b.follow(command(append(make, mainPackage)...), strings.Fields(string(stale)))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return b.cannot("building it in %s failed (%v): %s", from.dir, err, first(said, 4))
	}
	return os.Rename(half, program)
}

// environment is the environment of the build, with the driver's header for cgo.
func environment(ctx context.Context, goTool, dir string) ([]string, error) {
	cmd := exec.CommandContext(ctx, goTool, "env", "CGO_CFLAGS")
	cmd.Dir = dir
	usual, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, asText(err))
	}
	include := "-I" + filepath.Join(dir, "kernels", "cuda", "include")
	if strings.ContainsAny(include, " \t") {
		include = "'" + include + "'"
	}
	all := strings.TrimSpace(string(usual))
	if !strings.Contains(all, include) { // other flags would recompile everything
		all += " " + include
	}
	return append(os.Environ(), "CGO_ENABLED=1", "CGO_CFLAGS="+all), nil
}

// follow runs a build and reports its progress: with -v the go command prints each package. It returns the other output.
func (b *builder) follow(cmd *exec.Cmd, packages []string) (said []string, err error) {
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	waiting := map[string]bool{}
	for _, p := range packages {
		waiting[p] = true
	}
	done, total := 0, len(waiting)+1 // and the linker
	b.Progress(done, total)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if waiting[line] {
			delete(waiting, line)
			done++
			b.Progress(done, total)
		} else if line != "" {
			said = append(said, line)
		}
	}
	_, _ = io.Copy(io.Discard, out) // the rest of an overlong line
	err = cmd.Wait()
	b.Progress(total, total)
	return said, err
}

// first joins the first lines of a compiler's output.
func first(said []string, most int) string {
	if len(said) > most {
		said = append(said[:most:most], fmt.Sprintf("and %d lines more", len(said)-most))
	}
	return strings.Join(said, "; ")
}

// asText is the output of a command that failed.
func asText(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return nil
}
