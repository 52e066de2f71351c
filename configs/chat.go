package configs

import (
	"encoding/json"
	"time"
)

// chat checks the variables of the model's chat template.
func (k *checker) chat() {
	if day := k.c.ChatDate; day != "" {
		_, err := time.Parse(time.DateOnly, day)
		k.refuse(err != nil, "chat_date", "chat_date: found %q, expected a day such as 2024-07-26, or \"\" for none", day)
	}
	if text := k.c.ChatVars; text != "" {
		var vars map[string]json.RawMessage
		k.refuse(json.Unmarshal([]byte(text), &vars) != nil || vars == nil, "chat_vars",
			"chat_vars: found %q, expected a JSON object such as {\"enable_thinking\": false}", text)
	}
	k.refuse(k.c.ChatVars != "" && k.c.Renderer != "auto", "chat_vars",
		"chat_vars: they are for the model's own template, and renderer is %s; leave them out, or type renderer=auto", k.c.Renderer)
}
