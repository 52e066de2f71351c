package reward

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const none = "\x00none" // there is no program

var extractions = []struct{ name, completion, code string }{
	{"python", "Here:\n```python\nprint(1)\n```\nDone.", "print(1)\n"},
	{"py", "```py\nprint(1)\n```", "print(1)\n"},
	{"version", "```python3.10\nprint(1)\n```", "print(1)\n"},
	{"space before the language", "``` python\nprint(1)\n```", "print(1)\n"},
	{"no language", "```\nprint(1)\n```", "print(1)\n"},
	{"another language", "```c++\nint x;\n```", "int x;\n"},
	{"attributes", "```python title=\"a.py\" {1,2}\nprint(1)\n```", "print(1)\n"},
	{"CRLF", "```python\r\nif 1:\r\n    print(1)\r\n```\r\n", "if 1:\n    print(1)\n"},
	{"tildes", "~~~python\nprint(1)\n~~~", "print(1)\n"},
	{"four backticks", "````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"},
	{"longer close", "```python\nprint(1)\n`````", "print(1)\n"},
	{"shorter does not close", "````python\nprint(1)\n```\n", none},
	{"shorter does not open", "````markdown\n```python\nprint(1)\n```\n````", "```python\nprint(1)\n```\n"},
	{"spaces behind the close", "```python\nprint(1)\n```  \nDone.", "print(1)\n"},
	{"backticks behind tildes", "~~~py `a`\nprint(1)\n~~~", "print(1)\n"},
	{"the last of two", "```python\nprint(1)\n```\nor\n```python\nprint(2)\n```\n", "print(2)\n"},
	{"tildes around backticks", "~~~\n```\n~~~", "```\n"},
	{"bit operators are no fence", "```python\nx = 5\nprint(\n~~~x)\n```", "x = 5\nprint(\n~~~x)\n"},

	{"fence in a docstring", "```python\ndef f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n    return 1\n```",
		"def f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n    return 1\n"},
	{"fence in a string on one line", "```python\nprint('```')\nprint(\"```\")\n```", "print('```')\nprint(\"```\")\n"},
	{"escaped quotes", "```python\ns = \"\"\"\\\"\"\"\n```\n\"\"\"\n```", "s = \"\"\"\\\"\"\"\n```\n\"\"\"\n"},
	{"a string that its line does not end", "```python\nx = 'a\ns = '''\n```\n'''\n```", "x = 'a\ns = '''\n```\n'''\n"},
	{"quotes in a comment", "```python\n# \"\"\"\nprint(1)\n```", "# \"\"\"\nprint(1)\n"},
	{"backticks in a comment", "```python\nx = 1 # ```\n```", "x = 1 # ```\n"},
	{"apostrophe in a text block", "```\nDon't\n```\nthen\n```python\nprint(1)\n```", "print(1)\n"},
	{"triple quote in a text block", "```text\nuse \"\"\" here\n```\nthen\n```python\nprint(1)\n```", "print(1)\n"},

	{"closed at the end of a line", "```python\nprint(1)```\nDone.", "print(1)\n"},
	{"opened again without a close", "```python\nprint(1)\n```python\nprint(2)\n```", "print(2)\n"},
	{"in a list", "1. So:\n\n   ```python\n   if 1:\n       print(1)\n   ```\n", "if 1:\n    print(1)\n"},
	{"code within a sentence", "```x``` is it\n```python\nprint(1)\n```", "print(1)\n"},

	{"empty", "", none},
	{"prose", "The answer is 5.", none},
	{"bare code", "print(1)\n", none},
	{"unclosed", "```python\nprint(1)\n", none},
	{"only the last unclosed", "```python\nprint(1)\n```\nBetter:\n```python\nprint(2)", none},
	{"only an opening", "```", none},
	{"blank", "```python\n \n```", none},
	{"blank last", "```python\nprint(1)\n```\n```\n```\n", none},

	{"thought before", "<think>\n```python\nprint(1)\n```\n</think>\n```python\nprint(2)\n```", "print(2)\n"},
	{"thought after", "```python\nprint(2)\n```\n<think>\n```python\nprint(1)\n```\n</think>", "print(2)\n"},
	{"only thought", "<think>\n```python\nprint(1)\n```\n</think>\nI give up.", none},
	{"thought never ended", "<think>\n```python\nprint(1)\n```\n", none},
	{"thought opened by the prompt", "Maybe\n```python\nprint(1)\n```\n</think>\n\n```python\nprint(2)\n```", "print(2)\n"},
	{"unclosed fence in a thought", "<think>\n```python\nprint(1)\n</think>\n```python\nprint(2)\n```", "print(2)\n"},
	{"quotes that a prompted thought left open", "```text\na \"\"\" b\n</think>\n```python\nprint(1) # \"\"\"\n```",
		"print(1) # \"\"\"\n"},
	{"second end of a thought", "<think>a</think>\n```python\nprint(2)\n```\nso</think> I am done", "print(2)\n"},
	{"tag in a program", "<think></think>```python\nprint('<think>')\nprint('</think>')\n```", "print('<think>')\nprint('</think>')\n"},
	{"end of a thought in a program", "```python\nprint('</think>')\n```", "print('</think>')\n"},
	{"end of a thought in a comment", "```python\nx = 1 # </think>\nprint(x)\n```", "x = 1 # </think>\nprint(x)\n"},
	{"prompted thought with a tag in a string", "```\ns = '</think>'\n```\nhm</think>\n```\nprint('</think>')\n```", "print('</think>')\n"},
	{"prompted thought with an apostrophe", "```text\nDon't\nDon't</think>I give up.", none},
	{"unclosed fence in a prompted thought", "```python\nprint(1)\n</think>\n```python\nprint(2)\n```", "print(2)\n"},
	{"unclosed quotes in a prompted thought", "```text\na \"\"\" b\n```\nso </think>\n```python\nprint(2)\n```", "print(2)\n"},
}

