package bench

// Verb is the name and the help of a verb.
type Verb struct{ Use, Short, Long, Example string }

// The verbs of benchmarks of a model alone. Their flags are defined in the main package.
var (
	GemmVerb = Verb{
		Use:   "gemm [--shape S] [--tokens N]",
		Short: "Products of activations and bf16 weights: 2048³, and the linear layers of a model",
		Example: `  grpo bench gemm
  grpo bench gemm --shape qwen3-4b --tokens 1 --threads 1`,
	}
	TrainVerb = Verb{
		Use:   "train [--shape S] [--tokens N] [--rank R]",
		Short: "Forward and backward pass of one sequence, with LoRA or all weights, and the Adam update",
		Example: `  grpo bench train
  grpo bench train --shape qwen3-4b --tokens 256 --rank 32
  grpo bench train --rank 0 --precision bf16`,
	}
	GroupsVerb = Verb{
		Use:   "groups [--shape S] [--prompts N] [--completions N] [--prompt-tokens N] [--completion-tokens N]",
		Short: "A training pass over groups of completions, without and with share_prefixes (a group's prompt once)",
		Long: `Runs forward and backward passes over the completions of some prompts, alternately with the prompt repeated for each completion
and with the prompt of a group computed once. It shows the time of both, the difference of their gradients (its norm as a share of
the norm), and the peak of resident memory: after the passes with repeated prompts, and after both. By default a batch has room
for one group (--max-rows). The backward pass recomputes cheap activations, as with recompute=cheap.`,
		Example: `  grpo bench groups --shape qwen3-0.6b/4
  grpo bench groups --shape tiny --prompts 8 --completions 4 --prompt-tokens 128 --completion-tokens 64`,
	}
	LongVerb = Verb{
		Use:   "long [--shape S] [--lengths N,N,…] [--rank R]",
		Short: "A training step of ever longer sequences: memory compared with the plan, and time by length",
		Long: `Runs a training step (forward, backward, update, and scoring as after an update) of one sequence of each length. It
prints the peak of resident memory and the memory that was planned before anything was allocated. Attention costs the
square of the length, everything else the length: both are fitted to the times, and the error of the fit is shown. Above
the table: the memory of the weights, and the peak while they are made and loaded.`,
		Example: `  grpo bench long --shape qwen3-0.6b/2
  grpo bench long --shape llama3.1-8b --quantize nf4 --lengths 128,512
  grpo bench long --lengths 1024,2048 --recompute blocks`,
	}
	DecodeVerb = Verb{
		Use:   "decode [--shape S] [--batch B] [--context C] [--group G]",
		Short: "Decode the next tokens of B sequences with C tokens in the KV cache, shared by groups of G",
		Example: `  grpo bench decode
  grpo bench decode --batch 32 --context 512
  grpo bench decode --batch 64 --context 512 --group 8`,
	}
	PrefillVerb = Verb{
		Use:     "prefill [--shape S] [--batch B] [--context C]",
		Short:   "Prefill B prompts of C tokens, and sample the first token of each",
		Example: `  grpo bench prefill --context 512`,
	}
	DraftsVerb = Verb{
		Use:   "drafts [--shape S] [--batch B] [--context C] [--alike SHARE,…]",
		Short: "Speculative decoding: C tokens without drafts, and from a draft text that matches by each SHARE",
		Example: `  grpo bench drafts --precision bf16
  grpo bench drafts --batch 1 --alike 0.9`,
	}
)
