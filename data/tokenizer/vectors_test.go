package tokenizer

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-7879b91d/grpo/data/tokenizer/tokenizertest"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

type vector struct {
	Text string
	IDs  []int32
}

// The vectors are the output of Hugging Face's tokenizer for texts with special tokens parsed.
func TestQwen3Vectors(t *testing.T) {
	race.SkipSerial(t)
	tok, dir := qwen3(t)
	var vectors []vector
	readTestJSON(t, filepath.Join(dir, "vectors.json"), &vectors)
	if len(vectors) == 0 {
		t.Fatal("vectors.json is empty")
	}
	for _, v := range vectors {
		if ids := tok.EncodeSpecial(v.Text); !slices.Equal(ids, v.IDs) {
			t.Errorf("%q\n got %v\nwant %v", v.Text, ids, v.IDs)
		}
		if text := tok.Decode(v.IDs, false); norm.NFC.String(text) != norm.NFC.String(v.Text) {
			t.Errorf("decoded %q\n  want %q", text, v.Text)
		}
		if plain := tok.Encode(v.Text); hasAdded(tok, plain) || !hasAdded(tok, v.IDs) && !slices.Equal(plain, v.IDs) {
			t.Errorf("%q as user text: %v", v.Text, plain)
		}
	}
}

func hasAdded(tok *Tokenizer, ids []int32) bool {
	return slices.ContainsFunc(ids, func(id int32) bool { _, ok := tok.control[id]; return ok })
}

// Loading takes at most a second of processor time, in the best of three tries, since other processes may disturb one.
func TestQwen3LoadsFast(t *testing.T) {
	if underRace {
		t.Skip("the race detector tells nothing about speed")
	}
	dir := tokenizertest.Qwen3(t)
	best := time.Hour
	for tries := 0; tries < 3 && best > time.Second; tries++ {
		start := cputime.Used()
		if _, err := Load(dir); err != nil {
			t.Fatal(err)
		}
		best = min(best, cputime.Used()-start)
	}
	if best > time.Second {
		t.Errorf("loading took %v of processor time, expected less than a second", best)
	}
}
