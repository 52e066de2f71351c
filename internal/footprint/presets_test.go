package footprint

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/race"
	"github.com/seed-7879b91d/grpo/kernels"
	"github.com/seed-7879b91d/grpo/kernels/cpu"
	"github.com/seed-7879b91d/grpo/model"
)

var update = flag.Bool("update", false, "write the tables of docs/presets.md anew")

// presets are the presets whose model is not embedded, with the shape of their model, and the memory that each is meant for.
var presets = map[string]struct {
	shape string
	gib   int
}{
	"qwen3_0.6b": {"qwen3-0.6b", 8}, "qwen3_1.7b": {"qwen3-1.7b", 16}, "qwen3_4b": {"qwen3-4b", 64}, "llama3.2_1b": {"llama3.2-1b", 8},
	"qwen2.5_coder_1.5b": {"qwen2.5-1.5b", 16}, "qwen2.5_coder_7b": {"qwen2.5-7b", 32}, "4090_llama3": {"llama3.1-8b", 24},
	"4090_gemma2": {"gemma2-9b", 24},
}

// roomOfGiB is the memory that a run finds of a number of GiB, after a system or the driver of a card.
func roomOfGiB(gib int) int64 { return int64(gib)<<30 - 1<<29 }

// prompt is the length of the longest prompt in the tables.
const prompt = 1024

// sparseModel writes a model of a published shape with sparse weight files, which is enough to plan.
func sparseModel(t *testing.T, shape string) (dir string, c model.Config) {
	t.Helper()
	c, err := model.ShapeNamed(shape)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, c.Write(dir, "bfloat16"))
	header, at := map[string]any{}, 0
	for _, s := range c.Slots() {
		for _, p := range s.Parts {
			dims := s.Shape(p)
			size := 2
			for _, d := range dims {
				size *= d
			}
			header[p.Tensor] = map[string]any{"dtype": "BF16", "shape": dims, "data_offsets": []int{at, at + size}}
			at += size
		}
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	text = append(text, strings.Repeat(" ", (8-len(text)%8)%8)...)
	path := filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.WriteFile(path, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o644))
	require.NoError(t, os.Truncate(path, int64(8+len(text)+at)))
	return dir, c
}

// tableColumns are the columns of the tables: memory by purpose.
var tableColumns = []struct {
	name  string
	items []string
}{
	{"weights", []string{"weights"}}, {"adapter", []string{"adapter", "moments"}},
	{"activations", []string{"activations", "scorer", "batches"}}, {"cache", []string{"cache", "sampler"}},
}

// chosen matches the last columns, the chosen settings.
var chosen = regexp.MustCompile(`\| (\d+) \| \d+ \| (\w+) \|$`)

// presetLine is the line of a preset: the memory by purpose, in GB. The settings in an existing line are used as a starting point, which
// saves planning other choices.
func presetLine(t *testing.T, b kernels.Backend, name, shape string, room rooms, line string) string {
	t.Helper()
	cfg, err := configs.Load(configs.Source{Preset: name})
	require.NoError(t, err)
	dir, c := sparseModel(t, shape)
	cfg.SandboxSlots = 2
	if choice := chosen.FindStringSubmatch(line); choice != nil {
		cfg.MaxRows, err = strconv.Atoi(choice[1])
		require.NoError(t, err)
		cfg.Recompute = choice[2]
	}
	p, err := Run{Config: cfg, Backend: b, Dir: dir, MaxPrompt: prompt, Trains: true, LocalSandbox: true}.within(room)
	require.NoError(t, err, name)
	gb := func(bytes int) string { return fmt.Sprintf("%.2f", float64(bytes)/1e9) }
	weights := 0
	for _, s := range c.Slots() {
		weights += s.Size()
	}
	cells := []string{"`" + name + "`", fmt.Sprintf("%s, %.2f B", strings.TrimSuffix(c.Architecture, "ForCausalLM"), float64(weights)/1e9),
		map[string]string{"none": "bf16", "nf4": "NF4"}[cfg.Quantize]}
	for _, column := range tableColumns {
		sum := 0
		for _, i := range p.Items {
			if strings.Contains(" "+strings.Join(column.items, " ")+" ", " "+i.Name+" ") {
				sum += i.Bytes[device]
			}
		}
		cells = append(cells, gb(sum))
	}
	require.LessOrEqual(t, int64(p.total(device)), room[device].Bytes, name)
	cells = append(cells, gb(p.total(device)), fmt.Sprintf("%d GiB", room[device].Bytes>>30+1), fmt.Sprint(p.Model.MaxRows),
		fmt.Sprint(p.Sampler.MaxLength), p.Model.Recompute.String())
	return "| " + strings.Join(cells, " | ") + " |"
}

var figure = regexp.MustCompile(`\d+\.\d\d`)

// checkTable compares the table of docs/presets.md with the given head with newly computed lines: words must be equal, and numbers
// nearly.
func checkTable(t *testing.T, head string, names []string, anew func(name, line string) string) {
	t.Helper()
	const path = "../../docs/presets.md"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), head+"\n")
	require.True(t, found, "%s has no table %q", path, head)
	dashes, rest, _ := strings.Cut(rest, "\n")
	table, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		table = ""
		for _, name := range names {
			table += anew(name, "") + "\n"
		}
		table = strings.TrimSuffix(table, "\n")
		require.NoError(t, os.WriteFile(path, []byte(before+head+"\n"+dashes+"\n"+table+"\n\n"+after), 0o644))
	}
	lines := strings.Split(table, "\n")
	require.Len(t, lines, len(names))
	for i, line := range lines {
		now := anew(names[i], line)
		require.Equal(t, figure.ReplaceAllString(now, "#"), figure.ReplaceAllString(line, "#"),
			"stale: run 'go test ./internal/footprint -run Presets -update'")
		want, got := figure.FindAllString(now, -1), figure.FindAllString(line, -1)
		for k := range want {
			w, _ := strconv.ParseFloat(want[k], 64) // the expression has matched it
			g, _ := strconv.ParseFloat(got[k], 64)
			require.InDelta(t, w, g, 0.02+0.02*w, line)
		}
	}
}

// columns are the head of both tables.
const columns = "| preset | model | weights as | weights | adapter | activations | cache | all together | of " +
	"| a batch | longest | computed again |"

// The memory of each preset on a processor is what docs/presets.md says, for the published shapes of the models, and fits into the memory
// that it is meant for.
func TestPresetsTakeWhatTheTableSays(t *testing.T) {
	race.SkipSerial(t)
	b, err := cpu.New(cpu.Options{Threads: 2, Variant: "portable"}) // its sizes are the same on all machines
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	names := slices.DeleteFunc(configs.Presets(), func(name string) bool {
		return strings.HasPrefix(name, "tiny") || name == "defaults" || slices.Contains(configs.Recipes(), name)
	})
	checkTable(t, "On a processor:\n\n"+columns, names, func(name, line string) string {
		p := presets[name]
		return presetLine(t, b, name, p.shape, roomOf(roomOfGiB(p.gib)), line)
	})
}
