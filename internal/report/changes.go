package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-7879b91d/grpo/internal/display"
)

const mostChanges = 200

// byKey are settings as JSON.
type byKey = map[string]json.RawMessage

// changed lists the settings that changed when the run was resumed, the latest first.
func (r *run) changed() (out []shownChange) {
	var began byKey
	understand(r.config, &began)
	before := byKey{}
	for _, start := range r.origin.Starts {
		now := byKey{}
		understand(start.Settings, &now)
		keys := maps.Clone(before)
		maps.Copy(keys, now)
		for _, key := range slices.Backward(slices.Sorted(maps.Keys(keys))) {
			was, is := firstValue(key, before, began), firstValue(key, now, began)
			if was != is {
				out = append(out, shownChange{fmt.Sprintf("after step %d", start.After), display.Visible(display.Truncate(key, 100)), was, is})
			}
		}
		before = now
	}
	slices.Reverse(out)
	return out[:min(len(out), mostChanges)]
}

// shownChange is such a change on the page.
type shownChange struct{ When, Key, Before, After string }

// firstValue is a setting in the first of some that has it.
func firstValue(key string, some ...byKey) string {
	for _, v := range some {
		if text, ok := v[key]; ok {
			return typed(text)
		}
	}
	return "not set"
}

// typed is a JSON value; strings without quotes.
func typed(value json.RawMessage) string {
	var text string
	var flat bytes.Buffer
	switch {
	case json.Unmarshal(value, &text) == nil:
	case json.Compact(&flat, value) == nil:
		text = display.TrimExponent(flat.String())
	}
	if text == "" {
		return "empty"
	}
	return display.Visible(display.Truncate(text, 100))
}
