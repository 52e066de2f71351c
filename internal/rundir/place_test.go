package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// If the directory of a running run is moved, the error says where it is, and nothing is created at the old path.
func TestADirectoryThatWasMovedIsSaidToBe(t *testing.T) {
	at, now := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "my run")
	d := begun(t, at, 0)
	require.NoError(t, d.Save(1, saveFile("x")))
	require.NoError(t, os.Rename(at, now))
	unwritten := func() string {
		err := d.Save(2, saveFile("x"))
		require.Error(t, err)
		require.True(t, badinput.Is(err))
		require.NoDirExists(t, at)
		return d.WithResumeHint(err, "grpo sft ").Error()
	}
	says := at + " was moved to " + now + " during the run; "
	require.Equal(t, says+"the checkpoints saved before are intact: type grpo sft run_dir='"+now+"' to resume", unwritten())
	require.NoError(t, os.RemoveAll(filepath.Join(now, Checkpoints)))
	require.Equal(t, says+"nothing had been saved: type grpo sft run_dir='"+now+"' to start again", unwritten())
	require.NoError(t, os.Rename(now, at))
	require.NoError(t, d.Save(2, saveFile("x")), "the directory is in its place again")
	require.NoError(t, os.RemoveAll(at))
	require.Equal(t, at+" was moved or removed during the run; move it back, then type grpo sft run_dir="+at+" to resume", unwritten())
}

// A path through something missing is refused at the start; Claim does not create what it checks.
func TestAPathThatLeadsNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Symlink("no where", "link"))
	require.NoError(t, os.Symlink("nothing", "link2"))
	for path, says := range map[string]string{
		"link": "run_dir: link is a link to no where, which does not exist; type mkdir -p 'no where' to create it, or choose another one",
		"./link2/a/b": "run_dir: ./link2 is a link to nothing, which does not exist; type mkdir -p nothing to create it, " +
			"or choose another one",
		"missing/../x":  "run_dir: missing/../x leads through missing, which does not exist; type run_dir=x, or choose another one",
		"a/b/../../../": "run_dir: a/b/../../../ leads through a, which does not exist; type run_dir=.., or choose another one",
	} {
		_, err := Claim(path)
		require.EqualError(t, err, says)
		require.True(t, badinput.Is(err))
	}
	require.NoError(t, os.Mkdir("nothing", 0o755))
	for _, path := range []string{"link2", "link2/a", "link2/../new", "./a//b/"} {
		d, err := Claim(path)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

// A directory that is clearly something else is refused, by whatever name; a new directory inside is accepted.
func TestPlacesThatAreNoPlaceForARun(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	require.NoError(t, os.Symlink("/", "root"))
	for _, name := range []string{"objects", "refs", "hooks"} {
		require.NoError(t, os.MkdirAll(filepath.Join("project", ".git", name), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join("project", ".git", "HEAD"), nil, 0o644))
	for path, what := range map[string]string{
		"/": "the root of the file system", "root": "the root of the file system", "//": "the root of the file system",
		".": "your home directory", home: "your home directory", "project/..": "your home directory",
		"/tmp": "a directory of the whole system", "root/etc": "a directory of the whole system",
		"project/.git": "where git keeps a repository", "project/.git/hooks": "where git keeps a repository",
		"project/.git/new/run": "where git keeps a repository",
		"runs":                 "", "project": "", "project/new": "", home + "/a": "", "root/tmp/none-of-this-name": "",
	} {
		require.Equal(t, what, ProtectedDir(path), path)
	}
}

// A link to a checkpoint belongs to the checkpoint's run, wherever the link is.
func TestTheRunOfALink(t *testing.T) {
	run, link := t.TempDir(), filepath.Join(t.TempDir(), "best")
	step := filepath.Join(run, Checkpoints, Name(2))
	require.NoError(t, os.MkdirAll(step, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(step, StateFile), nil, 0o644))
	require.NoError(t, os.Symlink(step, link))
	require.Equal(t, run, RunOf(step))
	require.Equal(t, run, RunOf(link))
}

// Too long a name, and a link to itself, are not reported as files to remove; an unreadable file may be intact.
func TestADirectoryThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	require.EqualError(t, ReadJSON(dir, nil), "read "+dir+": is a directory; fix that and type the same again")
	require.NoError(t, os.Symlink("circle", filepath.Join(dir, "circle")))
	for _, run := range []string{strings.Repeat("r", 300), "circle"} {
		err := ReadJSON(filepath.Join(dir, run, "manifest.json"), nil)
		require.ErrorContains(t, err, "; choose another run_dir")
		require.NotContains(t, err.Error(), "remove it")
	}
}

// The test file in a folder has an internal name: errors name the folder.
func TestAPlaceThatNobodyCanWriteTo(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no folder here in which nobody can make another one")
	}
	err := (&Dir{Path: "/proc/none/run"}).probe()
	require.ErrorContains(t, err, "write /proc: ")
	require.NotContains(t, err.Error(), "probe")
	_, err = Reserve("/proc/run")
	require.ErrorContains(t, err, "choose another one", "no suffix of the name helps there")
}

// Hidden files, and those at the root of a file system, do not count as a user's files.
func TestOthersAreFilesOfPeople(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".hidden", "lost+found", "log.jsonl", "notes"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	require.Equal(t, []string{"notes"}, OtherFiles(dir, []string{"log.jsonl"}))
	require.Empty(t, OtherFiles(filepath.Join(dir, "none"), nil))
}
