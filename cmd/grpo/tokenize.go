package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-7879b91d/grpo"
	"github.com/seed-7879b91d/grpo/cmd/grpo/output"
	"github.com/seed-7879b91d/grpo/cmd/grpo/usage"
	"github.com/seed-7879b91d/grpo/configs"
	"github.com/seed-7879b91d/grpo/data/tokenizer"
	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/jsonl"
)

func newTokenizeCmd() *cobra.Command {
	var path string
	var decode, plain bool
	cmd := &cobra.Command{
		Use:   "tokenize --tokenizer FILE|DIR [--decode] [--plain]",
		Short: "Turn texts into token ids, or ids into texts",
		Long: `Reads JSON Lines on standard input and writes one line for each on standard output: {"text":…} becomes
{"ids":[…]}, and the other way round with --decode. Other fields are ignored.

The ids are those of Hugging Face's tokenizer without added start or end tokens: a special token in
the text, such as <|im_end|>, becomes its id. With --plain it is spelled out in ordinary tokens, as
training does with every prompt.`,
		Example: `  echo '{"text":"def add(a, b):"}' | grpo tokenize --tokenizer Qwen3-4B
  echo '{"ids":[750,912,2877,11,293,1648]}' | grpo tokenize --tokenizer Qwen3-4B/tokenizer.json --decode
  echo '{"text":"<|im_end|>"}' | grpo tokenize --tokenizer Qwen3-4B --plain`,
		Args: usage.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case path == "":
				return badinput.Errorf("--tokenizer is missing: give a tokenizer.json or the folder of a model (see 'grpo tokenize --help')")
			case decode && plain:
				return badinput.Errorf("--plain is about encoding: leave it out, or leave out --decode")
			}
			if path == configs.DefaultPreset { // the embedded model
				var err error
				if path, err = grpo.ModelDir(cmd.Context(), path); err != nil {
					return err
				}
			}
			tok, err := tokenizer.Load(path)
			if err != nil {
				return err
			}
			out := output.NewJSONLines(cmd.OutOrStdout())
			if decode {
				return decodeLines(tok, cmd.InOrStdin(), out)
			}
			encode := tok.EncodeSpecial
			if plain {
				encode = tok.Encode
			}
			return encodeLines(encode, cmd.InOrStdin(), out)
		},
	}
	cmd.Flags().StringVar(&path, "tokenizer", "", "tokenizer.json, its folder, or tiny, the built-in model")
	cmd.Flags().BoolVar(&decode, "decode", false, "read ids and write texts")
	cmd.Flags().BoolVar(&plain, "plain", false, "treat special tokens in the text as ordinary characters")
	return cmd
}

func encodeLines(encode func(string) []int32, in io.Reader, out output.JSONLines) error {
	type input struct {
		Text *string `json:"text"`
	}
	type output struct {
		IDs []int32 `json:"ids"`
	}
	return jsonl.EachLoose(in, "standard input", func(_ int, v input) error {
		if v.Text == nil {
			return badinput.Errorf(`field "text" is missing; expected {"text":"…"} (to read ids, add --decode)`)
		}
		return out.Write(output{encode(*v.Text)})
	})
}

func decodeLines(tok *tokenizer.Tokenizer, in io.Reader, out output.JSONLines) error {
	type input struct {
		IDs jsonl.List[int32] `json:"ids"`
	}
	type output struct {
		Text string `json:"text"`
	}
	return jsonl.EachLoose(in, "standard input", func(_ int, v input) error {
		if v.IDs == nil {
			return badinput.Errorf(`field "ids" is missing; expected {"ids":[…]} (to read texts, leave out --decode)`)
		}
		for i, id := range v.IDs {
			if _, ok := tok.Token(id); !ok {
				return badinput.Errorf(`field "ids"[%d]: no token has id %d; expected 0 to %d`, i, id, tok.VocabSize()-1)
			}
		}
		return out.Write(output{tok.Decode(v.IDs, false)})
	})
}
