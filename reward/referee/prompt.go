package referee

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/seed-7879b91d/grpo/data/match"
	"github.com/seed-7879b91d/grpo/internal/badinput"
)

// Question has the fields that a template can use.
type Question struct {
	Statement  string // of the task
	Completion string
	Kind       string // of the problem: "stdin", "call" or "answer"

	// Truth returns the ground truth. It may be large, so it is only called if the template uses {{.GroundTruth}}.
	Truth func() (string, error)
}

// GroundTruth calls Truth for a template.
func (q *Question) GroundTruth() (string, error) { return q.Truth() }

//go:embed prompt.tmpl
var usualPrompt string

// parsePrompt parses a template, and executes it once to find mistakes.
func parsePrompt(text string) (*template.Template, error) {
	t, err := template.New("judge_prompt").Parse(text)
	if err != nil {
		return nil, badinput.Errorf("judge_prompt: %w", err)
	}
	const mark = "the completion"
	q := Question{Completion: mark, Kind: "stdin", Truth: func() (string, error) { return "the truth", nil }}
	prompt, err := fill(t, &q)
	if err != nil {
		return nil, badinput.Errorf("judge_prompt: %w", err)
	}
	if !strings.Contains(prompt, mark) {
		return nil, badinput.Errorf("judge_prompt: the prompt leaves out the completion; put {{.Completion}} where it belongs")
	}
	return t, nil
}

func fill(t *template.Template, q *Question) (string, error) {
	var out strings.Builder
	err := t.Execute(&out, q)
	return out.String(), err
}

var (
	scoreKey = regexp.MustCompile(`"score"\s*:\s*("?)(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)("?)`)
	quotient = regexp.MustCompile(`^[%/]`)
	divided  = regexp.MustCompile(`[0-9.] */ *$`)
	number   = regexp.MustCompile(`-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?`)
)

// parsePattern compiles the pattern that finds the score in an answer; "" is nil, the default way.
func parsePattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, badinput.Errorf("judge_score: %w", err)
	}
	if pattern.NumSubexp() != 1 {
		return nil, badinput.Errorf("judge_score: found %d groups in %q, expected one, around the number; type judge_score='Score: ([0-9.]+)'",
			pattern.NumSubexp(), text)
	}
	return pattern, nil
}

// read finds the score in an answer, outside its thoughts: the last match of the pattern's group. Without a pattern it is the last
// JSON field "score" or, if there is none, the last number; then it must be in 0 to 1.
func read(pattern *regexp.Regexp, answer string) (float64, error) {
	answer = match.Said(answer)
	found, least, most := "", -math.MaxFloat32, math.MaxFloat32
	if pattern != nil {
		if all := pattern.FindAllStringSubmatch(answer, -1); all != nil {
			found = all[len(all)-1][1]
		}
	} else {
		least, most = 0, 1
		if all := scoreKey.FindAllStringSubmatchIndex(answer, -1); all != nil {
			last := all[len(all)-1]
			if found = answer[last[4]:last[5]]; isPartOfExpression(answer, last[4], last[5], last[2] < last[3]) {
				return 0, fmt.Errorf("found %s, expected only a number as the score; set judge_score to read it from other "+
					"answers", clip(answer[last[0]:]))
			}
		} else if all := number.FindAllStringIndex(answer, -1); all != nil {
			last := all[len(all)-1]
			if found = answer[last[0]:last[1]]; isPartOfExpression(answer, last[0], last[1], false) {
				return 0, fmt.Errorf("found %s, expected only a number as the score; set judge_score to read it from other answers", clip(answer))
			}
		}
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(found), 64)
	switch {
	case found == "":
		return 0, fmt.Errorf("found no score in the answer %s", clip(answer))
	case err != nil:
		return 0, fmt.Errorf("found the score %q, expected a number", found)
	case !(x >= least && x <= most):
		return 0, fmt.Errorf("found the score %s, expected %g to %g; set judge_score to read other scores", found, least, most)
	}
	return x, nil
}

// isPartOfExpression tells whether the number answer[from:to] is only part of an expression such as 1/10, 80 % or the string "1 of 10",
// and so would be a wrong score by itself.
func isPartOfExpression(answer string, from, to int, quoted bool) bool {
	behind := strings.TrimLeft(answer[to:], " \t")
	if quoted && behind != "" && behind[0] != '"' {
		return true
	}
	return quotient.MatchString(behind) || divided.MatchString(answer[:from])
}

// clip quotes a text on one line, and only its end if it is long.
func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 120 {
		text = "…" + string(runes[len(runes)-120:])
	}
	return strconv.Quote(text)
}

// explain is the message in the body of an error response, in OpenAI's form, or else the end of the body.
func explain(body []byte) string {
	var refusal struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &refusal) == nil && refusal.Error.Message != "" {
		return strings.Join(strings.Fields(refusal.Error.Message), " ")
	}
	return clip(string(body))
}

// request and reply have the fields of a chat completion that are used.
type request struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages"`
	Temperature float64   `json:"temperature"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type reply struct {
	Choices []struct {
		Message message `json:"message"`
		Finish  string  `json:"finish_reason"`
	} `json:"choices"`
}

// parseReply returns the answer of a chat completion, and whether it was cut off at the token limit.
func parseReply(body []byte) (answer string, cut bool, err error) {
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return "", false, fmt.Errorf("the endpoint answered %s, expected a chat completion", clip(string(body)))
	}
	if len(r.Choices) == 0 {
		return "", false, fmt.Errorf("the endpoint answered %s, expected choices in it", clip(string(body)))
	}
	return r.Choices[0].Message.Content, r.Choices[0].Finish == "length", nil
}

// hasStatedScore tells whether an answer that was cut off has a score in the expected form rather than just some number, with more text
// after it: a number at the very end may have lost digits.
func hasStatedScore(pattern *regexp.Regexp, answer string) bool {
	group := 1
	if pattern == nil {
		pattern, group = scoreKey, 2
	}
	answer = match.Said(answer)
	all := pattern.FindAllStringSubmatchIndex(answer, -1)
	return all != nil && all[len(all)-1][2*group+1] < len(answer)
}
