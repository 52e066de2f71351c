// Package sweep plans several runs of one program, keeps a journal of them, and makes them one after the other or in parallel. After
// a crash a sweep can be resumed. How a run is made is up to the caller.
package sweep

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Axis is a setting with its values, or the range to draw values from.
type Axis struct {
	Key    string
	Values []string
	Range  *Range // in place of Values
}

// Range is from Low to High, both included.
type Range struct {
	Low, High  float64
	Whole, Log bool
}

const oneAddress = "only one run can have an address; leave it out, and type "

// settingsOfSweep are the settings that the sweep itself sets, with the reason.
var settingsOfSweep = map[string]string{
	"run_dir": "each run has a directory of its own; type --dir DIR for that of the sweep", "resume": "runs go on by themselves",
	"serve": oneAddress + "grpo serve --run DIR", "serve_keys": oneAddress + "grpo serve --run DIR --keys FILE",
	"watch": oneAddress + "grpo watch DIR, which shows all runs of the sweep",
}

// logUniform are the settings that are drawn log-uniformly.
var logUniform = []string{"learning_rate", "kl_coef", "entropy_coef", "weight_decay", "adam_eps"}

// mostRuns limits a plan: more must be a mistake.
const mostRuns = 10000

// Parse parses words key=a,b and key=0..2. Brackets enclose a value with commas: lora_targets=[q_proj,v_proj],[o_proj].
func Parse(words []string) (axes []Axis, err error) {
	seen := map[string]bool{}
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		if !ok {
			return nil, badinput.Errorf("%q: expected key=value,value", word)
		}
		if why, is := settingsOfSweep[key]; is {
			return nil, badinput.Errorf("%s: %s", key, why)
		}
		if seen[key] {
			return nil, badinput.Errorf("%s: it is there twice; type %s=A,B", key, key)
		}
		seen[key] = true
		kind := kindOf(key)
		a := Axis{Key: key}
		parts, err := split(text)
		if err != nil {
			return nil, badinput.Errorf("%s: %w", key, err)
		}
		for _, part := range parts {
			low, high, isRange := strings.Cut(part, "..")
			switch {
			case isRange && (kind == "number" || kind == "whole number"):
				r, err := parseRange(key, low, high, kind == "whole number")
				if err != nil {
					return nil, err
				}
				if a.Range = r; len(parts) > 1 {
					return nil, badinput.Errorf("%s: found a range among values, expected one or the other", key)
				}
			case kind != "list" && strings.HasPrefix(part, "[") && strings.HasSuffix(part, "]"):
				a.Values = append(a.Values, part[1:len(part)-1])
			default:
				a.Values = append(a.Values, part)
			}
		}
		for i, v := range a.Values {
			if slices.Contains(a.Values[:i], v) {
				return nil, badinput.Errorf("%s: %s is there twice; leave one out", key, v)
			}
		}
		axes = append(axes, a)
	}
	return axes, nil
}

// kindOf is the type of a setting; "" for an unknown one, which configs reports.
func kindOf(key string) string {
	for _, f := range configs.Describe() {
		if f.Key == key {
			return f.Type
		}
	}
	if key == "group_size" || key == "batch_size" {
		return "whole number"
	}
	return ""
}

// split splits at commas outside of brackets.
func split(text string) (parts []string, err error) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, badinput.Errorf("found %q, in which brackets do not match; a value with brackets of its own is written [value]", text)
	}
	return append(parts, text[from:]), nil
}

