// Package openenv is a client of OpenEnv's protocol: a session is reset, and answers each action with an observation, a reward, and
// whether it is done. Sessions are WebSockets at /ws. A server without WebSockets is asked by HTTP; it has only one session.
//
// It makes an action of a model's text, and a text of an observation. It knows nothing of conversations.
package openenv
