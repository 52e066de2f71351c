package warmup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/dataset"
	"github.com/seed-7879b91d/grpo/data/lesson"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/plural"
	"github.com/seed-7879b91d/grpo/internal/provenance"
	"github.com/seed-7879b91d/grpo/internal/sources"
	"github.com/seed-7879b91d/grpo/internal/splitmix"
	"github.com/seed-7879b91d/grpo/model"
)

// row is a tokenized row of a data set: a conversation, or the chosen and the rejected one of a preference.
type row struct {
	where string
	sides [][]lesson.Sequence
}

// set has the rows of a run: first the training rows, then the held-out ones.
type set struct {
	rows        []row
	train       int
	longest     int    // tokens of the longest sequence
	learned     int    // tokens to train on, of the training rows
	cut         int    // rows that were truncated
	empty       int    // rows left out, as truncation left nothing to train on
	refused     int    // invalid rows of a data set on the Hub
	unread      int    // rows with an input that is not used
	silent      int    // rows with an empty answer
	firstSilent string // the name of the first of these
	both        int    // held-out rows that are also trained on
	same        string // the name of the first of these, and its name as a training row
	parts       provenance.Parts
}

// openSet reads the rows of a configuration.
func openSet(ctx context.Context, cfg *configs.Config, lang *sources.Language, warn func(string)) (*set, error) {
	r := &reader{cfg: cfg, set: &set{parts: provenance.Parts{}}, encoder: lesson.Encoder{Renderer: lang.Renderer, Tokenizer: lang.Tokenizer,
		LastTurn: cfg.LearnTurns == "last", Most: lang.Shape.MaxPositions}}
	if cfg.RowTokens > 0 {
		r.encoder.Most = min(cfg.RowTokens, lang.Shape.MaxPositions)
	}
	if cfg.PromptTemplate != "" {
		var err error
		if r.encoder.Wording, err = sources.PromptTemplate(cfg); err != nil {
			return nil, err
		}
	}
	train, err := r.read(ctx, "data", cfg.Data, cfg.DataSplit)
	if err != nil {
		return nil, err
	}
	if got, want := r.set.parts["data"].SHA256, cfg.ExpectedDatasetHash; want != "" && got != want {
		return nil, badinput.Errorf("data %s: its SHA-256 is %s, and expected_dataset_hash says %s", cfg.Data, got, want)
	}
	held := []row(nil)
	if cfg.TestData != "" {
		if held, err = r.read(ctx, "test_data", cfg.TestData, cfg.TestSplit); err != nil {
			return nil, err
		}
	} else {
		train, held = holdOut(train, cfg.HeldOut, cfg.Seed)
	}
	if n := cfg.EvalProblems; n > 0 {
		held = held[:min(n, len(held))]
	}
	if len(train) == 0 {
		return nil, badinput.Errorf("data %s: no row is left to train on; raise row_tokens, or lower held_out", cfg.Data)
	}
	s := r.set
	s.rows, s.train = append(train, held...), len(train)
	for i, one := range s.rows {
		for _, sequence := range slices.Concat(one.sides...) {
			s.longest = max(s.longest, len(sequence.Tokens))
			if i < s.train {
				s.learned += sequence.Learned()
			}
		}
	}
	s.compare()
	s.warnUnused(r.encoder.Most, warn)
	return s, nil
}

// compare counts the held-out rows that are also trained on, with the same tokens.
func (s *set) compare() {
	learned := map[[sha256.Size]byte]string{}
	for i, one := range s.rows {
		print := one.print()
		if i < s.train {
			learned[print] = one.where
		} else if where, found := learned[print]; found {
			if s.both++; s.both == 1 {
				s.same = one.where + " is " + where
			}
		}
	}
}

// print is a hash of the tokens.
func (one row) print() (sum [sha256.Size]byte) {
	h, bytes := sha256.New(), []byte(nil)
	for _, sequence := range slices.Concat(one.sides...) {
		bytes = binary.LittleEndian.AppendUint64(bytes[:0], uint64(len(sequence.Tokens)))
		for _, token := range sequence.Tokens {
			bytes = binary.LittleEndian.AppendUint32(bytes, uint32(token))
		}
		h.Write(bytes)
	}
	h.Sum(sum[:0])
	return sum
}

// warnUnused warns about rows that are not used, or not completely.
func (s *set) warnUnused(most int, warn func(string)) {
	if s.cut > 0 {
		warn(fmt.Sprintf("%s %s longer than %d tokens, and cut off there (row_tokens)", plural.Of(s.cut, "row"),
			plural.Pick(s.cut, "is", "are"), most))
	}
	if s.empty > 0 {
		warn(fmt.Sprintf("%s %s left out: nothing to train on in the first %d tokens (row_tokens)", plural.Of(s.empty, "row"),
			plural.Pick(s.empty, "is", "are"), most))
	}
	if s.silent > 0 {
		warn(fmt.Sprintf("an answer of %s is empty, the first of %s: the model learns to say nothing there; take it out unless that is meant",
			plural.Of(s.silent, "row"), s.firstSilent))
	}
	if s.both > 0 {
		warn(fmt.Sprintf("%s held out %s also among the training rows (%s): what %s may be memorised", plural.Of(s.both, "row"),
			plural.Pick(s.both, "is", "are"), s.same, plural.Pick(s.both, "it shows", "they show")))
	}
	if s.unread > 0 {
		warn(fmt.Sprintf("the column input of %s is not read; write it into the prompt, or take it out", plural.Of(s.unread, "row")))
	}
}

