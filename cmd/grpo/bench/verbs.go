package bench

// Verb is the name and the help of a verb.
type Verb struct{ Use, Short, Long, Example string }

// The verbs of benchmarks of a model alone. Their flags are defined in the main package.
var (
	GemmVerb = Verb{
		Use:   "gemm [--shape S] [--tokens N]",
		Short: "Products of activations with bf16 weights: 2048³, and the linears of a shape",
		Example: `  grpo bench gemm
  grpo bench gemm --shape qwen3-4b --tokens 1 --threads 1`,
	}
	TrainVerb = Verb{
		Use:   "train [--shape S] [--tokens N] [--rank R]",
		Short: "Forward and backward pass of one sequence with a LoRA adapter or for all weights, and Adam's update",
		Example: `  grpo bench train
  grpo bench train --shape qwen3-4b --tokens 256 --rank 32
  grpo bench train --rank 0 --precision bf16`,
	}
	GroupsVerb = Verb{
		Use:   "groups [--shape S] [--prompts N] [--completions N] [--prompt-tokens N] [--completion-tokens N]",
		Short: "A training pass over groups of completions: each with its prompt, and the prompt of a group once (share_prefixes)",
		Long: `Takes forward and backward passes over the completions of some prompts, in turn with each its prompt and with the prompt of a
group computed once, and shows how long both take, how far their gradients are apart (the norm of the difference, as a share of
the norm), and the peak of resident memory: after passes with each its prompt, and after both. Unless --max-rows says otherwise, a
batch has room for a group. What is cheap is computed again in the backward pass, as recompute=cheap says.`,
		Example: `  grpo bench groups --shape qwen3-0.6b/4
  grpo bench groups --shape tiny --prompts 8 --completions 4 --prompt-tokens 128 --completion-tokens 64`,
	}
	LongVerb = Verb{
		Use:   "long [--shape S] [--lengths N,N,…] [--rank R]",
		Short: "A training step of one sequence as it gets longer: memory beside the plan, and how time grows",
		Long: `Takes a training step (forward, backward, update, and a score as after an update) of one sequence of each length. The
peak of resident memory stands beside what was planned before anything was allocated. Attention costs the square of the
length and everything else the length: both are fitted to the times, and how far they are off is shown. Above the table:
what the weights take, and the peak while they are drawn and loaded.`,
		Example: `  grpo bench long --shape qwen3-0.6b/2
  grpo bench long --shape llama3.1-8b --quantize nf4 --lengths 128,512
  grpo bench long --lengths 1024,2048 --recompute blocks`,
	}
	DecodeVerb = Verb{
		Use:   "decode [--shape S] [--batch B] [--context C] [--group G]",
		Short: "Next tokens of B sequences that have C tokens in the cache, G of them the same ones",
		Example: `  grpo bench decode
  grpo bench decode --batch 32 --context 512
  grpo bench decode --batch 64 --context 512 --group 8`,
	}
	PrefillVerb = Verb{
		Use:     "prefill [--shape S] [--batch B] [--context C]",
		Short:   "Prompts of C tokens of B sequences, and the first token of each",
		Example: `  grpo bench prefill --context 512`,
	}
	DraftsVerb = Verb{
		Use:   "drafts [--shape S] [--batch B] [--context C] [--alike SHARE,…]",
		Short: "Completions of C tokens, drawn without drafted tokens and with a text to draft from, of which a SHARE is alike",
		Example: `  grpo bench drafts --precision bf16
  grpo bench drafts --batch 1 --alike 0.9`,
	}
)
