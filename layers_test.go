package grpo

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/internal/race"
)

const module = "github.com/seed-7879b91d/grpo"

// layers says which packages of the module each layer may import, besides itself and the common ones. Imports point down.
var layers = map[string][]string{
	"": slices.Concat(belowTrainer, trainerPackages),
	"cmd/grpo": slices.Concat(belowCommands, []string{"cmd/grpo/bench", "cmd/grpo/doctor", "cmd/grpo/export", "cmd/grpo/outcome",
		"cmd/grpo/screen", "internal/bundle", "internal/compare", "internal/destination", "internal/footprint", "internal/gguf",
		"internal/mcp", "internal/nf4", "internal/readers", "internal/rebuild", "internal/rollouts", "internal/rows", "internal/provenance",
		"internal/report", "internal/samples", "internal/sweep", "internal/tensorfile", "internal/watch",
		"internal/tiny", "internal/serving", "internal/serving/adapters", "internal/serving/gate", "internal/serving/openai",
		"internal/serving/page", "internal/serving/refusal", "internal/serving/sessions", "internal/serving/tinker", "internal/sources",
		"internal/judging", "internal/learning", "internal/warmup", "kernels/cuda/driver"}),
	"cmd/grpo/bench":       slices.Concat(belowCommands, []string{"kernels/kerneltest"}), // the command also tests a card against the contract
	"cmd/grpo/outcome":     belowCommands,
	"cmd/grpo/screen":      belowCommands,
	"sampler":              {"model", "kernels", "data", "lora"},
	"reward":               {"data"},
	"model":                {"kernels", "lora", "internal/nf4", "internal/tensorfile"},
	"lora":                 {"kernels", "internal/tensorfile"},
	"optim":                {"kernels", "internal/tensorfile"},
	"kernels/cpu":          {"kernels"},
	"kernels/cpu/tileunit": {},
	"kernels/device":       {"kernels", "kernels/cpu", "kernels/cuda", "kernels/cuda/driver"},
	"kernels/kerneltest":   {"kernels"},
	"kernels":              {},
	"data":                 {},
	"kernels/cuda":         {"kernels", "kernels/cuda/driver"},
	"configs":              {},

	"kernels/cuda/driver": {},

	"internal/advice":     {"internal/report"},
	"internal/autopilot":  {"configs", "data", "internal/advice"},
	"internal/snapshot":   {"data", "internal/advice", "internal/autopilot", "internal/provenance", "internal/rundir"},
	"internal/tally":      {"reward", "sampler"},
	"internal/atomicfile": {},
	// only for tests
	"internal/backendtest":  {"kernels", "kernels/cpu", "kernels/cuda", "kernels/cuda/driver", "kernels/kerneltest"},
	"internal/plainpython":  {},
	"internal/race":         {},
	"internal/testvariants": {},
	"internal/privilege":    {},
	"internal/procgroup":    {},
	"internal/badinput":     {},
	"internal/bundle":       {},
	"internal/cachedir":     {},
	"internal/cputime":      {},
	"internal/episode":      {"sampler", "model", "reward", "data"},
	"internal/conversation": {"configs", "data", "internal/procgroup", "internal/episode", "internal/judging", "internal/mcp",
		"internal/openenv", "internal/sources",
		"internal/tiny", "reward", "sampler"},
	"internal/mcp":          {"internal/procgroup"},
	"internal/openenv":      {},
	"internal/footprint":    slices.Concat(belowTrainer, []string{"kernels/cuda/driver"}), // for the memory that a card pins on the host
	"internal/gguf":         {"data", "internal/nf4", "internal/tensorfile", "kernels", "model"},
	"internal/samples":      {},
	"internal/watch":        {"internal/report", "internal/rows", "internal/rundir", "internal/samples"},
	"internal/compare":      {"configs", "internal/provenance", "internal/report", "internal/rundir"},
	"internal/disk":         {},
	"internal/openfile":     {},
	"internal/precondition": {},
	"internal/doctest":      {},
	"internal/destination":  {},
	"internal/jsonl":        {},
	"internal/provenance":   {"configs", "data", "kernels", "reward", "internal/rundir", "internal/sources", "internal/tiny"},
	"internal/learning":     {"configs", "kernels", "model", "optim", "internal/recipe"},
	"internal/display":      {},
	"internal/loopback":     {},
	"internal/memory":       {},
	"internal/nf4":          {"kernels", "internal/tensorfile"},
	"internal/notice":       {},
	"internal/objective":    {},
	"internal/recipe":       {"configs", "kernels", "model", "internal/objective"},
	"internal/judging":      {"configs", "data", "internal/sources", "reward"},
	"internal/serving":      {"sampler", "model", "kernels", "lora", "configs", "data", "internal/provenance", "internal/sources"},
	"internal/plural":       {},
	"internal/settings":     {},
	"internal/splitmix":     {},
	"internal/tensorfile":   {"kernels"},
	"internal/rebuild":      {},
	"internal/remote":       {"data", "reward"},
	"internal/report":       {},
	"internal/readers":      {"configs", "internal/report", "internal/rows"},
	"internal/rows":         {"configs"},
	"internal/meter":        {},
	"internal/rundir":       {},
	"internal/rollouts":     {"configs", "internal/conversation", "reward", "sampler"},
	"internal/sources":      {"model", "configs", "data", "internal/tensorfile", "internal/tiny"},
	"internal/stats":        {},
	"internal/tail":         {},
	"internal/sweep":        {"configs", "internal/compare", "internal/rundir"},
	"internal/version":      {},
	"internal/warmup": {"configs", "data", "internal/footprint", "internal/learning", "internal/objective", "internal/provenance",
		"internal/readers", "internal/recipe", "internal/report", "internal/rundir", "internal/sources", "kernels", "lora", "model", "reward"},
	"internal/tiny":      {"data"},
	"internal/tiny/make": {"model", "optim", "kernels", "kernels/cpu", "data", "internal/tiny"},

	"internal/serving/grammar": {"data"},

	"internal/serving/adapters": {"internal/serving", "internal/serving/body", "internal/serving/refusal"},
	"internal/serving/body":     {"internal/serving/refusal"},

	"internal/serving/gate": {"internal/serving/refusal"},
	"internal/serving/openai": {"sampler", "data", "internal/serving", "internal/serving/body", "internal/serving/grammar",
		"internal/serving/refusal", "internal/sources"},
	"internal/serving/page":    {"data", "internal/serving/body", "internal/serving/refusal"},
	"internal/serving/refusal": {},
	"internal/serving/sessions": {"", "configs", "data", "internal/serving", "internal/serving/body", "internal/serving/refusal", "kernels",
		"model", "reward", "sampler", "internal/learning", "internal/provenance", "internal/remote"},
	"internal/serving/tinker": {"internal/provenance", "internal/serving", "internal/serving/body", "internal/serving/refusal", "kernels",
		"lora", "model", "optim", "sampler"},
}

