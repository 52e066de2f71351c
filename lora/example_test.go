package lora_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-7879b91d/grpo/lora"
)

// The dimensions of Qwen3-0.6B that its adapters depend on.
var qwen06 = lora.Dims{Layers: 28, Hidden: 1024, Q: 2048, KV: 1024, Intermediate: 3072}

func ExampleNewLayout() {
	layout, err := lora.NewLayout(lora.Defaults(), qwen06)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d matrices, %d numbers\n", len(layout.Entries()), layout.Len())
	a, b, _ := layout.Pair(27, lora.Down)
	fmt.Println(a.Name, a.Rows, a.Cols)
	fmt.Println(b.Name, b.Rows, b.Cols)
	// Output:
	// 392 matrices, 20185088 numbers
	// base_model.model.model.layers.27.mlp.down_proj.lora_A.weight 32 3072
	// base_model.model.model.layers.27.mlp.down_proj.lora_B.weight 1024 32
}

// A new adapter is saved for PEFT and vLLM, and read back.
func ExampleAdapter_Save() {
	dir, err := os.MkdirTemp("", "adapter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	config := lora.Config{Rank: 8, Alpha: 16, Targets: []lora.Target{lora.Q, lora.V}}
	layout, err := lora.NewLayout(config, qwen06)
	if err != nil {
		fmt.Println(err)
		return
	}
	adapter := lora.New(layout)
	adapter.Init(42)
	if err := adapter.Save(dir, "Qwen/Qwen3-0.6B"); err != nil {
		fmt.Println(err)
		return
	}
	again, err := lora.Load(dir, qwen06)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Config.Targets, again.Scale(), again.Hash() == adapter.Hash())
	// Output:
	// [q_proj v_proj] 2 true
}

// A missing model gives an error, and nothing is written.
func ExampleMerge() {
	layout, err := lora.NewLayout(lora.Defaults(), qwen06)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lora.Merge("models/none", lora.New(layout), filepath.Join(os.TempDir(), "merged"))
	fmt.Println(err)
	// Output:
	// models/none: it holds neither model.safetensors nor model.safetensors.index.json; expected a Hugging Face model directory
}
