package tokenizer

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/cputime"
	"github.com/seed-7879b91d/grpo/internal/race"
)

var update = flag.Bool("update", false, "write the golden files anew")

// smallOptions are the options with which testdata/small was trained on testdata/corpus.txt.
func smallOptions() TrainOptions {
	return TrainOptions{
		VocabSize: 384,
		Special: []Special{
			{Content: "<|endoftext|>", Control: true},
			{Content: "<|im_start|>", Control: true},
			{Content: "<|im_end|>", Control: true},
			{Content: "<think>"}, {Content: "</think>"},
		},
		EOS: "<|im_end|>",
		Pad: "<|endoftext|>",
	}
}

func corpus(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lines splits the corpus into texts.
func lines(text string) []string { return strings.SplitAfter(text, "\n\n") }

func train(t testing.TB, texts []string, o TrainOptions) *Trained {
	t.Helper()
	trained, err := Train(slices.Values(texts), o)
	if err != nil {
		t.Fatal(err)
	}
	return trained
}

// small is the tokenizer in testdata/small, for tests that need no real model's files.
func small(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load("testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestTrainGolden(t *testing.T) {
	trained := train(t, lines(corpus(t)), smallOptions())
	dir := t.TempDir()
	if *update {
		dir = "testdata/small"
	}
	if err := trained.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("testdata/small", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the golden file: if that is meant, run go test -update", name)
		}
	}
}

// The result depends neither on the order of texts, nor on the order of Go's maps.
func TestTrainIsDeterministic(t *testing.T) {
	texts := lines(corpus(t))
	want := train(t, texts, smallOptions()).file.Model
	for range 5 {
		slices.Reverse(texts)
		got := train(t, texts, smallOptions()).file.Model
		if !slices.Equal(got.Merges, want.Merges) || !slices.Equal(got.Vocab, want.Vocab) {
			t.Fatal("a second training gave another tokenizer")
		}
	}
}

// naiveTrain trains by the definition: it counts all pairs again for every merge.
func naiveTrain(texts []string, merges int) [][2]string {
	counts := map[string]int{}
	split, _ := newSplitter(qwenPattern)
	for _, text := range texts {
		split(nfc(text), func(piece string) { counts[piece]++ })
	}
	tr := &trainer{}
	id := tr.alphabet()
	words := map[string][]int32{}
	for piece := range counts {
		for _, b := range []byte(piece) {
			words[piece] = append(words[piece], id[b])
		}
	}
	known := map[string]bool{}
	for len(tr.merges) < merges {
		pairs := map[uint64]int{}
		for piece, symbols := range words {
			for i := range len(symbols) - 1 {
				if !known[tr.texts[symbols[i]]+tr.texts[symbols[i+1]]] {
					pairs[pairKey(symbols[i], symbols[i+1])] += counts[piece]
				}
			}
		}
		best := uint64(0)
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			if pairs[key] > pairs[best] {
				best = key
			}
		}
		left, right := int32(best>>32), int32(uint32(best))
		text := tr.texts[left] + tr.texts[right]
		known[text] = true
		tr.texts = append(tr.texts, text)
		tr.merges = append(tr.merges, [2]string{toAlphabet(tr.texts[left]), toAlphabet(tr.texts[right])})
		for piece, symbols := range words {
			var out []int32
			for i := 0; i < len(symbols); i++ {
				if i+1 < len(symbols) && symbols[i] == left && symbols[i+1] == right {
					out = append(out, int32(len(tr.texts)-1))
					i++
				} else {
					out = append(out, symbols[i])
				}
			}
			words[piece] = out
		}
	}
	return tr.merges
}

func TestTrainAgainstDefinition(t *testing.T) {
	for name, texts := range map[string][]string{
		"corpus": lines(corpus(t)),
		"runs":   {"aaaaaaaa aaaa aaa aaaaa", "abababab ababab bababa", "abcabc bcabca cabc abca ab bc ca abc abc"},
	} {
		o := smallOptions()
		if name == "runs" {
			o.VocabSize = 256 + len(o.Special) + 9
		}
		got := train(t, texts, o).file.Model.Merges
		if want := naiveTrain(texts, len(got)); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}

func TestTrainedIsWhatLoadReads(t *testing.T) {
	o := smallOptions()
	o.ChatTemplate = "{{ messages }} <|im_end|>"
	trained := train(t, lines(corpus(t)), o)
	fresh, err := trained.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if err := trained.Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fresh.VocabSize() != 384 || loaded.VocabSize() != 384 {
		t.Errorf("vocabulary of %d and %d tokens, expected 384", fresh.VocabSize(), loaded.VocabSize())
	}
	text := corpus(t) + "<think>" + "\x00\xff é<|im_end|>"
	if got, want := fresh.EncodeSpecial(text), loaded.EncodeSpecial(text); !slices.Equal(got, want) {
		t.Errorf("fresh and loaded give other ids")
	}
	if !slices.Equal(fresh.SpecialTokens(), loaded.SpecialTokens()) || !slices.Equal(fresh.EOS(), loaded.EOS()) ||
		fresh.ChatTemplate() != loaded.ChatTemplate() || !maps.Equal(fresh.roles, loaded.roles) || len(fresh.roles) == 0 {
		t.Errorf("special tokens, end or template differ: %v %v", fresh.SpecialTokens(), loaded.SpecialTokens())
	}
	if id, _ := loaded.TokenID("<|im_end|>"); len(loaded.EOS()) != 1 || loaded.EOS()[0] != id {
		t.Errorf("EOS is %v, expected <|im_end|>", loaded.EOS())
	}
	if n := len(loaded.Encode(corpus(t))); n*2 > len(corpus(t)) {
		t.Errorf("%d tokens for %d bytes: it has learned nothing", n, len(corpus(t)))
	}
}

func TestTrainRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*TrainOptions)
		want   string
	}{
		"too small":      {func(o *TrainOptions) { o.VocabSize = 260 }, "found 260, expected 261"},
		"too large":      {func(o *TrainOptions) { o.VocabSize = 100000 }, "the corpus is enough for a vocabulary of"},
		"unknown end":    {func(o *TrainOptions) { o.EOS = "</s>" }, `"</s>" is not one of the special tokens`},
		"a byte":         {func(o *TrainOptions) { o.Special[0].Content = "a" }, `special token "a"`},
		"the same twice": {func(o *TrainOptions) { o.Special[1].Content = "<|im_end|>" }, `special token "<|im_end|>"`},
	} {
		o := smallOptions()
		tc.change(&o)
		_, err := Train(slices.Values(lines(corpus(t))), o)
		if err == nil || !badinput.Is(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, expected an input error with %q", name, err, tc.want)
		}
	}
}

func TestTrainIsFast(t *testing.T) {
	race.SkipSerial(t)
	// 3 MB of random words of 3 to 8 letters: many more distinct pieces than a text has.
	var texts []string
	r := newRand(1)
	for range 30000 {
		var line strings.Builder
		for range 12 {
			for range 3 + r.IntN(6) {
				line.WriteByte("etaoinshrdlu"[r.IntN(12)])
			}
			line.WriteByte(' ')
		}
		texts = append(texts, line.String()+"\n")
	}
	start := cputime.Used()
	train(t, texts, TrainOptions{VocabSize: 4096})
	if d := cputime.Used() - start; d > 30*time.Second {
		t.Errorf("training took %v", d)
	} else {
		t.Logf("trained in %v", d)
	}
}