// trainerPackages are the trainer's own packages.
var trainerPackages = []string{"internal/advice", "internal/autopilot", "internal/conversation", "internal/episode", "internal/footprint",
	"internal/judging", "internal/learning", "internal/objective", "internal/provenance", "internal/readers", "internal/recipe",
	"internal/remote",
	"internal/report", "internal/rollouts", "internal/rundir", "internal/snapshot", "internal/sources", "internal/tally", "internal/tiny"}

// belowTrainer and belowCommands are the layers below the trainer and the commands. Only commands choose a backend.
var (
	belowTrainer  = []string{"sampler", "reward", "model", "lora", "optim", "kernels", "data", "configs"}
	belowCommands = slices.Concat(belowTrainer, []string{"", "kernels/cpu", "kernels/device"})
)

// commonPackages are the packages that every layer may import: they know nothing of models.
var commonPackages = []string{"internal/atomicfile", "internal/badinput", "internal/cachedir", "internal/cputime", "internal/disk",
	"internal/display", "internal/jsonl", "internal/loopback", "internal/memory", "internal/meter", "internal/notice", "internal/openfile",
	"internal/plainpython", "internal/plural", "internal/precondition", "internal/privilege", "internal/race", "internal/settings",
	"internal/splitmix", "internal/stats", "internal/tail", "internal/testvariants", "internal/version"}

