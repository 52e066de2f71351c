// Package grpo is the trainer: it turns problems into prompts, prompts into rollouts, rollouts into
// scores, scores into advantages, and those into an update of the policy.
package grpo
