// Package openenv speaks with a server of an environment in the protocol of OpenEnv: a session is reset, and answers each action by an
// observation, a reward, and whether it is done. Sessions are WebSockets at /ws; a server that has none is asked by HTTP, and then for
// one session at a time, since it knows only one.
//
// It makes of a model's text an action, and of an observation a text. It knows nothing of conversations.
package openenv