// reader converts records to rows.
type reader struct {
	cfg     *configs.Config
	encoder lesson.Encoder
	set     *set
}

// read reads the rows of a source. An invalid row is an error in the user's own file, and left out otherwise.
func (r *reader) read(ctx context.Context, key, source, split string) (rows []row, err error) {
	_, statErr := os.Stat(source)
	strict, first := statErr == nil, error(nil)
	refused := 0
	origin, err := dataset.Records(ctx, source, dataset.Options{Setting: key, Split: split}, func(record dataset.Record) error {
		one, err := r.row(record)
		switch {
		case err != nil && strict:
			return err
		case err != nil:
			if refused++; first == nil {
				first = err
			}
		case one.where == "":
			r.set.empty++
		default:
			rows = append(rows, one)
		}
		return nil
	})
	if err != nil && strings.HasPrefix(err.Error(), key+" ") { // it names the setting already
		return nil, sources.MissingFile(r.cfg, key, badinput.Errorf("%w", err))
	}
	if err != nil {
		return nil, badinput.Errorf("%s: %w", key, err)
	}
	if first != nil && len(rows) == 0 {
		return nil, badinput.Errorf("%s: all %d rows were refused; the first: %w", key, refused, first)
	}
	if r.set.refused += refused; len(rows) == 0 && r.set.empty == 0 {
		return nil, badinput.Errorf("%s %s: no rows in it", key, source)
	}
	r.set.parts[key] = provenance.Part{SHA256: origin.SHA256, Commit: origin.Commit}
	return rows, nil
}

// row converts a record. A row with nothing to train on has no name.
func (r *reader) row(record dataset.Record) (one row, err error) {
	var sides []lesson.Conversation
	if r.cfg.Method == configs.DPO {
		p, err := lesson.ReadPreference(record)
		if err != nil {
			return one, err
		}
		sides = []lesson.Conversation{p.Chosen, p.Rejected}
	} else {
		c, err := lesson.ReadConversation(record)
		if err != nil {
			return one, err
		}
		sides = []lesson.Conversation{c}
	}
	long, empty := false, false
	for _, c := range sides {
		sequences, cut, err := r.encoder.Sequences(c)
		if err != nil {
			return one, err
		}
		long, empty = long || cut, empty || len(sequences) == 0
		one.sides = append(one.sides, sequences)
	}
	if lesson.Unread(record) {
		r.set.unread++
	}
	if !empty {
		one.where = record.Where
		if slices.ContainsFunc(sides, func(c lesson.Conversation) bool { return c.Silent() }) {
			if r.set.silent++; r.set.silent == 1 {
				r.set.firstSilent = record.Where
			}
		}
		if long {
			r.set.cut++
		}
	}
	return one, nil
}

// holdOut draws a share of the rows, by the seed. Both parts keep their order.
func holdOut(all []row, share float64, seed uint64) (train, held []row) {
	n := int(share*float64(len(all)) + 0.5)
	if share > 0 {
		n = max(n, 1)
	}
	lots := make([]int, len(all))
	for i := range lots {
		lots[i] = i
	}
	const stream = 0x68656c64 // separates these draws from others
	lot := func(i int) uint64 { return splitmix.At(splitmix.At(seed, stream), uint64(i)) }
	slices.SortFunc(lots, func(a, b int) int {
		if lot(a) < lot(b) {
			return -1
		}
		return 1
	})
	out := map[int]bool{}
	for _, i := range lots[:min(n, len(lots))] {
		out[i] = true
	}
	for i, one := range all {
		if out[i] {
			held = append(held, one)
		} else {
			train = append(train, one)
		}
	}
	return train, held
}

// place is the index of a row from its ID in the pool.
func (s *set) place(id string) int {
	i, _ := strconv.Atoi(id) // an ID from places
	return i
}

// sequences is the number of sequences in rows.
func (s *set) sequences(rows []int) (n int) {
	for _, i := range rows {
		for _, side := range s.rows[i].sides {
			n += len(side)
		}
	}
	return n
}

// datum makes a training datum of a sequence, with the same weight for each token to train on.
func datum(s lesson.Sequence, weight float64) model.Datum {
	return model.NewConversation(s.Tokens, s.Spans, make([]float32, len(s.Tokens)-1), float32(weight))
}

// counted is the sum over the tokens that a datum is trained on.
func counted(d model.Datum, logp []float32) (sum float64, n int) {
	for i, counts := range d.Mask {
		if counts {
			sum, n = sum+float64(logp[i]), n+1
		}
	}
	return sum, n
}
