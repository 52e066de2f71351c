// Package grpo is the trainer: it turns problems into prompts, prompts into rollouts, rollouts into
// scores, scores into advantages, and those into an update of the policy. Init opens a session from a
// configuration, Begin starts its record, Run or TrainStep takes steps.
//
// A step has P problems with G completions each; the completions of one problem are a group, and are
// compared with each other alone. A group that agrees with itself is degenerate and teaches nothing. q is
// the policy that sampled, p the one that is trained.
//
// The package does not know how anything is computed (kernels), judged (reward) or shown (cmd/grpo).
package grpo