func parseRange(key, low, high string, whole bool) (*Range, error) {
	r := &Range{Whole: whole, Log: slices.Contains(logUniform, key)}
	var err error
	for i, text := range []string{low, high} {
		v := &r.Low
		if i == 1 {
			v = &r.High
		}
		if *v, err = strconv.ParseFloat(text, 64); err != nil || math.IsInf(*v, 0) || *v != *v || whole && *v != math.Trunc(*v) {
			return nil, badinput.Errorf("%s: found %q in a range, expected as in 0..2 or 1e-5..1e-3", key, text)
		}
	}
	const most = 1<<53 - 1 // integers up to here are exact in float64
	if whole && max(-r.Low, r.High) > most {
		return nil, badinput.Errorf("%s: found the range %s..%s, expected numbers up to %d; type %s=A,B with the values",
			key, low, high, most, key)
	}
	if r.Log = r.Log && r.Low > 0; r.Low > r.High {
		return nil, badinput.Errorf("%s: found the range %s..%s, expected the smaller number first", key, low, high)
	}
	return r, nil
}

// Grid is every combination as words, the last axis varying fastest.
func Grid(axes []Axis) ([][]string, error) {
	all := [][]string{nil}
	for _, a := range axes {
		values := a.Values
		if r := a.Range; r != nil {
			if !r.Whole {
				return nil, badinput.Errorf("%s: a grid has no end of numbers between %v and %v; type --random N to draw some, or give values",
					a.Key, r.Low, r.High)
			}
			if r.High-r.Low >= mostRuns {
				return nil, badinput.Errorf("%s: found a range of more than %d numbers; type --random N to draw some", a.Key, mostRuns)
			}
			for v := r.Low; v <= r.High; v++ {
				values = append(values, strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		if len(all)*len(values) > mostRuns {
			return nil, badinput.Errorf("found more than %d combinations; type --random N to draw some", mostRuns)
		}
		var next [][]string
		for _, words := range all {
			for _, v := range values {
				next = append(next, append(slices.Clone(words), a.Key+"="+v))
			}
		}
		all = next
	}
	return all, nil
}

// Random are n different combinations drawn with a seed; fewer if there are no more.
func Random(axes []Axis, n int, seed uint64) (all [][]string) {
	seen := map[string]bool{}
	for try := uint64(0); len(all) < n && try < uint64(50*n+100); try++ {
		draws := rand.New(rand.NewPCG(seed, try))
		var words []string
		for _, a := range axes {
			words = append(words, a.Key+"="+a.draw(draws))
		}
		if key := strings.Join(words, "\x00"); !seen[key] {
			seen[key], all = true, append(all, words)
		}
	}
	return all
}

func (a Axis) draw(draws *rand.Rand) string {
	r := a.Range
	switch {
	case r == nil:
		return a.Values[draws.IntN(len(a.Values))]
	case r.Whole:
		return strconv.FormatFloat(r.Low+float64(draws.Int64N(int64(r.High-r.Low)+1)), 'f', -1, 64)
	case r.Log:
		return r.text(math.Exp(math.Log(r.Low) + draws.Float64()*(math.Log(r.High)-math.Log(r.Low))))
	}
	return r.text(r.Low + draws.Float64()*(r.High-r.Low))
}

// text formats a number with 4 digits, or as many as it takes to stay in the range.
func (r *Range) text(v float64) string {
	v = min(max(v, r.Low), r.High)
	for digits := 4; digits < 17; digits++ {
		text := strconv.FormatFloat(v, 'g', digits, 64)
		if w, err := strconv.ParseFloat(text, 64); err == nil && w >= r.Low && w <= r.High {
			return text
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Names gives each run a name for its directory, made of the settings in which runs differ.
func Names(runs [][]string) []string {
	names, seen := make([]string, len(runs)), map[string]bool{}
	for i, words := range runs {
		var parts []string
		for k, word := range words {
			if slices.ContainsFunc(runs, func(other []string) bool { return other[k] != word }) {
				parts = append(parts, word)
			}
		}
		name := strings.Map(func(c rune) rune {
			if c < 128 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("_.=,+-", c)) {
				return c
			}
			return '_'
		}, strings.Join(parts, ","))
		if name == "" || len(name) > 100 || seen[name] {
			name = fmt.Sprintf("run-%03d", i+1)
		}
		names[i], seen[name] = name, true
	}
	return names
}
