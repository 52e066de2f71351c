package browser

import (
	"fmt"
	"math"
	"strconv"

	"github.com/seed-7879b91d/grpo/internal/display"
	"github.com/seed-7879b91d/grpo/internal/samples"
)

// The ways to color a completion.
const (
	byDifference  = "difference"
	byProbability = "probability"
	byAdvantage   = "advantage"
	byMovement    = "movement"
	byNothing     = "nothing"
)

var ways = []string{byDifference, byProbability, byAdvantage, byMovement, byNothing}

// mostTokens is how many tokens of a completion are colored.
const mostTokens = 30_000

// colored returns tokens of a completion with colors; reason says why that is not possible.
func colored(s *samples.Sample, texts []string, from, to int, by string) (pieces []piece, reason string) {
	switch {
	case len(s.Tokens) == 0:
		return nil, "The record has no tokens of this completion."
	case len(texts) != len(s.Tokens):
		return nil, "The tokens cannot be read without the tokenizer of the model, which is not on this machine."
	case by == byProbability && len(s.LogProbs) != len(s.Tokens):
		return nil, "The record has no log-probabilities of this completion."
	case by == byAdvantage && s.Advantage == nil && len(s.Advantages) != len(s.Tokens):
		return nil, "The record has no advantage of this completion."
	}
	largest := 0.0
	for _, a := range s.Advantages {
		largest = max(largest, math.Abs(a))
	}
	if s.Advantage != nil {
		largest = max(largest, math.Abs(*s.Advantage))
	}
	last := min(to, len(texts), from+mostTokens)
	for i := from; i < last; i++ {
		p := piece{Text: display.Visible(texts[i])}
		if by == byProbability {
			p.Class, p.Title = likely(float64(s.LogProbs[i]))
		} else {
			a := 0.0
			if len(s.Advantages) == len(s.Tokens) {
				a = s.Advantages[i]
			} else if s.Advantage != nil {
				a = *s.Advantage
			}
			p.Class, p.Title = worth(a, largest)
		}
		if n := len(pieces); n > 0 && by == byAdvantage && pieces[n-1].Title == p.Title {
			pieces[n-1].Text += p.Text
			continue
		}
		pieces = append(pieces, p)
	}
	if last < min(to, len(texts)) {
		pieces = append(pieces, piece{Text: fmt.Sprintf("\n… and %d more tokens", min(to, len(texts))-last)})
	}
	return pieces, ""
}

// likely is the color for the log-probability of a token: the less likely, the stronger.
func likely(logp float64) (class, title string) {
	p := math.Exp(logp)
	if p != p || p > 1.0001 {
		return "", "no log-probability"
	}
	level := 0
	for _, bound := range []float64{0.9, 0.6, 0.3, 0.1, 0.01} {
		if p < bound {
			level++
		}
	}
	if level > 0 {
		class = "t p" + strconv.Itoa(level)
	}
	return class, fmt.Sprintf("%s %%, log-probability %.3f", strconv.FormatFloat(100*p, 'g', 3, 64), logp)
}

// worth is the color for the advantage of a token, relative to the largest.
func worth(a, largest float64) (class, title string) {
	title = fmt.Sprintf("advantage %+.3g", a)
	if a == 0 || largest == 0 {
		return "", title
	}
	level := strconv.Itoa(1 + min(2, int(3*math.Abs(a)/largest)))
	if a > 0 {
		return "t up" + level, title
	}
	return "t down" + level, title
}
