// Package grpo is the trainer. A step of GRPO (group relative policy optimisation) takes P problems, samples G
// completions of each from the policy, scores them, turns the rewards of each group into advantages, and updates the
// policy on them. Open makes a trainer from a configuration, Run trains, Step takes one step.
//
// # The objective
//
// For the completions i = 1 … G of one problem with rewards R_i, the policy q that sampled them and the policy p that is
// trained, the loss is a sum over every token t that the policy sampled:
//
//	A_i   = R_i − mean(R)                        advantage=mean; others: internal/objective      (Comparison)
//	r_t   = exp(log p(t) − log q(t))             the importance ratio                            (kernels.LossKind)
//	loss  = −Σ w_t · r_t · A_i                   loss=importance_sampling, the default
//	        −Σ w_t · min(r_t·A_i, clip(r_t)·A_i)                     loss=ppo
//	        −Σ w_t · clip(r_t) · A_i · log p(t), clip(r_t) constant  loss=cispo
//	        and losses without a kernel, computed on the host        loss=gspo, kl_coef, tis … (internal/objective.Loss)
//	clip(r) is r held in [clip_low, clip_high]
//	w_t   = 1, 1/tokens of the step, 1/sequences, or 1/tokens of its sequence / sequences, as reduction says  (model.Pack)
//
// w_t is 0 for tokens that the policy did not sample, such as those of the prompt (model.Datum.Mask). log q(t) is the
// log-probability that the sampler recorded when it drew the token. Sampler and trainer run the same kernels, so in the
// first update of a step r_t is exactly 1; every step measures the greatest difference (max_logp_diff_on_policy).
// A group whose completions all have the same reward has zero advantages and is left out.
//
// The presets of papers, with their formulas, are in docs/recipes.md.
//
// # What is left out on purpose
//
//  1. No second model in memory: the reference policy of kl_coef is the model without its adapter, one more forward
//     pass. Without kl_coef, each step still measures and reports how far it moved the policy (Drift).
//  2. No value model: the group's mean is the baseline.
//  3. No second forward pass for log q: the log-probabilities that the sampler recorded are used.
//  4. No length normalisation within a group and no entropy bonus, unless settings ask for them.
//
// Options of Open replace the grader, the advantage or the loss by the caller's: WithGrader, WithAdvantage, WithLoss.
//
// # Shapes
//
// P prompts of a step, G completions of a prompt, T tokens of a sequence. Comments give the shape of a slice: [G].
//
// # In a program of your own
//
// An error that says what whoever called can mend (a setting, a file, a token that there is not) has a method BadInput, here and in the
// packages below: errors.As finds it as an interface{ BadInput() bool }. A name that stands for one of an internal package, as RewardStats
// does for tally.Rewards, has its fields and methods; go doc github.com/seed-7879b91d/grpo/internal/tally.Rewards shows them.
//
// The package does not know how anything is computed (kernels), judged (reward) or shown (cmd/grpo).
package grpo