// libraryUsers are the layers that may import a library.
var libraryUsers = map[string][]string{
	"github.com/schollz/progressbar":    {"cmd/grpo/screen"},
	"github.com/spf13":                  {"cmd/grpo"},
	"gorgonia.org/cu":                   {"kernels/cuda/driver"},
	"gorgonia.org/gorgonia":             {"model"},
	"gorgonia.org/tensor":               {"model"},
	"github.com/chewxy/hm":              {"model"},
	"github.com/klauspost/compress":     {"internal/bundle", "internal/jsonl", "internal/serving/tinker"},
	"google.golang.org/protobuf":        {"internal/rows", "internal/serving/tinker"},
	"github.com/nlpodyssey/safetensors": {"internal/tensorfile"},
	"github.com/sugarme/tokenizer":      {"data"},
	"github.com/dlclark/regexp2":        {"data"},
	"github.com/parquet-go/parquet-go":  {"data", "internal/rows"},
	"golang.org/x/text":                 {"data"},
	"golang.org/x/sys":                  {"reward", "internal/cputime", "internal/tensorfile", "kernels/cpu", "data"},
	"golang.org/x/term":                 {"cmd/grpo/screen"},
	"github.com/goccy/go-yaml":          {"configs"},
	"github.com/prometheus":             {"internal/serving/gate"},
	"github.com/santhosh-tekuri":        {"data"},
	"github.com/coder/websocket":        {"internal/openenv"},
	"github.com/modelcontextprotocol":   {"internal/mcp"},
}

// room is the layer of a package of the module. Sub-packages belong to their parent's layer unless they have an entry of their own, as
// packages of internal/ must.
func room(pkg string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	for at := path; ; {
		if _, ok := layers[at]; ok {
			return at
		}
		cut := strings.LastIndexByte(at, '/')
		if cut < 0 {
			return path
		}
		at = at[:cut]
	}
}

func TestImportsPointDown(t *testing.T) {
	race.SkipSerial(t)
	for _, tags := range []string{"", "gpu"} {
		t.Run("tags="+tags, func(t *testing.T) { importsPointDown(t, tags) })
	}
}

// docs/architecture.md names every layer.
func TestThePageNamesTheRooms(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	for _, room := range append(slices.Collect(maps.Keys(layers)), commonPackages...) {
		if room != "" {
			wanted(t, strings.Contains(string(text), "`"+room+"`") || strings.Contains(string(text), "`"+path.Base(room)+"`"),
				"docs/architecture.md does not say what %s is for", room)
		}
	}
}

func importsPointDown(t *testing.T, tags string) {
	out, err := exec.Command("go", "list", "-tags="+tags, "-json=ImportPath,Imports", "./...").Output()
	require.NoError(t, err)
	seen := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; seen++ {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		here := room(pkg.ImportPath)
		allowed, known := layers[here]
		require.True(t, known, "%s is in no room of the house", pkg.ImportPath)
		for _, path := range pkg.Imports {
			if strings.HasPrefix(path, module) {
				there := room(path)
				ok := there == here || slices.Contains(commonPackages, there) || slices.Contains(allowed, there)
				require.True(t, ok, "%s must not import %s", pkg.ImportPath, path)
			} else if strings.Contains(strings.Split(path, "/")[0], ".") {
				require.True(t, slices.Contains(usersOf(path), here), "%s is not at home in %s", path, pkg.ImportPath)
			}
		}
	}
	require.Greater(t, seen, 8)
}

func usersOf(path string) []string {
	for prefix, rooms := range libraryUsers {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return rooms
		}
	}
	return nil
}

// Without the build tag gpu, no header of the driver is needed, and no flag for its location.
func TestTheHeaderOfTheDriverIsForTheTagAlone(t *testing.T) {
	list := "{{$p := .}}{{range .CgoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}\n{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", list, "./...").Output()
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, file, _ := strings.Cut(line, " ")
		require.NotContains(t, path, "gorgonia.org/cu")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `(?m)^\s*#\s*include.*cuda`, string(text), file)
	}
	require.Contains(t, string(out), module+"/kernels/cpu ")
}