func TestExtract(t *testing.T) {
	for _, tt := range extractions {
		t.Run(tt.name, func(t *testing.T) {
			code, ok := Extract(tt.completion)
			if tt.code == none {
				require.False(t, ok, "found %q", code)
				return
			}
			require.True(t, ok)
			require.Equal(t, tt.code, code)
		})
	}
}

// A text with many blocks must not be read again by its fences alone for each of them.
func TestExtractIsLinear(t *testing.T) {
	text := strings.Repeat("```\n\\\"\"\"\n```\n", 200_000) + "```\nprint(1)\n```\n"
	code, ok := Extract(text)
	require.True(t, ok)
	require.Equal(t, "print(1)\n", code)
}

func FuzzExtract(f *testing.F) {
	for _, s := range []string{
		"", "```python\nprint(1)\n```", "~~~\n'''\n~~~\n", "<think>```\n</think>", "```\n\"\"\"\n```\n\"\"\"\n```", "```py\nx```",
		"``` `\n\\\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		code, ok := Extract(s)
		if ok && strings.TrimSpace(code) == "" {
			t.Fatalf("blank code from %q", s)
		}
		if !strings.Contains(s, "\r") {
			if crlf, crlfOK := Extract(strings.ReplaceAll(s, "\n", "\r\n")); crlf != code || crlfOK != ok {
				t.Fatalf("with CRLF %q, with LF %q", crlf, code)
			}
		}
		if again, againOK := Extract("Sure.\n" + s); again != code || againOK != ok {
			if !strings.HasPrefix(s, "</think>") {
				t.Fatalf("a sentence before it changes %q to %q", code, again)
			}
		}
		// A program without fences and tags is extracted unchanged.
		if strings.ContainsAny(s, "`<\r") || strings.TrimSpace(s) == "" || strings.HasPrefix(s, "\n") {
			return
		}
		want := strings.TrimSuffix(s, "\n") + "\n"
		if got, ok := Extract("```python\n" + s + "\n```"); !ok || (got != want && got != s+"\n") {
			t.Fatalf("fenced %q came back as %q, %v", s, got, ok)
		}
	})
}
