package configs

import "strings"

// programEnv is the prefix of env for a program.
const programEnv = "program:"

// EnvProgram is the file of env=program:FILE, "" of any other.
func (c *Config) EnvProgram() string {
	path, _ := strings.CutPrefix(c.Env, programEnv)
	if path == c.Env {
		return ""
	}
	return path
}

// openEnv is the prefix of env for a server.
const openEnv = "openenv:"

// EnvServer is the URL of env=openenv:URL, "" of any other.
func (c *Config) EnvServer() string {
	address, named := strings.CutPrefix(c.Env, openEnv)
	if !named {
		return ""
	}
	return address
}

// SequenceTokens is the most tokens after a prompt: of a completion, or of a conversation.
func (c *Config) SequenceTokens() int {
	switch {
	case c.Env == "none":
		return c.MaxTokens
	case c.MaxConversationTokens > 0:
		return c.MaxConversationTokens
	}
	return c.MaxTurns * c.MaxTokens
}

// conversations checks env, and the settings that depend on it.
func (k *checker) conversations() {
	c := k.c
	known := c.Env == "none" || c.Env == "heal" || c.Env == "tools" || c.Env == "own" || c.EnvProgram() != "" || c.EnvServer() != ""
	k.refuse(!known, "env", "env: found %q, expected none, heal, tools, program:FILE, openenv:URL or own; type env=heal", c.Env)
	k.refuse(c.MCP != "" && c.Env != "tools", "mcp", "mcp: env=%s calls no tools; type env=tools, or leave it out", c.Env)
	k.refuse(c.Env == "tools" && c.MCP == "" && len(c.Tools) == 0, "tools",
		"tools: found none, and no mcp=FILE names others; type tools=python")
	for _, s := range []struct{ key, value string }{{"openenv_action", c.OpenEnvAction}, {"openenv_template", c.OpenEnvTemplate}} {
		k.refuse(s.value != "" && c.EnvServer() == "", s.key, "%s: env=%s does not use it; type env=openenv:URL, or leave it out", s.key, c.Env)
	}
	if c.Env == "none" {
		k.refuse(c.ConversationSeconds > 0, "conversation_seconds",
			"conversation_seconds: env=none has no conversations; type conversation_seconds=0")
		k.refuse(c.HealTemplate != "", "heal_template", "heal_template: env=none has no second turn; type env=heal, or leave it out")
		return
	}
	k.refuse(c.HealTemplate != "" && c.Env != "heal", "heal_template", "heal_template: env=%s does not use it; type env=heal, or leave it out",
		c.Env)
	k.refuse(c.ConversationSeconds > 0 && c.Deterministic, "deterministic",
		"deterministic: conversation_seconds makes results depend on the clock; type deterministic=false or conversation_seconds=0")
	k.refuse(c.MaxConversationTokens > 0 && c.MaxConversationTokens < c.MaxTokens, "max_conversation_tokens",
		"max_conversation_tokens: found %d, less than one turn of max_tokens, which is %d; type max_conversation_tokens=0 for max_turns of them",
		c.MaxConversationTokens, c.MaxTokens)
	k.refuse(c.OverlongPenalty > 0, "overlong_penalty",
		"overlong_penalty is for completions of one turn, and env=%s has several; type overlong_penalty=0", c.Env)
	k.refuse(c.Env == "tools" && c.Sandbox == "fusion", "env",
		"env: tools run in cells of this machine, and sandbox=fusion has none; type sandbox=local")
}
